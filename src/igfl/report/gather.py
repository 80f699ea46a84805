"""From run folders to all that a page shows of them, thinned so that it stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from igfl.report.behaviour import behaviour_of
from igfl.runs.config import Config
from igfl.runs.folder import Folder
from igfl.runs.run import identity

POINTS = 400  # of a curve
SERIES = (
    "global/accuracy", "global/loss", "train/loss", "clients/accuracy_mean", "clients/accuracy_p10",
    "clients/accuracy_worst", "drift/norm_mean", "drift/norm_max", "drift/cosine", "attention/entropy",
    "attention/max", "time/round_s",
)  # fmt: skip
SUMMARY = (
    "accuracy_last10pct", "accuracy_best", "accuracy_last", "seconds", "down_bytes", "up_bytes", "rejected", "diverged",
)  # fmt: skip
BEHAVIOUR_NUMBERS = 400_000  # of all snapshots of all runs


def gathered(folders: Sequence[Path]) -> dict[str, Any]:
    """The runs, which of them differ in their seed alone, and their partitions."""
    runs, partitions = [], dict[str, dict[str, Any]]()
    for path in folders:
        folder = Folder.open(path)
        config = folder.config()
        partition = _partition(folder)
        if partition is not None:
            partitions.setdefault(partition["sha256"], partition)
        behaviour = behaviour_of(path / "behaviour", partition, BEHAVIOUR_NUMBERS // len(folders))
        runs.append(_run(folder, config, partition) | {"behaviour": behaviour})
    return {"runs": runs, "groups": grouped(runs), "partitions": partitions}


def _run(folder: Folder, config: Config, partition: Mapping[str, Any] | None) -> dict[str, Any]:
    rows, summary = folder.rows(), folder.read("summary.json") or {}
    return {
        "name": folder.path.name, "seed": config.seed, "rounds": config.rounds, "label": label(config),
        "digest": rows[-1]["digest"] if rows else "", "done": rows[-1]["round"] if rows else 0,
        "summary": {name: summary[name] for name in SUMMARY if name in summary},
        "config": dotted(config.model_dump(mode="json")), "environment": dotted(folder.read("environment.json") or {}),
        "partition": None if partition is None else partition["sha256"],
        "steps": None if partition is None else config.train.mean_steps(partition["sizes"]),
        "series": series_of(rows), "kin": _but_for_its_seed(config),
    }  # fmt: skip


def series_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Name -> rounds, cumulated bytes and values, at most so many of each, the last among them."""
    rounds = np.array([row["round"] for row in rows])
    sent = np.cumsum([row.get("comm/up_bytes", 0) + row.get("comm/down_bytes", 0) for row in rows])
    found = {}
    for name in SERIES:
        values = np.array([row.get(name, np.nan) for row in rows], dtype=float)
        there = np.flatnonzero(np.isfinite(values))
        if not len(there):
            continue
        chosen = there[np.unique(np.linspace(0, len(there) - 1, min(POINTS, len(there))).astype(int))]
        found[name] = {
            "round": rounds[chosen].tolist(), "bytes": sent[chosen].tolist(),
            "value": [float(f"{value:.5g}") for value in values[chosen]],
        }  # fmt: skip
    return found


def _partition(folder: Folder) -> dict[str, Any] | None:
    """What of it is shown; counts [clients, classes] where there are not too many."""
    kept = folder.read("partition.json")
    if kept is None:
        return None
    passport = kept["passport"]
    return {
        "sha256": passport["sha256"], "rule": passport["rule"], "parameters": passport["parameters"],
        "sizes": [len(rows) for rows in kept["clients"]], "counts": kept.get("counts"),
    }  # fmt: skip


def _but_for_its_seed(config: Config) -> str:
    """Equal where runs differ in seed alone, and in what decides no bit."""
    split = config.split.model_copy(update={"seed": None})
    return identity(config.model_copy(update={"seed": 0, "split": split}), config.engine.name)


def label(config: Config) -> str:
    """A run's method and rate."""
    options = [f"{key}={value}" for key, value in config.method.options.items() if key != "attention"]
    return " ".join([config.method.title, *options, f"lr={config.train.lr:g}"])


def grouped(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in seed alone belong together; the label says in what groups of one method differ."""
    found: dict[str, dict[str, Any]] = {}
    for i, run in enumerate(runs):
        key = run["kin"]
        found.setdefault(key, {"label": run["label"], "runs": []})["runs"].append(i)
    groups = list(found.values())
    for group in groups:
        twins = [other for other in groups if other["label"] == group["label"]]
        if len(twins) > 1:
            group["label"] = f"{group['label']} ({runs[group['runs'][0]]['name']})"
    return groups


def dotted(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested keys as section.key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= dotted(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found
