"""A verdict a claim: it holds, it does not, or it is not yet decided; never rounded up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Literal

import numpy as np

from igfl.paper.claims import Beats, Claim, Finds, Grows
from igfl.paper.experiments import Cell
from igfl.paper.scales import Scale, stands_in
from igfl.report.matching import Matching, matching
from igfl.reproduce.search import Outcome

Word = Literal["holds", "does not hold", "not yet decided"]
SEEDS = 3  # below it nothing is known of the spread
NOT_RUN = ": not run yet"
Look = Callable[[Cell], Outcome]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What may be said of a claim, and why."""

    claim: Claim
    word: Word
    why: str


@dataclass(frozen=True)
class _Finding:
    """A part of a claim: True, False, or None where it is open."""

    holds: bool | None
    why: str


def verdict_of(claim: Claim, size: Scale, look: Look) -> Verdict:
    """All parts must hold; one that does not decides."""
    if size.name == "smoke":
        return Verdict(claim=claim, word="not yet decided", why="too small a scale")
    for cell in claim.cells:
        if (other := stands_in(size, cell.setting.data)) is not None:
            return Verdict(claim=claim, word="not yet decided", why=f"trained on {other}, which is another data set")
    match claim.rule:
        case Beats(pairs=pairs, by=by):
            findings = [_beats(look(better), look(other), by) for better, others in pairs for other in others]
        case Grows(leads=leads):
            findings = [_grows(*(tuple(map(look, pair)) for pair in (leads[0], leads[-1])))]  # type: ignore[arg-type]
        case Finds(cells=cells, rate=rate):
            findings = [_finds(look(cell), size, rate) for cell in cells]
    for word, wanted in (("does not hold", False), ("not yet decided", None)):
        deciding = [finding.why for finding in findings if finding.holds is wanted]
        if deciding:
            return Verdict(claim=claim, word=word, why=_together(deciding))  # type: ignore[arg-type]
    return Verdict(claim=claim, word="holds", why=_together([finding.why for finding in findings]))


def _together(reasons: Sequence[str]) -> str:
    """One sentence of several, what was not run only counted."""
    told = [why for why in reasons if not why.endswith(NOT_RUN)]
    if not told:
        return "not run yet"
    absent = len(reasons) - len(told)
    return "; ".join([*told, *([f"{absent} of {len(reasons)} comparisons not run yet"] if absent else [])])


def _beats(better: Outcome, other: Outcome, by: float) -> _Finding:
    name = f"{better.cell.row} over {other.cell.row} ({better.cell.column})"
    for fell, stood, holds in ((better, other, False), (other, better, True)):
        if fell.diverged is not None:
            enough = holds if len(stood.accuracies) >= SEEDS else None
            return _Finding(enough, f"{name}: {fell.cell.row} diverged at every rate")
    if better.mean is None or other.mean is None:
        return _Finding(None, name + NOT_RUN)
    return _compared(list(_leads(better, other).values()), by, name)


def _grows(first: tuple[Outcome, Outcome], last: tuple[Outcome, Outcome]) -> _Finding:
    name = f"lead at {last[0].cell.column} against lead at {first[0].cell.column}"
    if any(outcome.diverged is not None for outcome in (*first, *last)):
        return _Finding(None, f"{name}: a method diverged, there is no lead to compare")
    if any(outcome.mean is None for outcome in (*first, *last)):
        return _Finding(None, name + NOT_RUN)
    early, late = _leads(*first), _leads(*last)
    return _compared([late[seed] - early[seed] for seed in late if seed in early], 0.0, name)


def _finds(outcome: Outcome, size: Scale, rate: float) -> _Finding:
    found = [each.rate for each in matchings(outcome)]
    name = outcome.cell.column
    if len(found) < size.populations:
        return _Finding(None, f"{name}: {len(found)} of {size.populations} populations")
    told = f"{name}: mean {100 * mean(found):.1f}%, against {100 * rate:.0f}%"
    return _compared([each - rate for each in found], -1e-9, told)  # to reach it is enough


def matchings(outcome: Outcome) -> list[Matching]:
    """Of every population that was trained."""
    made = [
        matching(np.array(record.attention), np.array(record.together))
        for _, record in sorted(outcome.records.items())
        if record.attention is not None
    ]
    return [each for each in made if each is not None]


def _leads(better: Outcome, other: Outcome) -> dict[int, float]:
    """Of every seed that both were trained with."""
    one, two = better.accuracies, other.accuracies
    return {seed: one[seed] - two[seed] for seed in sorted(one.keys() & two.keys())}


def _compared(differences: Sequence[float], by: float, name: str) -> _Finding:
    """Whether the mean difference over seeds lies above `by`, outside its 95% interval (Student's t)."""
    told = f"{name}: {100 * mean(differences):+.1f} points" if differences else name
    if len(differences) < SEEDS:
        return _Finding(None, f"{told} on {len(differences)} of at least {SEEDS} seeds")
    room = _quantile(len(differences) - 1) * stdev(differences) / sqrt(len(differences))
    told += f" ± {100 * room:.1f} on {len(differences)} seeds"
    if mean(differences) - room > by:
        return _Finding(True, told)
    if mean(differences) + room < by:
        return _Finding(False, told)
    return _Finding(None, f"{told}, too close")


def _quantile(freedom: int) -> float:
    """Of Student's t, so that 95% lie between it and its negative."""
    try:
        from scipy.stats import t
    except ImportError as error:
        raise ImportError("verdicts need SciPy, which is not installed: pip install 'igfl[plots]'") from error
    return float(t.ppf(0.975, freedom))
