"""The five tables and two figures of the paper: which methods, on which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all methods of a column share. `rounds` are the paper's."""

    data: Literal["cifar10", "emnist"] = "cifar10"
    kind: Literal["silo", "device"]  # cross-silo: P=10, all in every round; cross-device: P=100, 10 a round
    split: Mapping[str, Any]
    epochs: int = 1  # E
    batch: int = 100  # B
    rounds: int

    @property
    def clients(self) -> int:
        """P."""
        return 10 if self.kind == "silo" else 100

    @property
    def cohort(self) -> int:
        """S."""
        return 10


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of methods against columns of settings; every pair of them is a cell."""

    name: str
    title: str
    rows: Mapping[str, Mapping[str, Any]]  # label -> method, as a run's configuration has it
    columns: Mapping[str, Setting]
    populations: int = 0  # > 0: seeds that differ in the partition, each of which is looked at

    def cells(self) -> list[Cell]:
        """All of them, column by column."""
        return [Cell(table=self.name, row=row, column=column) for column in self.columns for row in self.rows]


@dataclass(frozen=True, order=True, kw_only=True)
class Cell:
    """One number of a table."""

    table: str
    column: str
    row: str

    @property
    def method(self) -> Mapping[str, Any]:
        return EXPERIMENTS[self.table].rows[self.row]

    @property
    def setting(self) -> Setting:
        return EXPERIMENTS[self.table].columns[self.column]

    def __str__(self) -> str:
        return f"{self.table}, {self.column}, {self.row}"


def _silo(*, epochs: int, batch: int = 100, **split: Any) -> Setting:
    rounds = 5000 if epochs == 1 else 3000
    return Setting(kind="silo", split={"name": "shards", **split}, epochs=epochs, batch=batch, rounds=rounds)


def _device(rho: float, *, epochs: int, **split: Any) -> Setting:
    rounds = 10_000 if epochs == 1 else 4000
    return Setting(kind="device", split={"name": "dirichlet", "rho": rho, **split}, epochs=epochs, rounds=rounds)


def _emnist(rho: float) -> Setting:
    return Setting(data="emnist", kind="device", split={"name": "dirichlet", "rho": rho}, rounds=1500)


def _seven(attention: str) -> dict[str, Mapping[str, Any]]:
    """The methods that the paper compares; in tables with sampling the attention is global, else time."""
    return {
        "FedAvg": {"name": "fedavg"},
        "FedAvgM": {"name": "fedavgm", "beta": 0.9},
        "SCAFFOLD": {"name": "scaffold"},
        "FedAdam": {"name": "fedadam", "lr": 1.0, "tau": 0.1},
        "IGFL-C": {"name": "igfl_c"},
        "IGFL-S": {"name": "igfl_s", "attention": attention},
        "IGFL": {"name": "igfl", "attention": attention},
    }


RHOS = (1000.0, 1.0, 0.1)
ATTENTIONS = ("self", "global", "time")
PRIOR = "rho=0.1, E=1, Dir(rho q)"  # the paper's own formula, q a probability: ten times more concentrated

_TABLES = (
    Table(
        name="table1", title="CIFAR-10, cross-silo: sort-and-partition over 10 clients, all in every round",
        rows=_seven("time"), columns={f"E={e}": _silo(epochs=e) for e in (1, 5)},
    ),
    Table(
        name="table2", title="CIFAR-10, cross-device: Dirichlet over 100 clients, 10 a round",
        rows=_seven("global"),
        columns={
            **{f"rho={rho:g}, E={e}": _device(rho, epochs=e) for rho in RHOS for e in (1, 5)},
            PRIOR: _device(0.1, epochs=1, prior="probability"),
        },
    ),
    Table(
        name="table3", title="EMNIST, cross-device: Dirichlet over 100 clients, 10 a round",
        rows=_seven("global"), columns={f"rho={rho:g}": _emnist(rho) for rho in RHOS},
    ),
    Table(
        name="table4", title="CIFAR-10, cross-silo: local steps against momentum",
        rows={"FedAvgM": {"name": "fedavgm", "beta": 0.9}, "IGFL-C": {"name": "igfl_c"}},
        columns={f"B={b}, E={e}": _silo(epochs=e, batch=b) for b in (100, 20) for e in (1, 5)},
    ),
    Table(
        name="table5", title="CIFAR-10: three kinds of attention, without sampling and with it",
        rows={
            f"{label} {a}": {"name": name, "attention": a}
            for label, name in (("IGFL-S", "igfl_s"), ("IGFL", "igfl")) for a in ATTENTIONS
        },
        columns={"all clients": _silo(epochs=1), "10 of 100, rho=0.1": _device(0.1, epochs=1)},
    ),
)  # fmt: skip

_FIGURES = (
    Table(
        name="figure1", title="Accuracy against rounds, CIFAR-10, where clients differ most",
        rows=_seven("global"), columns={"rho=0.1, E=1": _device(0.1, epochs=1)},
    ),
    Table(
        name="figure2", title="Who attends to whom: self-attention among clients of two classes each, CIFAR-10",
        rows={"IGFL-S self": {"name": "igfl_s", "attention": "self"}},
        columns={"random": _silo(epochs=1), "paired": _silo(epochs=1, paired=True)}, populations=20,
    ),
)  # fmt: skip

TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
FIGURES: Mapping[str, Table] = {table.name: table for table in _FIGURES}
EXPERIMENTS: Mapping[str, Table] = {**TABLES, **FIGURES}

MOST_TELLING = (  # what is run first where time is short: table and column
    ("table2", "rho=0.1, E=1"), ("figure1", "rho=0.1, E=1"), ("table1", "E=1"), ("figure2", "random"),
    ("figure2", "paired"), ("table4", "B=100, E=1"), ("table4", "B=100, E=5"), ("table5", "all clients"),
    ("table2", "rho=1, E=1"),
)  # fmt: skip


def by_weight(cells: list[Cell]) -> list[Cell]:
    """The cells, most telling columns first, else in the order they were given."""
    order = {place: i for i, place in enumerate(MOST_TELLING)}
    return sorted(cells, key=lambda cell: order.get((cell.table, cell.column), len(order)))
