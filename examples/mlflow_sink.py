"""A run told to MLflow: python examples/mlflow_sink.py (pip install mlflow)."""

from __future__ import annotations

from pathlib import Path

from igfl.runs.build import build
from igfl.runs.config import load
from igfl.runs.folder import Folder
from igfl.runs.rows import Row
from igfl.runs.run import Run
from igfl.runs.sinks import Sinks


def to_mlflow(row: Row) -> None:
    import mlflow

    mlflow.log_metrics({name: value for name, value in row.items() if "/" in name}, step=row["round"])


if __name__ == "__main__":
    config = load(None, ["rounds=20"])
    built = build(config)
    with built.engine() as engine:
        Run(Folder.new(Path("runs"), config), built, sinks=Sinks((lambda _round: to_mlflow,))).go(engine)
