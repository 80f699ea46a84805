"""What the papers leave open, held to formulas: temperatures, cosines, defaults, falling rates, other servers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import igfl
from igfl import servers, weightings
from igfl.clients import VarianceReduction
from igfl.methods import attend
from igfl.screening import Diverged
from igfl.types import Cohort
from igfl.weightings import Uniform
from quadratics import job, random_problem, trajectory

PROBLEM = random_problem(clients=6, d=5, seed=1)
DELTAS, LAST = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def softmax(scores, axis=-1):
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def weights(attention: str, temperature: float, cosine: bool):
    """Algorithm 3 with psi divided by a temperature, and of vectors of length one where it is a cosine."""

    def of(v):
        return v / np.linalg.norm(v, axis=-1, keepdims=True) if cosine else v

    deltas, last = DELTAS.numpy(), LAST.numpy()
    if attention == "self":
        return softmax(of(deltas) @ of(deltas).T / temperature, 1).mean(0)
    if attention == "global":
        return softmax(of(deltas) @ of(deltas.mean(0)) / temperature)
    return softmax((of(last) * of(deltas)).sum(1) / temperature)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("attention", ["self", "global", "time"])
def test_attention_at_any_temperature(attention, similarity, temperature) -> None:
    part = attend(attention, temperature, similarity)
    params = torch.zeros(6, dtype=torch.float64)
    told = [
        part.tell(
            igfl.Visit(round=1, params=params, shared={}, lr=0.1, cohort_size=4, population=4, client=0, local={},
                       last=last, steps=1),
            delta,
        )
        for last, delta in zip(LAST, DELTAS)
    ]  # fmt: skip
    notes = {name: torch.stack([notes[name] for notes in told]) for name in told[0]}
    cohort = Cohort(clients=(0, 1, 2, 3), deltas=DELTAS, examples=torch.ones(4), notes=notes, population=4)
    expected = weights(attention, temperature, similarity == "cosine")
    np.testing.assert_allclose(part.weigh(cohort).numpy(), expected, rtol=0, atol=1e-12)


def test_the_parts_have_the_defaults_of_the_named_methods() -> None:
    for attention, part in (("self", weightings.SelfAttention), ("global", weightings.GlobalAttention),
                            ("time", weightings.TimeAttention)):  # fmt: skip
        assert igfl.method(f"igfl_s/{attention}").weighting == part()
    for name, part in (("fedavg", servers.Descend), ("fedavgm", servers.Momentum), ("fedadam", servers.Adam),
                       ("fedadagrad", servers.Adagrad), ("fedyogi", servers.Yogi)):  # fmt: skip
        assert igfl.method(name).server == part()


def vrl_sgd(rates, steps: int, server: float = 1.0):
    """Liang et al. 2019, with the rate of each round, and a server that takes a part of the mean step."""
    A, b, w = PROBLEM
    controls, path = np.zeros_like(b), []
    for lr in rates:
        updates = []
        for k in range(len(A)):
            v = w.copy()
            for _ in range(steps):
                v = v - lr * (A[k] @ (v - b[k]) - controls[k])
            updates.append(v - w)
        step = server * np.mean(updates, 0)
        controls = controls + (step - np.array(updates)) / (lr * steps)
        w = w + step
        path.append(w)
    return path


def test_vrl_sgd_at_a_falling_rate_divides_by_the_rate_of_the_visit_it_corrects() -> None:
    schedule = igfl.Step(0.1, every=2, factor=0.5, floor=0.01)
    ours = trajectory(job(*PROBLEM, method=igfl.vrl_sgd(), lr=schedule, steps=3), igfl.Sampled(rounds=8))
    np.testing.assert_allclose(ours, vrl_sgd([schedule(r) for r in range(8)], 3), rtol=0, atol=1e-12)


def test_vrl_sgd_follows_the_step_the_server_made() -> None:
    method = igfl.Method(client=VarianceReduction(), weighting=Uniform(), server=servers.Descend(0.5))
    ours = trajectory(job(*PROBLEM, method=method, lr=0.05, steps=3), igfl.Sampled(rounds=8))
    np.testing.assert_allclose(ours, vrl_sgd([0.05] * 8, 3, 0.5), rtol=0, atol=1e-12)


def test_vrl_sgd_does_not_go_on_without_a_report() -> None:
    """A rejected report would be an absence, which it refuses everywhere else."""

    class Broken(igfl.Loop):
        def train(self, broadcast, clients, memories):
            cohort, kept = super().train(broadcast, clients, memories)
            cohort.metrics["norm"][1] = float("nan")
            return cohort, kept

    with pytest.raises(Diverged, match=r"^diverged at round 0: updates of clients 1 are not finite or explode"):
        list(
            igfl.rounds(Broken(job(*PROBLEM, method=igfl.vrl_sgd(), lr=0.05, steps=3)), cohorts=igfl.Sampled(rounds=2))
        )


def test_momentum_of_zero_is_fedavg() -> None:
    def path(method: igfl.Method):
        return trajectory(job(*PROBLEM, method=method, lr=0.05, steps=2), igfl.Sampled(rounds=3))

    np.testing.assert_allclose(path(igfl.fedavgm(beta=0.0)), path(igfl.fedavg()), rtol=0, atol=1e-13)
