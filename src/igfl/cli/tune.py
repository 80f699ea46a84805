"""`igfl tune`: the same search for every method, and a preset of what it found."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from igfl.runs.tune import Space, Tuned

BARS = "▁▂▃▄▅▆▇█"


def tune(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="A preset or FILE.yaml, then section.key=value, in any number.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Search for this one; may be given more than once.")] = None,
    over: Annotated[
        list[str] | None, typer.Option(help="What is searched: key=value,value,...; else train.lr, the paper's rates.")
    ] = None,
    sampler: Annotated[str, typer.Option(help="grid, or tpe: between the outermost values.")] = "grid",
    trials: Annotated[int | None, typer.Option(help="Of each method; else the whole grid, or as many.")] = None,
    pruner: Annotated[str, typer.Option(help="median: end what lies below the others; none.")] = "median",
    workers: Annotated[int | None, typer.Option(help="Trials side by side; else one a core.")] = None,
    under: Annotated[Path, typer.Option(help="Where trials, runs and presets are kept.")] = Path("runs/tune"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """Search for the best values, the same for every method, trials side by side; the same command goes on."""
    from igfl.cli.run import configured, interruptible

    base = configured(arguments or [])
    space = _space(over or [])
    _check(sampler, pruner, trials, workers)
    from igfl.exact import cores
    from igfl.runs.tune import Search, with_values

    lanes = 1 if base.engine.name == "ray" else workers or cores()
    own = base.engine.workers is not None or base.engine.name == "ray"
    bases = {name: with_values(base, {"method": name}) for name in method} if method else {base.method.title: base}
    for config, (key, values) in product(bases.values(), space.items()):
        for value in values:
            with_values(config, {key: value})  # what cannot be is refused before any work
    with interruptible() as asked:
        search = Search(
            bases=bases, space=space, folder=under, sampler=sampler, trials=trials, pruner=pruner, workers=lanes,  # type: ignore[arg-type]  # just compared
            running={} if own else {"engine.workers": max(1, cores() // lanes)}, stopping=lambda: bool(asked),
            tell=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
        found = search.run()
    for failure in search.failures:
        print(f"igfl: a trial failed: {failure}", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps([asdict(tuned) for tuned in found], default=str))
    else:
        typer.echo("\n\n".join(_told(tuned, space) for tuned in found))
    if search.failures:
        raise typer.Exit(1)


def _check(sampler: str, pruner: str, trials: int | None, workers: int | None) -> None:
    from igfl.names import unknown

    for kind, value, known in (("sampler", sampler, ("grid", "tpe")), ("pruner", pruner, ("median", "none"))):
        if value not in known:
            raise unknown(kind, value, known)
    for kind, count in (("trials", trials), ("workers", workers)):
        if count is not None and count < 1:
            raise ValueError(f"{kind}={count}: at least one")


def _space(over: list[str]) -> Space:
    from igfl.paper.scales import GRID
    from igfl.runs.config import ConfigError
    from igfl.runs.reading import parsed

    space: dict[str, list[Any]] = {}
    for text in over:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise ConfigError(f"over={text!r}: say what is searched as key=value,value, as in train.lr=0.01,0.1")
        chosen = [parsed(key, value) for value in values.split(",")]
        if any(isinstance(value, list | dict) for value in chosen):
            raise ConfigError(f"over={text!r}: values are numbers, words or null")
        space[key] = list(dict.fromkeys(chosen))
    return space or {"train.lr": list(GRID)}


def _told(tuned: Tuned, space: Space) -> str:
    """The best values, and for every key a strip: the best accuracy at each of its values."""
    from igfl.runs.tune import words

    if tuned.best is None or tuned.best.accuracy is None:
        return f"{tuned.method}: every trial diverged or failed; lower rates may hold"
    lines = [
        f"{tuned.method}: {words(tuned.best.values)}: {100 * tuned.best.accuracy:.2f}% after {len(tuned.tried)} trials"
    ]
    for key in space:
        lines += [f"  {key}", *_strip(tuned, key)]
    for key in tuned.edges:
        lines.append(f"  {key}: the best value is on the edge of what was searched: search beyond it")
    return "\n".join([*lines, f"  preset: {tuned.preset}"])


def _strip(tuned: Tuned, key: str) -> list[str]:
    values = sorted({t.values[key] for t in tuned.tried}, key=lambda v: (v is None, isinstance(v, str), v or 0))
    best: list[tuple[Any, float | None, str]] = []
    for value in values:
        there = [t for t in tuned.tried if t.values[key] == value]
        whole = [t.accuracy for t in there if t.accuracy is not None]
        best.append((value, max(whole, default=None), "" if whole else there[0].how))
    known = [accuracy for _, accuracy, _ in best if accuracy is not None]
    low, high = min(known), max(known)
    return [
        f"    {value!s:>10}  " + (how if accuracy is None else f"{_bar(accuracy, low, high)} {100 * accuracy:.2f}%")
        for value, accuracy, how in best
    ]


def _bar(value: float, low: float, high: float) -> str:
    return BARS[round((len(BARS) - 1) * (value - low) / (high - low))] if high > low else BARS[-1]
