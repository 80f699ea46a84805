"""The other rules: even, by class proportions, by unequal sizes, by who wrote it, from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from igfl.data.partitions.passport import Partition, flat
from igfl.data.partitions.rules import Divided, Rule, one_size
from igfl.streams import Ints, Stream

TRIES = 1000


@final
@dataclass(frozen=True)
class IID(Rule):
    """At random; sizes differ by at most one, and every row is held."""

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        one_size(len(labels), clients, "clients", cure=f"take at most {len(labels)} clients")
        cuts = np.arange(clients + 1) * len(labels) // clients
        return Divided(draws.permutation(len(labels)), cuts)


@final
@dataclass(frozen=True)
class Proportions(Rule):
    """Each class is divided among the clients by its own p ~ Dir(rho 1); drawn again until all have `least` rows.

    What many call the Dirichlet split (Yurochkin et al. 2019): sizes are unequal, and every row is held.
    """

    rho: float = 0.5
    least: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rho < float("inf") or self.least < 0:
            raise ValueError(f"rho={self.rho}, least={self.least}: rho is finite and above zero, least zero or more")

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        if len(labels) < clients * self.least:
            raise ValueError(
                f"proportions: {len(labels)} rows cannot give {clients} clients {self.least} each: take fewer clients"
            )
        rng = draws.numpy()
        order = rng.permutation(len(labels))
        rows = order[np.argsort(labels[order], kind="stable")]  # by class, shuffled within
        counts = np.unique(labels, return_counts=True)[1]
        for _ in range(TRIES):
            shares = np.cumsum(rng.dirichlet(np.full(clients, self.rho), size=len(counts)), axis=1)
            ends = np.rint(np.nan_to_num(shares, nan=1.0) * counts[:, None]).astype(np.int64)
            ends[:, -1] = counts
            portions = np.diff(ends, axis=1, prepend=0)  # [classes, clients]
            if portions.sum(0).min() >= self.least:
                owner = np.repeat(np.tile(np.arange(clients), len(counts)), portions.ravel())
                return Divided(rows[np.argsort(owner, kind="stable")], np.cumsum(np.append(0, portions.sum(0))))
        raise ValueError(
            f"proportions: in {TRIES} draws with rho={self.rho} some of {clients} clients had fewer than "
            f"{self.least} rows: raise rho, lower least, or take fewer clients"
        )


@final
@dataclass(frozen=True)
class Quantity(Rule):
    """At random, in log-normal sizes: n_k ~ exp(sigma z), z normal; at least one row each, and every row is held."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.sigma <= 20:
            raise ValueError(f"sigma={self.sigma}: the spread of log sizes lies between 0 (all equal) and 20")

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        spare = len(labels) - clients
        one_size(len(labels), clients, "clients", cure=f"take at most {len(labels)} clients")
        rng = draws.numpy()
        weights = np.exp(self.sigma * rng.standard_normal(clients))
        ends = np.rint(np.cumsum(weights) / weights.sum() * spare).astype(np.int64)
        sizes = 1 + np.diff(ends, prepend=0)
        return Divided(rng.permutation(len(labels)), np.cumsum(np.append(0, sizes)))


@final
@dataclass(frozen=True)
class Writers(Rule):
    """Natural clients: all rows of one id are one client's, in the order of the ids."""

    natural: ClassVar[bool] = True

    ids: Ints

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        if len(self.ids) != len(labels):
            raise ValueError(f"writers: {len(self.ids)} ids for {len(labels)} rows: give one id a row")
        found, sizes = np.unique(self.ids, return_counts=True)
        if clients not in (0, len(found)):
            raise ValueError(
                f"writers: the data has {len(found)} writers, not {clients}: leave the number of clients out"
            )
        return Divided(np.argsort(self.ids, kind="stable"), np.cumsum(np.append(0, sizes)))


@final
@dataclass(frozen=True)
class Explicit(Rule):
    """From a file of index lists, our own or anybody's JSON."""

    natural: ClassVar[bool] = True

    path: str | Path

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        found = Partition.load(self.path)
        if clients not in (0, found.clients):
            raise ValueError(
                f"{self.path}: has {found.clients} clients, not {clients}: leave the number of clients out"
            )
        if found.index.max(initial=0) >= len(labels):
            raise ValueError(
                f"{self.path}: names row {found.index.max()}, the data has {len(labels)} rows: another data set?"
            )
        return Divided(*flat([found.rows(k) for k in range(found.clients)]), found.drawn)
