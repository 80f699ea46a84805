"""Identities and fixed points that hold whatever the numbers are, on quadratics with a known optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import igfl
from igfl.methods import Attention, attend
from igfl.servers import Descend
from igfl.types import Cohort
from igfl.weightings import SelfAttention
from quadratics import job, optimum, random_problem, trajectory

PROBLEM = random_problem(clients=6, d=5, seed=1)
STEPS = [4, 1, 3, 2, 5, 3]
EVERYBODY = igfl.Sampled(rounds=15)
HALF = igfl.Sampled(rounds=15, size=3)
ATTENTIONS = ["self", "global", "time"]


def path(method: igfl.Method, cohorts=EVERYBODY, lr: float = 0.05, steps=STEPS) -> np.ndarray:
    return trajectory(job(*PROBLEM, method=method, lr=lr, steps=steps), cohorts)


def test_igfl_c_with_one_step_and_everybody_is_fedavgm() -> None:
    """Δw_i enters as -Δw_i/S, its mean is the last step: v <- (1 - 1/S) v + (1 + 1/S) Δ."""
    S = 6
    ours = path(igfl.igfl_c(), steps=1, lr=0.04)
    theirs = path(igfl.fedavgm(beta=1 - 1 / S), steps=1, lr=0.04 * (1 + 1 / S))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cohorts", [EVERYBODY, HALF], ids=["everybody", "sampled"])
def test_the_first_round_of_igfl_c_is_fedavg_at_a_higher_rate(cohorts: igfl.Sampled) -> None:
    S = cohorts.size or 6
    ours, theirs = path(igfl.igfl_c(), cohorts), path(igfl.fedavg(), cohorts, lr=0.05 * (1 + 1 / S))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=1e-13)
    assert not np.allclose(ours[1], theirs[1])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_attention_at_infinite_temperature_is_fedavg(attention: Attention) -> None:
    ours = path(igfl.igfl_s(attention, temperature=float("inf")), HALF)
    np.testing.assert_allclose(ours, path(igfl.fedavg(), HALF), rtol=0, atol=1e-13)


def test_fedprox_without_pull_is_fedavg_to_the_bit() -> None:
    np.testing.assert_array_equal(path(igfl.fedprox(mu=0.0), HALF), path(igfl.fedavg(), HALF))


def test_scaffold_finds_the_optimum_where_fedavg_keeps_a_bias() -> None:
    A, b, w0 = PROBLEM
    best = optimum(A, b)
    run = job(A, b, w0, method=igfl.scaffold(), lr=0.05, steps=4)
    memories: dict[int, igfl.Memory] = {}
    for state, _ in igfl.rounds(igfl.Loop(run), memories=memories, cohorts=igfl.Sampled(rounds=600)):
        pass
    np.testing.assert_allclose(state.params, best, rtol=0, atol=1e-9)
    for i in range(len(A)):
        np.testing.assert_allclose(memories[i].local["control"], A[i] @ (best - b[i]), rtol=0, atol=1e-7)
    np.testing.assert_allclose(state.shared["control"], np.zeros(5), atol=1e-7)
    biased = trajectory(job(A, b, w0, method=igfl.fedavg(), lr=0.05, steps=4), igfl.Sampled(rounds=600))[-1]
    assert np.linalg.norm(biased - best) > 0.01


def test_vrl_sgd_finds_the_optimum_too() -> None:
    A, b, w0 = PROBLEM
    found = trajectory(job(A, b, w0, method=igfl.vrl_sgd(), lr=0.05, steps=4), igfl.Sampled(rounds=600))[-1]
    np.testing.assert_allclose(found, optimum(A, b), rtol=0, atol=1e-9)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_self_attention_weighs_as_the_mean_of_its_outputs(similarity: igfl.weightings.Similarity) -> None:
    deltas = torch.randn(7, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cohort = Cohort(clients=tuple(range(7)), deltas=deltas, examples=torch.ones(7), notes={}, population=7)
    keys = deltas / deltas.norm(dim=1, keepdim=True) if similarity == "cosine" else deltas
    outputs = [sum(a * d for a, d in zip(torch.softmax(keys @ q, 0), deltas, strict=True)) for q in keys]
    weights = SelfAttention(similarity=similarity).weigh(cohort)
    torch.testing.assert_close(weights @ deltas, torch.stack(outputs).mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_cosine_attention_does_not_see_the_length_of_updates(attention: Attention) -> None:
    """Shorter clients weigh the same: their behaviours point the same way."""
    weighting = attend(attention, similarity="cosine")
    deltas, last = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    scales = torch.tensor([1.0, 10.0, 0.1, 3.0], dtype=torch.float64)[:, None]

    def weights(updates, previous):
        visits = [_visit(previous_i) for previous_i in previous]
        notes = [weighting.tell(v, u) for v, u in zip(visits, updates, strict=True)]
        stacked = {name: torch.stack([n[name] for n in notes]) for name in notes[0]}
        return weighting.weigh(
            Cohort(clients=(0, 1, 2, 3), deltas=updates, examples=torch.ones(4), notes=stacked, population=4)
        )

    if attention == "global":  # its query is the mean, which does see lengths: only a common factor cancels
        scales = torch.full_like(scales, 7.0)
    torch.testing.assert_close(weights(deltas, last), weights(scales * deltas, last / scales))


def _visit(last: torch.Tensor) -> igfl.Visit:
    return igfl.Visit(
        round=1,
        params=torch.zeros_like(last),
        shared={},
        lr=0.1,
        cohort_size=4,
        population=4,
        client=0,
        local={},
        last=last,
        steps=1,
    )


def test_by_examples_weighs_by_examples() -> None:
    A, b, w0 = PROBLEM
    x, y = torch.tensor(A), torch.tensor(b)
    rows = [[0, 1, 2], [3], [4, 5]]
    method = igfl.Method(client=igfl.fedavg().client, weighting=igfl.weightings.ByExamples(), server=Descend())
    run = igfl.Job(
        method=method,
        task=igfl.testing.Quadratic(torch.tensor(w0)),
        data=igfl.Federation.split(x, y, rows),
        plan=igfl.Plan(lr=0.01),
    )
    (state, cohort), *_ = igfl.rounds(igfl.Loop(run), cohorts=igfl.Sampled(rounds=1))
    torch.testing.assert_close(cohort.weights, torch.tensor([3, 1, 2], dtype=torch.float64) / 6)
    centralised = w0 - 0.01 * np.mean([A[i] @ (w0 - b[i]) for i in range(6)], axis=0)  # one full step each, so weighted
    np.testing.assert_allclose(state.params, centralised, rtol=0, atol=1e-14)


def test_server_rate_scales_the_step() -> None:
    half, whole = path(igfl.fedavg(lr=0.5)), path(igfl.fedavg())
    w0 = PROBLEM[2]
    np.testing.assert_allclose(half[0] - w0, 0.5 * (whole[0] - w0), rtol=0, atol=1e-14)


def test_weight_decay_is_part_of_the_gradient() -> None:
    """The same as an L2 term in every f_i, also where IGFL-C scales the gradient."""
    A, b, w0 = PROBLEM
    decay = 0.3
    A_decayed = A + decay * np.eye(5)
    b_decayed = np.linalg.solve(A_decayed, np.einsum("nij,nj->ni", A, b)[:, :, None])[:, :, 0]
    for method in (igfl.fedavg(), igfl.igfl_c(), igfl.fedprox(mu=0.5)):
        ours = trajectory(job(A, b, w0, method=method, lr=0.05, steps=STEPS, weight_decay=decay), HALF)
        theirs = trajectory(job(A_decayed, b_decayed, w0, method=method, lr=0.05, steps=STEPS), HALF)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_any_parts_combine() -> None:
    """IGFL with an Adam server needs no new code, and follows the group's real step, Adam's and not the mean's."""
    method = igfl.Method(client=igfl.igfl_c().client, weighting=SelfAttention(), server=igfl.fedadam().server)
    run = job(*PROBLEM, method=method, lr=0.05, steps=STEPS)
    before = torch.tensor(PROBLEM[2])
    for state, _ in igfl.rounds(igfl.Loop(run), cohorts=HALF):
        torch.testing.assert_close(state.shared["group"], state.params - before, rtol=0, atol=1e-14)
        before = state.params
