"""A run told to Weights & Biases: python examples/wandb_sink.py (pip install wandb)."""

from __future__ import annotations

from pathlib import Path

from igfl.runs.build import build
from igfl.runs.config import load
from igfl.runs.folder import Folder
from igfl.runs.rows import Row
from igfl.runs.run import Run
from igfl.runs.sinks import Sink, Sinks


def begin(round: int) -> Sink:
    """The run there, whose steps begin after this round; set WANDB_MODE=offline to keep it here."""
    import wandb

    there = wandb.init(project="igfl", resume="allow")

    def tell(row: Row) -> None:
        if row["round"] > round:
            there.log({name: value for name, value in row.items() if "/" in name}, step=row["round"])

    return tell


if __name__ == "__main__":
    config = load(None, ["rounds=20"])
    built = build(config)
    with built.engine() as engine:
        Run(Folder.new(Path("runs"), config), built, sinks=Sinks((begin,))).go(engine)
