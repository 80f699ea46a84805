"""`igfl list` and `igfl config schema`: what there is."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

config_app = typer.Typer(help="The configuration of a run.", no_args_is_help=True)


class What(StrEnum):
    """What can be listed."""

    presets = "presets"
    methods = "methods"
    models = "models"
    datasets = "datasets"
    splits = "splits"
    experiments = "experiments"
    claims = "claims"
    runs = "runs"


def show(
    what: Annotated[str, typer.Argument(help=", ".join(What))],
    under: Annotated[Path, typer.Option(help="Where run folders are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List presets, methods, models, data sets, splits, the paper's experiments and claims, or runs."""
    from igfl.names import unknown

    if what not in list(What):
        raise unknown("list", what, What)
    found = _found(What(what), under)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        width = max((len(name) for name in found), default=0) + 2
        typer.echo("\n".join(f"{name:<{width}}{about}" for name, about in found.items()) or f"no runs under {under}")


def _found(what: What, under: Path) -> dict[str, str]:
    from igfl.paper.claims import CLAIMS
    from igfl.paper.experiments import EXPERIMENTS
    from igfl.runs import catalogue
    from igfl.runs.presets import PRESETS

    if what is What.presets:
        return {name: about for name, (about, _) in PRESETS.items()}
    if what is What.runs:
        return {str(path.parent): _standing(path.parent) for path in sorted(under.glob("*/config.yaml"))}
    if what is What.experiments:
        return {name: table.title for name, table in EXPERIMENTS.items()}
    if what is What.claims:
        return {claim.name: claim.sentence for claim in CLAIMS}
    known = {
        What.methods: catalogue.METHODS, What.models: catalogue.MODELS, What.datasets: catalogue.DATASETS,
        What.splits: catalogue.RULES,
    }[what]  # fmt: skip
    return {name: ", ".join(options) for name, options in known.items()}


def _standing(path: Path) -> str:
    from igfl.runs.config import ConfigError
    from igfl.runs.folder import Folder

    folder = Folder.open(path)
    try:
        summary, config = folder.read("summary.json"), folder.config()
    except ConfigError as error:
        return f"unreadable: {error}"
    if summary and "diverged" in summary:
        return f"{config.method.name}, diverged at round {summary['diverged']}"
    if summary:
        score = summary.get("accuracy_last10pct")
        told = f", accuracy over the last tenth {100 * score:.2f}%" if score is not None else ""
        return f"{config.method.name}, {config.rounds} rounds{told}"
    rows = folder.rows()
    return f"{config.method.name}, {rows[-1]['round'] if rows else 0} of {config.rounds} rounds"


@config_app.command(epilog="Example: igfl config schema > igfl.schema.json")
def schema() -> None:
    """Print the JSON Schema of a run's configuration, for editors."""
    from igfl.runs.config import Config

    typer.echo(json.dumps(Config.model_json_schema(), indent=1))
