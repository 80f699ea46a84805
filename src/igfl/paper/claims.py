"""What the paper claims: each claim a sentence, the rule that decides it, and with it the cells it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from igfl.paper.experiments import ATTENTIONS, TABLES, Cell
from igfl.paper.printed import ABSTRACT, MATCHING

PRIOR_METHODS = ("FedAvg", "FedAvgM", "SCAFFOLD", "FedAdam")


@dataclass(frozen=True, kw_only=True)
class Beats:
    """On every pair, the first is more accurate than all of the others, by more than `by`."""

    pairs: Sequence[tuple[Cell, Sequence[Cell]]]
    by: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Grows:
    """The lead of the first of a pair over the second is larger on the last pair than on the first one."""

    leads: Sequence[tuple[Cell, Cell]]


@dataclass(frozen=True, kw_only=True)
class Finds:
    """The matching rate, averaged over populations, reaches this."""

    cells: Sequence[Cell]
    rate: float


Rule: TypeAlias = Beats | Grows | Finds


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper, as exactly as a rule can take it."""

    name: str
    sentence: str
    rule: Rule

    @property
    def cells(self) -> list[Cell]:
        """All it needs."""
        match self.rule:
            case Beats(pairs=pairs):
                needed = [cell for better, others in pairs for cell in (better, *others)]
            case Grows(leads=leads):
                needed = [cell for pair in leads for cell in pair]
            case Finds(cells=cells):
                needed = list(cells)
        return list(dict.fromkeys(needed))


def _cell(table: str, column: str, row: str) -> Cell:
    return Cell(table=table, column=column, row=row)


def _against(table: str, columns: Sequence[str], row: str, others: Sequence[str]) -> Beats:
    return Beats(pairs=[(_cell(table, c, row), [_cell(table, c, other) for other in others]) for c in columns])


_DIVERSE = ("rho=0.1, E=1", "rho=0.1, E=5")
_SILOS = ("E=1", "E=5")
_BY_STEPS = ("B=100, E=1", "B=20, E=5")  # T = 50 and T = 1250

CLAIMS: Sequence[Claim] = (
    Claim(
        name="igfl-over-fedavg", sentence="IGFL beats FedAvg at rho=0.1, with one local epoch",
        rule=_against("table2", _DIVERSE[:1], "IGFL", ["FedAvg"]),
    ),
    Claim(
        name="igfl-over-prior-devices", sentence="IGFL beats all prior methods across devices at rho=0.1",
        rule=_against("table2", _DIVERSE, "IGFL", PRIOR_METHODS),
    ),
    Claim(
        name="igfl-over-prior-silos", sentence="IGFL beats all prior methods across silos of two classes each",
        rule=_against("table1", _SILOS, "IGFL", PRIOR_METHODS),
    ),
    Claim(
        name="client-part", sentence="IGFL-C alone improves on FedAvg, across silos and across devices at rho=0.1",
        rule=Beats(pairs=[
            *_against("table1", _SILOS, "IGFL-C", ["FedAvg"]).pairs,
            *_against("table2", _DIVERSE, "IGFL-C", ["FedAvg"]).pairs,
        ]),
    ),
    Claim(
        name="server-part", sentence="IGFL-S alone improves on FedAvg, across silos and across devices at rho=0.1",
        rule=Beats(pairs=[
            *_against("table1", _SILOS, "IGFL-S", ["FedAvg"]).pairs,
            *_against("table2", _DIVERSE, "IGFL-S", ["FedAvg"]).pairs,
        ]),
    ),
    Claim(
        name="thirteen-points",
        sentence="Where clients differ most, IGFL beats prior baselines by about 13 points of accuracy (10 or more)",
        rule=Beats(
            pairs=_against("table2", _DIVERSE[:1], "IGFL", PRIOR_METHODS).pairs, by=ABSTRACT - 0.03
        ),
    ),
    Claim(
        name="lead-grows", sentence="IGFL-C's lead over FedAvgM grows with the number of local steps",
        rule=Grows(leads=[(_cell("table4", c, "IGFL-C"), _cell("table4", c, "FedAvgM")) for c in _BY_STEPS]),
    ),
    Claim(
        name="emnist", sentence="IGFL beats all prior methods on EMNIST",
        rule=_against("table3", list(TABLES["table3"].columns), "IGFL", PRIOR_METHODS),
    ),
    Claim(
        name="time-without-sampling", sentence="Time attention is the best of the three without sampling",
        rule=Beats(pairs=[
            pair for part in ("IGFL-S", "IGFL")
            for pair in _against(
                "table5", ["all clients"], f"{part} time", [f"{part} {a}" for a in ATTENTIONS if a != "time"]
            ).pairs
        ]),
    ),
    Claim(
        name="same-labels", sentence="Self-attention finds the clients with the same labels: matching rate >= 96%",
        rule=Finds(cells=[_cell("figure2", c, "IGFL-S self") for c in ("random", "paired")], rate=MATCHING),
    ),
)  # fmt: skip
