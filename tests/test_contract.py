"""check_method: ours pass it, and each way of breaking it is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

import igfl
from igfl import servers, weightings
from igfl.clients import GroupBehaviour, Plain
from igfl.parts import ClientRule, Method, Weighting
from igfl.servers import Descend
from igfl.testing import check_method
from igfl.weightings import TimeAttention, Uniform

OURS = [
    *(name for name in igfl.METHODS if name not in ("igfl", "igfl_s")),
    *(f"{base}/{attention}" for base in ("igfl", "igfl_s") for attention in ("self", "global", "time")),
]


@pytest.mark.parametrize("name", OURS)
def test_ours_meet_it(name: str) -> None:
    check_method(igfl.method(name))


@pytest.mark.parametrize("name", OURS)
def test_repr_rebuilds_ours(name: str) -> None:
    method = igfl.method(name)
    names = {**vars(igfl.clients), **vars(weightings), **vars(servers), "Method": Method}
    assert eval(repr(method), names) == method  # noqa: S307


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("attention", ["self", "global", "time"])
def test_variations_meet_it(attention: str, similarity: str) -> None:
    check_method(igfl.method(f"igfl/{attention}", temperature=0.1, similarity=similarity))


class Counting(ClientRule):
    def __init__(self) -> None:
        self.visits = 0

    def correct(self, visit):
        self.visits += 1
        return igfl.Correction(scale=1 + 0.1 * self.visits)


class WritesIntoMemory(ClientRule):
    def init_local(self, params):
        return {"sum": torch.zeros_like(params)}

    def correct(self, visit):
        return igfl.Correction(shift=visit.local["sum"])

    def remember(self, visit, delta):
        visit.local["sum"].add_(delta)
        return visit.local


class WritesIntoShared(ClientRule):
    def init_shared(self, params):
        return {"sum": torch.zeros_like(params)}

    def publish(self, shared, cohort, step):
        shared["sum"].add_(step)
        return shared


class ReadsLastUndeclared(ClientRule):
    def correct(self, visit):
        return igfl.Correction(shift=0.1 * visit.last)


class Halves(ClientRule):
    def init_shared(self, params):
        return {"step": torch.zeros_like(params)}

    def publish(self, shared, cohort, step):
        return {"step": step.to(torch.float16)}


class LastCounts(ClientRule):
    """What is published depends on who comes last."""

    def init_shared(self, params):
        return {"last": torch.zeros_like(params)}

    def publish(self, shared, cohort, step):
        return {"last": cohort.deltas[-1].clone()}


class Unpicklable(ClientRule):
    def __init__(self) -> None:
        self.rule: Callable[[float], float] = lambda x: x


class Tells(ClientRule):
    def tell(self, visit, delta):
        return {"persistence": delta.sum()}


class FirstOnly(Weighting):
    def weigh(self, cohort):
        weights = torch.zeros_like(cohort.deltas[:, 0])
        weights[0] = 1
        return weights


class SumsToTwo(Weighting):
    def weigh(self, cohort):
        return torch.full_like(cohort.deltas[:, 0], 2 / len(cohort.clients))


class NotFinite(Weighting):
    def weigh(self, cohort):
        return torch.full_like(cohort.deltas[:, 0], float("nan"))


class ByFirstNumber(Weighting):
    def weigh(self, cohort):
        return cohort.deltas[:, 0] / cohort.deltas[:, 0].sum()


@dataclass(frozen=True)
class Velocity(igfl.ServerOptimizer):
    """Momentum kept where no checkpoint finds it."""

    kept: dict = field(default_factory=dict)

    def step(self, update, state):
        self.kept["v"] = self.kept.get("v", 0) + update
        return self.kept["v"], {}


@pytest.mark.parametrize(
    ("rule", "weighting", "server", "clause"),
    [
        (Counting(), Uniform(), Descend(), "keep state in the arrays it returns|survive pickling"),
        (WritesIntoMemory(), Uniform(), Descend(), "mutates what it was given"),
        (WritesIntoShared(), Uniform(), Descend(), "mutates what it was given"),
        (ReadsLastUndeclared(), Uniform(), Descend(), "uses_last"),
        (Halves(), Uniform(), Descend(), "turns torch.float32 into torch.float16"),
        (LastCounts(), Uniform(), Descend(), "depends on the order"),
        (Unpicklable(), Uniform(), Descend(), "pickl"),
        (Plain(), FirstOnly(), Descend(), "weights depend on the order"),
        (Plain(), SumsToTwo(), Descend(), "sum to 2"),
        (Plain(), NotFinite(), Descend(), "not finite"),
        (Plain(), ByFirstNumber(), Descend(), "negative"),
        (Plain(), Uniform(), Velocity(), "never on self"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_names_the_clause_that_is_broken(rule, weighting, server, clause: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=clause):
        check_method(Method(client=rule, weighting=weighting, server=server))


def test_parts_whose_notes_clash_are_refused_before_any_work() -> None:
    method = Method(client=Tells(), weighting=TimeAttention(), server=Descend())
    with pytest.raises(ValueError, match="Tells and TimeAttention both tell 'persistence': rename it"):
        check_method(method)


def test_both_parts_may_need_the_last_update() -> None:
    check_method(Method(client=GroupBehaviour(), weighting=TimeAttention(), server=Descend()))
