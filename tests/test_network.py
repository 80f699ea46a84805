"""Small networks on clients of unequal size: determinism, dropout, batches, and the laws where gradients are noisy."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import igfl
from igfl.streams import stream
from igfl.visits import portions

SIZES = [17, 1, 0, 30, 8, 23]


def federation(dtype: torch.dtype = torch.float32) -> igfl.Federation:
    draws = torch.Generator().manual_seed(4)
    clients = [
        (torch.randn(n, 6, generator=draws, dtype=dtype), torch.randint(0, 3, (n,), generator=draws)) for n in SIZES
    ]
    test = igfl.Batch(
        x=torch.randn(1203, 6, generator=draws, dtype=dtype), y=torch.randint(0, 3, (1203,), generator=draws)
    )
    return igfl.Federation.of_clients(clients, test=test)


def network(dtype: torch.dtype = torch.float32, dropout: float = 0.0) -> igfl.ModuleTask:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        module = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(dropout), nn.Linear(9, 3))
    return igfl.ModuleTask(module.to(dtype))


def job(
    method: igfl.Method, *, lr: float = 0.05, seed: int = 0, epochs: int = 2, batch: int | None = 8, **task
) -> igfl.Job:
    dtype = task.get("dtype", torch.float32)
    plan = igfl.Plan(lr=lr, epochs=epochs, batch=batch)
    return igfl.Job(method=method, task=network(**task), data=federation(dtype), plan=plan, seed=seed)


@pytest.fixture(autouse=True)
def _everybody_else_knows(recwarn: pytest.WarningsRecorder) -> None:
    """Client 2 has no data, which is told once a run."""


def run(job: igfl.Job, size: int | None = 3, rounds: int = 6) -> igfl.ServerState:
    with pytest.warns(UserWarning, match=r"1 of 6 clients have no data and are never sampled: 2$"):
        states = igfl.rounds(igfl.Loop(job), cohorts=igfl.Sampled(rounds=rounds, size=size))
    return list(states)[-1][0]


METHODS = [
    "fedavg",
    "fedavgm",
    "fedprox",
    "scaffold",
    "fedadam",
    "fedadagrad",
    "fedyogi",
    "igfl_c",
    "igfl_s/self",
    "igfl/global",
    "igfl/time",
]


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_bits_and_nothing_else_matters(name: str) -> None:
    first = run(job(igfl.method(name), dropout=0.3))
    torch.manual_seed(123)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    before = torch.random.get_rng_state()
    try:
        second = run(job(igfl.method(name), dropout=0.3))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(first.params, second.params)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(first.params, run(job(igfl.method(name), dropout=0.3, seed=1)).params)


def test_dropout_is_drawn_for_each_visit() -> None:
    """Two clients with the same data and full batches differ by their dropout only."""
    x, y = torch.ones(4, 6), torch.tensor([0, 1, 2, 0])
    data = igfl.Federation.of_clients([(x, y), (x, y)])
    plan = igfl.Plan(lr=0.1)
    for dropout, same in ((0.0, True), (0.5, False)):
        task = network(dropout=dropout)
        ((_, cohort),) = igfl.rounds(
            igfl.Loop(igfl.Job(method=igfl.fedavg(), task=task, data=data, plan=plan)), cohorts=igfl.Sampled(rounds=1)
        )
        assert torch.equal(cohort.deltas[0], cohort.deltas[1]) is same


def test_fedavg_is_local_sgd_written_by_hand() -> None:
    """Same batches, torch's own optimizer, a mean of the models."""
    run_job = job(igfl.fedavg(), dtype=torch.float64)
    state = run(run_job, size=None, rounds=1)
    models = []
    for client, n in enumerate(SIZES):
        if not n:
            continue
        module = network(torch.float64).module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
        rows = run_job.data.rows(client)
        steps = 2 * -(-n // 8)
        for chosen in portions(n, 8, steps, stream(0, "batches", 0, client)):
            optimizer.zero_grad()
            picked = rows[torch.from_numpy(chosen)]
            nn.functional.cross_entropy(module(run_job.data.x[picked]), run_job.data.y[picked]).backward()
            optimizer.step()
        models.append(nn.utils.parameters_to_vector(module.parameters()).detach())
    torch.testing.assert_close(state.params, torch.stack(models).mean(0), rtol=0, atol=1e-12)


def test_every_epoch_is_a_permutation_and_keeps_the_last_partial_batch() -> None:
    drawn = list(portions(17, 5, 8, stream(0, "batches", 3, 1)))
    assert [len(part) for part in drawn] == [5, 5, 5, 2, 5, 5, 5, 2]
    for epoch in (drawn[:4], drawn[4:]):
        assert sorted(np.concatenate(epoch)) == list(range(17))
    assert not np.array_equal(np.concatenate(drawn[:4]), np.concatenate(drawn[4:]))


def test_clients_of_any_size_take_part_but_the_empty_one() -> None:
    counted = Counter[int]()
    with pytest.warns(UserWarning, match="no data"):
        states = igfl.rounds(igfl.Loop(job(igfl.fedavg())), cohorts=igfl.Sampled(rounds=40, size=3))
    for _, cohort in states:
        assert len(set(cohort.clients)) == 3
        assert list(cohort.clients) == sorted(cohort.clients)
        assert cohort.examples.tolist() == [SIZES[c] for c in cohort.clients]
        counted.update(cohort.clients)
    assert set(counted) == {0, 1, 3, 4, 5}


def test_igfl_c_in_one_step_is_fedavgm_on_a_network_too() -> None:
    S = 5
    ours = run(job(igfl.igfl_c(), epochs=1, batch=None, lr=0.05, dtype=torch.float64), size=None)
    theirs = run(
        job(igfl.fedavgm(beta=1 - 1 / S), epochs=1, batch=None, lr=0.05 * (1 + 1 / S), dtype=torch.float64), size=None
    )
    torch.testing.assert_close(ours.params, theirs.params, rtol=0, atol=1e-12)


def test_fedprox_without_pull_and_attention_at_infinite_temperature_are_fedavg_to_the_bit() -> None:
    plain = run(job(igfl.fedavg())).params
    assert torch.equal(run(job(igfl.fedprox(mu=0.0))).params, plain)
    for attention in ("self", "global", "time"):
        hot = run(job(igfl.igfl_s(attention, temperature=float("inf")))).params
        torch.testing.assert_close(hot, plain, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_resumes_to_the_bit_from_plain_bytes(name: str) -> None:
    """State and memories are all there is: pickled, read back unaligned, by a fresh process's objects."""
    cohorts = igfl.Sampled(rounds=8, size=3)
    whole = run(job(igfl.method(name), dropout=0.2), rounds=8)
    memories: dict[int, igfl.Memory] = {}
    with pytest.warns(UserWarning, match="no data"):
        half = igfl.rounds(
            igfl.Loop(job(igfl.method(name), dropout=0.2)), memories=memories, cohorts=igfl.Sampled(rounds=3, size=3)
        )
    state = list(half)[-1][0]
    state, memories = pickle.loads(pickle.dumps((_unaligned(state), memories)))
    with pytest.warns(UserWarning, match="no data"):
        rest = igfl.rounds(igfl.Loop(job(igfl.method(name), dropout=0.2)), state, memories, cohorts=cohorts)
    assert torch.equal(list(rest)[-1][0].params, whole.params)


def _unaligned(state: igfl.ServerState) -> igfl.ServerState:
    buffer = torch.empty(len(state.params) + 1)
    buffer[1:] = state.params
    return igfl.ServerState(round=state.round, params=buffer[1:], shared=state.shared, optimizer=state.optimizer)


def test_evaluation_adds_up_whatever_the_portions() -> None:
    whole = job(igfl.fedavg(), dtype=torch.float64)
    params = whole.task.initial()
    chunked = igfl.Loop(whole).evaluate(params)
    at_once = whole.task.evaluate(params, whole.data.test)
    assert chunked == pytest.approx(at_once, rel=1e-12)
