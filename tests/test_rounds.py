"""The server's program: what it yields, what it writes, what it leaves as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import igfl
from igfl.exact import aligned_rows, side_by_side
from igfl.screening import chosen
from quadratics import job, random_problem

PROBLEM = random_problem(clients=6, d=5, seed=2)
ALL = [name for name in igfl.METHODS if name not in ("igfl", "igfl_s")] + ["igfl_s/self", "igfl/global", "igfl/time"]


class Lossy(igfl.Loop):
    """Loses the reports of some clients in some rounds."""

    def __init__(self, job: igfl.Job, lost: dict[int, set[int]]) -> None:
        super().__init__(job)
        self.lost = lost

    def train(self, broadcast, clients, memories):
        cohort, kept = super().train(broadcast, clients, memories)
        lost = self.lost.get(broadcast.round, set())
        here = [i for i, client in enumerate(cohort.clients) if client not in lost]
        cohort = chosen(cohort, torch.tensor(here, dtype=torch.int64))
        return cohort, {client: memory for client, memory in kept.items() if client not in lost}


@pytest.mark.parametrize("name", ALL)
def test_a_round_without_reports_moves_nothing_but_the_round(name: str) -> None:
    run = job(*PROBLEM, method=igfl.method(name), lr=0.05, steps=2)
    memories: dict[int, igfl.Memory] = {}
    states = []
    for state, cohort in igfl.rounds(Lossy(run, {2: set(range(6))}), memories=memories, cohorts=igfl.Sampled(rounds=4)):
        states.append((state, dict(memories), cohort))
    (before, old, _), (after, new, empty) = states[1:3]
    assert after.round == 3
    assert empty.clients == ()
    assert after.params is before.params
    assert after.shared is before.shared
    assert after.optimizer is before.optimizer
    assert old == new
    assert not torch.equal(states[3][0].params, after.params)


def test_a_lost_client_keeps_its_old_memory_and_the_weights_are_of_those_counted() -> None:
    run = job(*PROBLEM, method=igfl.igfl("time"), lr=0.05, steps=2)
    memories: dict[int, igfl.Memory] = {}
    before = None
    for state, cohort in igfl.rounds(Lossy(run, {3: {1, 4}}), memories=memories, cohorts=igfl.Sampled(rounds=4)):
        if state.round == 3:
            before = dict(memories)
    assert cohort.clients == (0, 2, 3, 5)
    assert len(cohort.weights) == 4
    assert float(cohort.weights.sum()) == pytest.approx(1)
    for client in range(6):
        assert (memories[client] is before[client]) is (client in (1, 4))


def test_cohort_size_is_the_intended_one() -> None:
    seen = []

    class Watching(igfl.Loop):
        def train(self, broadcast, clients, memories):
            seen.append((broadcast.cohort_size, broadcast.population, len(clients)))
            return super().train(broadcast, clients, memories)

    run = job(*PROBLEM, method=igfl.igfl_c(), lr=0.05, steps=2)
    list(igfl.rounds(Watching(run), cohorts=igfl.Given([[0, 1, 2], [5]])))
    assert seen == [(3, 6, 3), (1, 6, 1)]


def test_methods_that_keep_nothing_write_no_memory() -> None:
    memories: dict[int, igfl.Memory] = {}
    list(
        igfl.rounds(
            igfl.Loop(job(*PROBLEM, method=igfl.fedavg(), lr=0.05, steps=2)),
            memories=memories,
            cohorts=igfl.Sampled(rounds=2),
        )
    )
    assert memories == {}


def test_the_rate_of_a_round_is_the_servers() -> None:
    """A schedule equals runs of one round each at that rate, memories and all (SCAFFOLD divides by it)."""
    schedule = igfl.Step(0.1, every=2, factor=0.5, floor=0.03)
    run = job(*PROBLEM, method=igfl.scaffold(), lr=schedule, steps=3)
    whole = list(igfl.rounds(igfl.Loop(run), cohorts=igfl.Sampled(rounds=5)))[-1][0]
    state, memories = None, {}
    for round, rate in enumerate([0.1, 0.1, 0.05, 0.05, 0.03]):
        one = replace(run, plan=igfl.Plan(lr=rate, steps=3))
        ((state, _),) = igfl.rounds(igfl.Loop(one), state, memories, cohorts=igfl.Sampled(rounds=round + 1))
    assert torch.equal(state.params, whole.params)


def test_cosine_goes_from_one_rate_to_the_other_and_stays() -> None:
    schedule = igfl.Cosine(0.3, end=0.1, rounds=10)
    rates = [schedule(round) for round in range(13)]
    assert rates[0] == 0.3
    assert rates[5] == pytest.approx(0.2)
    assert rates[10:] == pytest.approx([0.1] * 3)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (17,), (16,), (3, 5)])
def test_rows_start_on_the_boundary(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    rows = aligned_rows(5, shape, torch.empty(0, dtype=dtype))
    assert rows.shape == (5, *shape)
    for i, row in enumerate(rows):
        row.fill_(i)
        assert row.data_ptr() % 64 == 0
    assert (
        torch.equal(rows.flatten(1)[:, 0], torch.arange(5, dtype=dtype)) if shape else rows.tolist() == list(range(5))
    )
    stacked = side_by_side([{"a": torch.full(shape, float(i), dtype=dtype)} for i in range(3)])["a"]
    assert torch.equal(stacked, torch.stack([torch.full(shape, float(i), dtype=dtype) for i in range(3)]))
