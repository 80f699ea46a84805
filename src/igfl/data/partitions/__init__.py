"""Partitions: labels in, index lists out, with a passport."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from igfl.data.partitions.dirichlet import Dirichlet
from igfl.data.partitions.others import IID, Explicit, Proportions, Quantity, Writers
from igfl.data.partitions.passport import Floats, Partition, flat, hold_out
from igfl.data.partitions.rules import Rule
from igfl.data.partitions.shards import Shards
from igfl.names import unknown
from igfl.streams import Ints, Stream, stream

__all__ = [
    "IID",
    "RULES",
    "Dirichlet",
    "Explicit",
    "Partition",
    "Proportions",
    "Quantity",
    "Rule",
    "Shards",
    "Writers",
    "partition",
    "rule",
]  # fmt: skip

RULES: dict[str, type[Rule]] = {
    "shards": Shards,
    "dirichlet": Dirichlet,
    "proportions": Proportions,
    "iid": IID,
    "quantity": Quantity,
    "writers": Writers,
    "explicit": Explicit,
}


def rule(name: str, **options: Any) -> Rule:
    """The rule of this name."""
    if name not in RULES:
        raise unknown("split", name, RULES)
    known = {f.name: f.default for f in fields(RULES[name])}  # type: ignore[arg-type]  # all are dataclasses
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of {name}", option, known or ["none at all"])
        if isinstance(known[option], int | float) and not isinstance(value, int | float):
            raise ValueError(f"option of {name}, {option}={value!r}: give a number")
    return RULES[name](**options)


def partition(
    labels: Ints, rule: Rule, clients: int = 0, *, seed: int = 0, share: float = 0.0, holdout: float = 0.0
) -> Partition:
    """Divide rows with these labels by a rule; the same labels, rule and seed give the same lists on any machine.

    `share` gives that fraction of all rows to every client beside its own (Zhao et al. 2018): nobody's privacy is kept
    for those rows, for whoever holds one reads them all. `holdout` takes that fraction off each client's own rows, to
    test on.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels of shape {labels.shape}: give one label a row, for at least one row")
    if clients < 0 or (clients == 0 and not rule.natural):
        raise ValueError(f"clients={clients}: divide among at least one client")
    if not 0 <= share < 1:
        raise ValueError(f"share={share}: the fraction of rows that everybody holds lies between 0 and 1")
    draws = stream(seed, "partition")
    common = _common(len(labels), share, draws.at(1))
    index, offsets, drawn = _divide(labels, rule, clients, draws.at(0), common)
    parameters = {f.name: getattr(rule, f.name) for f in fields(rule) if f.name not in ("ids", "path")}  # type: ignore[arg-type]
    if len(common):
        parameters["share"] = share
    made = Partition(
        rule=next((name for name, kind in RULES.items() if type(rule) is kind), type(rule).__name__),
        parameters=parameters, seed=seed, index=index, offsets=offsets, drawn=drawn,
    )  # fmt: skip
    return hold_out(made, holdout, draws.at(2)) if holdout else made


def _common(rows: int, share: float, draws: Stream) -> Ints:
    return np.sort(draws.permutation(rows)[: round(share * rows)]) if share else np.empty(0, np.int64)


def _divide(labels: Ints, rule: Rule, clients: int, draws: Stream, common: Ints) -> tuple[Ints, Ints, Floats | None]:
    """The rule's lists over the rows that are not everybody's, and everybody's rows at the end of each."""
    if not len(common):
        divided = rule.divide(labels, clients, draws)
        return divided.index, divided.offsets, divided.drawn
    own = np.setdiff1d(np.arange(len(labels)), common)
    divided = rule.divide(labels if rule.natural else labels[own], clients, draws)
    index = divided.index if rule.natural else own[divided.index]
    lists = [rows[~np.isin(rows, common)] for rows in np.split(index, divided.offsets[1:-1])]
    return *flat([np.concatenate([rows, common]) for rows in lists]), divided.drawn
