"""`igfl split`: make partitions, read them, look at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from igfl.data import DataSet, Partition

COMMON = {"clients": int, "seed": int, "share": float, "holdout": float}  # of every rule

app = typer.Typer(help="Make partitions, read them, look at them.", no_args_is_help=True)


@app.command(epilog="Example: igfl split show cifar10 dirichlet clients=100 rho=0.1 --draw pictures/rho01")
def show(
    data: Annotated[str, typer.Argument(help="A data set by name.")],
    rule: Annotated[str, typer.Argument(help="shards, dirichlet, proportions, iid, quantity, writers, or saved.json.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(help="clients=10 seed=0 share=0.05 holdout=0.1, and the rule's own: rho=0.1"),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the data is; else IGFL_DATA_DIR or the cache.")] = None,
    draw: Annotated[Path | None, typer.Option(help="Draw it into this path, .png and .svg added.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save it as JSON: passport and index lists.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the passport as JSON.")] = False,
) -> None:
    """Print a partition's passport, and draw it."""
    given = dict(_option(text) for text in options or [])
    found, made = _divide(data, folder, rule, given)
    labels = found.y.numpy()
    passport = made.passport(labels)
    if as_json:
        typer.echo(json.dumps(passport))
    else:
        for key, value in passport.items():
            typer.echo(f"{key:<24}{_words(value)}")
    if save:
        made.save(save, labels)
        typer.echo(f"saved {save}", err=True)
    if draw:
        from igfl.report.partitions import draw_partition

        parameters = f" ({_words(made.parameters)})" if made.parameters else ""
        title = f"{found.name}, {made.rule}{parameters}, {made.clients} clients, seed {made.seed}"
        for path in draw_partition(made.counts(labels, len(found.classes)), found.classes, title, draw):
            typer.echo(f"drew {path}", err=True)


def _divide(data: str, folder: Path | None, name: str, given: dict[str, Any]) -> tuple[DataSet, Partition]:
    from igfl.data import Explicit, Writers, load, partition
    from igfl.data.partitions import RULES, Rule, rule

    found = load(data, **({"path": folder} if folder else {}))
    common = {key: _number(key, given.pop(key), kind) for key, kind in COMMON.items() if key in given}
    chosen: Rule
    if name not in RULES and Path(name).suffix == ".json":
        chosen = Explicit(name)
    elif name == "writers":
        if found.writers is None:
            raise ValueError(f"data={data!r} does not say who wrote what: take mnist_writers, or another rule")
        chosen = Writers(found.writers.numpy())
    else:
        chosen = rule(name, **given)
        common.setdefault("clients", 10)
    return found, partition(found.y.numpy(), chosen, **common)


def _number(key: str, value: Any, kind: type) -> Any:
    if isinstance(value, int | kind):
        return value
    raise ValueError(f"{key}={value}: give a {'whole ' if kind is int else ''}number")


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r}: give options as key=value, as in clients=10")
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(v)}" for key, v in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
