"""Run what is missing of some cells, the most telling first, several side by side, until all is there or time is up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import numpy as np

from igfl.data.sets import load
from igfl.paper.experiments import EXPERIMENTS, Cell, by_weight
from igfl.paper.scales import Scale
from igfl.report.behaviour import mean_attention
from igfl.report.matching import share_labels
from igfl.reproduce.records import Ledger, Record, record_of, trial_of
from igfl.reproduce.search import outcome_of
from igfl.runs.config import Config
from igfl.runs.folder import Folder
from igfl.runs.lanes import Ended, Lanes, Order, Told

Tell = Callable[[str], None]


@dataclass
class Campaign:
    """Cells at one scale; every run has a folder under `work`, every finished one a record in the ledger."""

    cells: Sequence[Cell]
    size: Scale
    ledger: Ledger
    work: Path
    workers: int
    deadline: float | None = None  # of monotonic(): no run is begun, and those under way stop, after it
    stopping: Callable[[], bool] = lambda: False
    tell: Tell = lambda _: None
    failures: dict[str, str] = field(default_factory=dict)  # run -> why
    _waiting: dict[str, Config] | None = None  # as it was when it was last looked up

    def missing(self) -> dict[str, Config]:
        """The runs that can be begun now, most telling first; cells that are alike share theirs."""
        found: dict[str, Config] = {}
        for cell in by_weight(list(self.cells)):
            for config in outcome_of(cell, self.size, self.ledger).missing:
                found.setdefault(trial_of(config), config)
        return {trial: config for trial, config in found.items() if trial not in self.failures}

    def run(self) -> None:
        """Until nothing is missing, time is up, or somebody asks to stop."""
        orders: dict[str, Order] = {}
        for data in {json.dumps(c.data.model_dump(), sort_keys=True): c.data for c in self.missing().values()}.values():
            load(data.name, **data.options)  # refused before any work, where it is not there
        with Lanes(self.workers) as lanes:
            while True:
                if not self._over():
                    self._begin(lanes, orders)
                if not lanes.busy:
                    break
                for event in lanes.events(1.0):
                    self._heard(orders[event.key], event)
                if self._over():
                    lanes.stop()

    def _over(self) -> bool:
        return self.stopping() or (self.deadline is not None and monotonic() >= self.deadline)

    def _begin(self, lanes: Lanes, orders: dict[str, Order]) -> None:
        """Fill the lanes; where there are fewer runs than lanes, each trains on more than one core."""
        if lanes.free <= 0:
            return
        if self._waiting is None:
            self._waiting = self.missing()
        waiting = {trial: config for trial, config in self._waiting.items() if trial not in lanes.busy}
        share = max(1, lanes.count // max(1, len(waiting) + len(lanes.busy)))
        for trial, config in list(waiting.items())[: lanes.free]:
            engine = config.engine.model_copy(update={"name": "processes", "workers": share}) if share > 1 else None
            order = Order(
                key=trial, folder=self.work / f"{config.name}-{config.method.name}-{trial}",
                config=config if engine is None else config.model_copy(update={"engine": engine}),
            )  # fmt: skip
            orders[trial] = order
            self.tell(f"begin   {described(config)}")
            lanes.begin(order)

    def _heard(self, order: Order, event: Told | Ended) -> None:
        if isinstance(event, Told):
            return
        self._waiting = None
        if event.failed:
            self.failures[event.key] = event.failed
            self.tell(f"FAILED  {described(order.config)}: {event.failed}")
        elif event.finished or event.diverged is not None:
            record = self._record(order, event)
            self.ledger.add(record)
            how = f"diverged in round {event.diverged}" if record.accuracy is None else f"{100 * record.accuracy:.2f}%"
            self.tell(f"end     {described(order.config)}: {how}, {record.seconds:.0f} s")
        else:
            self.tell(f"stopped {described(order.config)} after round {event.round}")

    def _record(self, order: Order, event: Ended) -> Record:
        """The record says `loop`, whatever engine trained: its bits are the same."""
        config = order.config.model_copy(
            update={"engine": order.config.engine.model_copy(update={"name": "loop", "workers": None})}
        )
        record = record_of(Folder.open(order.folder), config, event.diverged)
        if not EXPERIMENTS[config.name].populations or event.diverged is not None:
            return record
        attention = mean_attention(order.folder / "behaviour")
        partition = Folder.open(order.folder).read("partition.json") or {}
        return replace(
            record, attention=attention.tolist(), together=share_labels(np.array(partition["counts"])).tolist()
        )


def described(config: Config) -> str:
    """A run in a few words."""
    split = " ".join([config.split.name, *(f"{name}={value}" for name, value in config.split.options.items())])
    train = f"B={config.train.batch}, E={config.train.epochs}, lr={config.train.lr:g}"
    return f"{config.name}: {config.method.title}, {split}, {train}, seed {config.seed}, {config.rounds} rounds"
