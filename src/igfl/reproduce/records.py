"""What came of every run, one JSON line each: small enough to be kept in a repository, all that tables are made of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from igfl.runs.config import Config, as_yaml
from igfl.runs.folder import Folder
from igfl.runs.run import identity

CURVE = 60  # points of a curve, at the most


@dataclass(frozen=True, kw_only=True)
class Record:
    """A run of one rate and one seed, trained so far."""

    trial: str  # short hash of all that decides its bits
    rounds: int
    accuracy: float | None = None  # mean over the last tenth of the rounds
    diverged: int | None = None  # in which round
    digest: str = ""
    seconds: float = 0.0
    bytes: int = 0  # up and down, in all
    steps: float = 0.0  # T of a visit, averaged over the clients
    curve: list[tuple[int, float]] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    attention: list[list[float]] | None = None  # of figure 2: the mean over rounds
    together: list[list[bool]] | None = None  # of figure 2: which clients share a label


def trial_of(config: Config) -> str:
    """The same for configurations that train the same bits, however long."""
    return identity(config, config.engine.name)[:12]


def record_of(folder: Folder, config: Config, diverged: int | None) -> Record:
    """What a run's folder tells."""
    rows, summary = folder.rows(), folder.read("summary.json") or {}
    sizes = [len(own) for own in (folder.read("partition.json") or {"clients": []})["clients"]]
    scored = [(int(row["round"]), round(row["global/accuracy"], 4)) for row in rows if "global/accuracy" in row]
    step = max(1, -(-len(scored) // CURVE))
    return Record(
        trial=trial_of(config), rounds=config.rounds, diverged=diverged, digest=rows[-1]["digest"] if rows else "",
        accuracy=None if diverged is not None else summary["accuracy_last10pct"],
        seconds=round(sum(row["time/round_s"] for row in rows), 1), steps=config.train.mean_steps(sizes),
        bytes=sum(row["comm/up_bytes"] + row["comm/down_bytes"] for row in rows), curve=scored[::-1][::step][::-1],
        config=as_yaml(config), environment=folder.read("environment.json") or {},
    )  # fmt: skip


class Ledger:
    """The records of one scale, in a file that only grows; the newest of a trial and a length counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[tuple[str, int], Record] = {}
        self._diverged: dict[str, Record] = {}
        text = path.read_text() if path.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self._take(Record(**json.loads(line)))
            except (ValueError, TypeError) as error:
                if number == text.count("\n") + 1:  # torn while it was written
                    path.write_text(text[: text.rfind("\n") + 1])
                    break
                raise ValueError(f"{path}, line {number}: no record of ours ({error}); take the line out") from error

    def find(self, config: Config) -> Record | None:
        """What is known of this run at its full length; of one that diverged before, that it did."""
        trial = trial_of(config)
        fell = self._diverged.get(trial)
        if fell is not None and (fell.diverged or 0) < config.rounds:
            return fell
        return self._records.get((trial, config.rounds))

    def add(self, record: Record) -> None:
        """One more line, on the disk before anything else happens."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({name: value for name, value in asdict(record).items() if value is not None}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(record)

    def _take(self, record: Record) -> None:
        self._records[record.trial, record.rounds] = record
        if record.diverged is not None:
            self._diverged[record.trial] = record
