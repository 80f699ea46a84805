"""`igfl data`: get data sets and verify them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from igfl.data import DataSet

app = typer.Typer(help="Get data sets and verify them.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option(help="The folder; else IGFL_DATA_DIR, else the cache folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="cifar10, mnist, mnist_writers, emnist, digits.")]


@app.command(epilog="Example: igfl data fetch mnist_writers")
def fetch(name: Name, folder: Folder = None) -> None:
    """Download a data set from its official address, and verify it."""
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    from igfl.data.fetch import fetch as download

    with Progress(*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn()) as progress:
        bars: dict[str, int] = {}

        def show(file: str, have: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file, total=total)
            progress.update(bars[file], completed=have)  # type: ignore[arg-type]  # rich's TaskID is an int

        found = download(name, folder, progress=show)
    _show(found, as_json=False)


@app.command(epilog="Example: igfl data check cifar10 --folder ~/data")
def check(name: Name, folder: Folder = None, as_json: AsJson = False) -> None:
    """Read a copy whole, compare it with the official one, and say what it holds."""
    from igfl.data import load

    options = {"path": folder} if folder else {}
    _show(load(name, **options), as_json)


def _show(found: DataSet, as_json: bool) -> None:
    facts = {
        "name": found.name,
        "train": len(found.x),
        "test": len(found.test.x),
        "shape": list(found.shape),
        "classes": len(found.classes),
        "writers": None if found.writers is None else len(set(found.writers.tolist())),
        "source": found.source,
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    writers = f", {facts['writers']} writers" if facts["writers"] else ""
    shape = "x".join(map(str, found.shape))
    typer.echo(
        f"{found.name}: {len(found.x):,} + {len(found.test.x):,} of {shape}, {len(found.classes)} classes{writers}, "
        f"complete, in {found.source}"
    )
