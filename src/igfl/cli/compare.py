"""`igfl compare`: whether runs are equal, and where they part if they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say of every run whether it equals the first, or name the first round and array that differ."""
    from igfl.runs.config import ConfigError
    from igfl.runs.digest import first_difference
    from igfl.runs.folder import Folder

    if len(runs) < 2:
        raise ConfigError("compare takes two runs or more: igfl compare runs/a-001 runs/a-002")
    first, *others = [Folder.open(path) for path in runs]
    found = []
    for other in others:
        one, two = first.rows(), other.rows()
        difference = first_difference(one, two)
        found.append({
            "run": str(other.path), "rounds": [len(one), len(two)],
            "equal": difference is None and len(one) == len(two),
            "first_difference": None if difference is None else {"round": difference.round, "array": difference.array},
            "environment": _unlike(first.read("environment.json") or {}, other.read("environment.json") or {}),
            "config": _unlike(first.config().model_dump(mode="json"), other.config().model_dump(mode="json")),
            "accuracy_last10pct": [(f.read("summary.json") or {}).get("accuracy_last10pct") for f in (first, other)],
        })  # fmt: skip
    typer.echo(json.dumps(found) if as_json else "\n".join(_told(str(first.path), each) for each in found))


def _told(first: str, found: dict[str, Any]) -> str:
    one, two = found["rounds"]
    if found["equal"]:
        lines = [f"{found['run']} equals {first}: {one} rounds"]
    elif found["first_difference"] is None:
        lines = [f"{found['run']} equals {first} as far as both go: {two} and {one} rounds"]
    else:
        where = found["first_difference"]
        lines = [f"{found['run']} differs from {first} from round {where['round']} on, first in {where['array']}"]
    for kind in ("config", "environment"):
        lines += [f"  {kind} {key}: {mine} there, {theirs} here" for key, (mine, theirs) in found[kind].items()]
    scores = found["accuracy_last10pct"]
    if None not in scores:
        lines.append(f"  accuracy over the last tenth: {100 * scores[0]:.2f}% there, {100 * scores[1]:.2f}% here")
    return "\n".join(lines)


def _unlike(one: dict[str, Any], other: dict[str, Any], above: str = "") -> dict[str, tuple[Any, Any]]:
    """The keys, dotted, whose values differ."""
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted(one.keys() | other.keys()):
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found |= _unlike(a, b, f"{above}{key}.")
        elif a != b:
            found[f"{above}{key}"] = (a, b)
    return found
