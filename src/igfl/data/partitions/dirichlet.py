"""Dirichlet label mixtures over clients of equal size (Hsu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from igfl.data.partitions.passport import Floats
from igfl.data.partitions.rules import Divided, Rule, one_size
from igfl.names import unknown
from igfl.streams import Ints, Stream

BLOCK = 8192  # draws dealt at once


@final
@dataclass(frozen=True)
class Dirichlet(Rule):
    """Client k draws a mixture q_k ~ Dir(rho 1), then its examples class by class from the pools, without replacement.

    When a class runs out, the rest of every mixture is renormalised. `rotate`: clients take turns, one draw at a time;
    `sequence`: client after client; `refill`: a class that ran out is filled again, so that rows may be held twice.
    `prior="probability"` draws from Dir(rho q), q the classes' share of the data: ten times more concentrated on ten.
    """

    rho: float = 1.0
    order: Literal["rotate", "sequence", "refill"] = "rotate"
    prior: Literal["ones", "probability"] = "ones"

    def __post_init__(self) -> None:
        if not 0 < self.rho < float("inf"):
            raise ValueError(f"rho={self.rho}: the concentration is a finite number above zero")
        if self.order not in ("rotate", "sequence", "refill"):
            raise unknown("order", self.order, ("rotate", "sequence", "refill"))
        if self.prior not in ("ones", "probability"):
            raise unknown("prior", self.prior, ("ones", "probability"))

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        size = one_size(len(labels), clients, "clients", cure=f"take at most {len(labels)} clients")
        classes, y = np.unique(labels, return_inverse=True)
        prior = np.bincount(y) / len(y) if self.prior == "probability" else np.ones(len(classes))
        rng = draws.numpy()
        mixtures = _mixtures(self.rho * prior, clients, rng)
        pools = [
            rng.permutation(rows) for rows in np.split(np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))[:-1])
        ]
        dealer = _Dealer(pools, refill=self.order == "refill", rng=rng)
        everybody = np.arange(clients)
        turns = np.tile(everybody, size) if self.order == "rotate" else np.repeat(everybody, size)
        dealt = np.concatenate([dealer.deal(mixtures, turns[i : i + BLOCK]) for i in range(0, len(turns), BLOCK)])
        rows = dealt.reshape(size, clients).T if self.order == "rotate" else dealt
        drawn = np.zeros((clients, int(labels.max()) + 1))
        drawn[:, classes] = mixtures
        return Divided(np.ascontiguousarray(rows).ravel(), np.arange(clients + 1) * size, drawn)


def _mixtures(alpha: Floats, clients: int, rng: np.random.Generator) -> Floats:
    """[clients, classes]; where rho is so small that a draw underflows, all its weight is on one class."""
    if len(alpha) == 1:
        return np.ones((clients, 1))
    mixtures = np.nan_to_num(rng.dirichlet(alpha, size=clients))
    lost = mixtures.sum(1) < 0.5
    mixtures[lost] = np.eye(len(alpha))[rng.choice(len(alpha), size=int(lost.sum()), p=alpha / alpha.sum())]
    return mixtures


@dataclass
class _Dealer:
    """The pools, one a class, and how far each is dealt."""

    pools: list[Ints]
    refill: bool
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.stock = np.array([len(pool) for pool in self.pools])
        self.dealt = np.zeros_like(self.stock)

    def deal(self, mixtures: Floats, turns: Ints) -> Ints:
        """One row for the client of each turn, as if each drew when its turn came.

        Up to the turn that takes the last of a class all are dealt together; then again, from what is left.
        """
        uniforms = self.rng.random(len(turns))
        rows = np.empty(len(turns), np.int64)
        start = 0
        while start < len(turns):
            left = self.stock - self.dealt
            classes = _draw(mixtures[turns[start:]], uniforms[start:], left)
            emptied = np.flatnonzero(_occurrences(classes) + 1 >= left[classes])
            end = start + int(emptied[0]) + 1 if len(emptied) else len(turns)
            self._hand_out(classes[: end - start], rows[start:end])
            start = end
        return rows

    def _hand_out(self, classes: Ints, rows: Ints) -> None:
        for k in np.unique(classes):
            mine = np.flatnonzero(classes == k)
            rows[mine] = self.pools[k][self.dealt[k] : self.dealt[k] + len(mine)]
            self.dealt[k] += len(mine)
            if self.refill and self.dealt[k] == self.stock[k]:
                self.pools[k], self.dealt[k] = self.rng.permutation(self.pools[k]), 0


def _draw(mixtures: Floats, uniforms: Floats, left: Ints) -> Ints:
    """A class from each mixture over what is left; from the stock itself where all of a mixture's classes are gone."""
    weights = np.where(left > 0, mixtures, 0.0)
    weights[weights.sum(1) <= 0] = left / max(left.sum(), 1)
    heights = np.cumsum(weights, axis=1)
    last = len(left) - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)  # rounding must not lead past the last class left
    classes: Ints = np.minimum((heights <= (uniforms * heights[:, -1])[:, None]).sum(1), last)
    return classes


def _occurrences(values: Ints) -> Ints:
    """How often each value stood before: [3, 1, 3, 3] -> [0, 0, 1, 2]."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values)) - np.repeat(first, np.diff(np.append(first, len(values))))
    return rank
