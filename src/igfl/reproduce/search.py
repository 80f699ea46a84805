"""From a cell to the runs it takes: every rate for a part of the rounds, then the best of them to the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from math import inf
from statistics import mean, stdev

from igfl.paper.experiments import EXPERIMENTS, Cell
from igfl.paper.scales import Scale, config_of
from igfl.reproduce.records import Ledger, Record
from igfl.runs.config import Config


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known of a cell."""

    cell: Cell
    missing: Sequence[Config] = ()  # runs that can be begun now
    tuning: Mapping[float, Record] = field(default_factory=dict)  # rate -> its trial, as far as it was tried
    rate: float | None = None  # the best
    records: Mapping[int, Record] = field(default_factory=dict)  # seed -> the run at that rate
    diverged: int | None = None  # every rate did: the latest round

    @property
    def accuracies(self) -> dict[int, float]:
        """By seed."""
        return {seed: record.accuracy for seed, record in self.records.items() if record.accuracy is not None}

    @property
    def mean(self) -> float | None:
        return mean(self.accuracies.values()) if self.accuracies else None

    @property
    def spread(self) -> float | None:
        """The deviation over seeds, where there are two or more."""
        return stdev(self.accuracies.values()) if len(self.accuracies) > 1 else None

    @property
    def on_the_edge(self) -> bool:
        """Whether the best rate is the grid's lowest or highest, so that a better one may lie beyond."""
        return len(self.tuning) > 1 and self.rate in (min(self.tuning), max(self.tuning))


def looking(size: Scale, ledger: Ledger) -> Callable[[Cell], Outcome]:
    """What is known of cells, each looked up once."""
    return cache(lambda cell: outcome_of(cell, size, ledger))


def outcome_of(cell: Cell, size: Scale, ledger: Ledger) -> Outcome:
    """What the records say of a cell, and what is missing."""
    if EXPERIMENTS[cell.table].populations:
        return _of_populations(cell, size, ledger)
    rounds = size.rounds_of(cell.setting)
    trials = {rate: config_of(cell, size, rate, 0, max(1, round(size.tuning * rounds))) for rate in size.rates}
    tuning = {rate: record for rate, config in trials.items() if (record := ledger.find(config)) is not None}
    if len(tuning) < len(trials):
        return Outcome(cell=cell, tuning=tuning, missing=[c for rate, c in trials.items() if rate not in tuning])
    return _finals(cell, size, ledger, tuning)


def _finals(cell: Cell, size: Scale, ledger: Ledger, tuning: Mapping[float, Record]) -> Outcome:
    """The best rate's runs; where one diverges after all, the next best rate's."""
    last = max((record.diverged or 0) for record in tuning.values())
    standing = [rate for rate, record in tuning.items() if record.diverged is None]
    for rate in sorted(standing, key=lambda rate: (-(tuning[rate].accuracy or -inf), rate)):
        records, missing = _by_seed(ledger, size.seeds, partial(config_of, cell, size, rate))
        fell = [record.diverged for record in records.values() if record.diverged is not None]
        if fell:
            last = max(last, *fell)
            continue
        return Outcome(cell=cell, tuning=tuning, rate=rate, records=records, missing=missing)
    return Outcome(cell=cell, tuning=tuning, diverged=last)


def _of_populations(cell: Cell, size: Scale, ledger: Ledger) -> Outcome:
    """One run a population, at the rate in the middle of the grid: nothing is tuned."""
    rate = size.rates[len(size.rates) // 2]
    records, missing = _by_seed(ledger, size.populations, partial(config_of, cell, size, rate))
    bare = {s: r for s, r in records.items() if r.attention is None and r.diverged is None}  # of another experiment
    missing = [*(config_of(cell, size, rate, seed) for seed in bare), *missing]
    return Outcome(cell=cell, rate=rate, records={s: r for s, r in records.items() if s not in bare}, missing=missing)


def _by_seed(ledger: Ledger, least: int, config: Callable[[int], Config]) -> tuple[dict[int, Record], list[Config]]:
    """The records of all seeds there are, and what is missing of the first so many."""
    records, missing = dict[int, Record](), []
    for seed in count():
        record = ledger.find(config(seed))
        if record is not None:
            records[seed] = record
        elif seed < least:
            missing.append(config(seed))
        else:
            return records, missing
    raise AssertionError
