"""Algorithms 2 and 3 of the paper, typed out as printed in plain numpy, sharing no code with the library."""

from __future__ import annotations

import math

import numpy as np
import pytest

import igfl
from quadratics import job, random_problem, trajectory

ROUNDS, LR = 20, 0.05


def algorithm_2(w_global, last_i, group, A_i, b_i, S, T):
    """IGFL-client: one visit."""
    w = w_global.copy()
    for _ in range(T):
        individual = -LR * (A_i @ (w - b_i))
        from_group = (individual - last_i / T) / S + group / T
        w = w + individual + from_group
    return w - w_global


def sgd(w_global, last_i, group, A_i, b_i, S, T):
    w = w_global.copy()
    for _ in range(T):
        w = w - LR * (A_i @ (w - b_i))
    return w - w_global


def softmax(scores):
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [e / sum(exponentials) for e in exponentials]


def algorithm_3_self(updates, lasts):
    """Each client's attended behaviour, then their mean."""
    attended = []
    for query in updates:
        alphas = softmax([float(np.sum(query * key)) for key in updates])
        attended.append(sum(alpha * value for alpha, value in zip(alphas, updates, strict=True)))
    return sum(attended) / len(attended)


def algorithm_3_global(updates, lasts):
    query = sum(updates) / len(updates)
    alphas = softmax([float(np.sum(query * key)) for key in updates])
    return sum(alpha * value for alpha, value in zip(alphas, updates, strict=True))


def algorithm_3_time(updates, lasts):
    alphas = softmax([float(np.sum(last * now)) for last, now in zip(lasts, updates, strict=True)])
    return sum(alpha * value for alpha, value in zip(alphas, updates, strict=True))


def plain_mean(updates, lasts):
    return sum(updates) / len(updates)


def transcript(A, b, w0, cohorts, steps, client, server):
    w, group = w0.copy(), np.zeros_like(w0)
    last = {i: np.zeros_like(w0) for i in range(len(A))}
    path = []
    for cohort in cohorts:
        updates = [client(w, last[i], group, A[i], b[i], len(cohort), steps[i]) for i in cohort]
        group = server(updates, [last[i] for i in cohort])
        for i, update in zip(cohort, updates, strict=True):
            last[i] = update
        w = w + group
        path.append(w)
    return np.array(path)


METHODS = {
    "igfl_c": (algorithm_2, plain_mean),
    "igfl_s/self": (sgd, algorithm_3_self),
    "igfl_s/global": (sgd, algorithm_3_global),
    "igfl_s/time": (sgd, algorithm_3_time),
    "igfl/self": (algorithm_2, algorithm_3_self),
    "igfl/global": (algorithm_2, algorithm_3_global),
    "igfl/time": (algorithm_2, algorithm_3_time),
}


@pytest.mark.parametrize("sampled", [False, True], ids=["everybody", "sampled"])
@pytest.mark.parametrize("steps", [[3] * 7, [1, 2, 3, 4, 5, 1, 7]], ids=["equal_T", "unequal_T"])
@pytest.mark.parametrize("name", METHODS)
def test_the_library_is_the_paper(name: str, steps: list[int], sampled: bool) -> None:
    A, b, w0 = random_problem(clients=7, d=5, seed=3)
    rng = np.random.default_rng(9)
    cohorts = [sorted(rng.choice(7, size=3 if sampled else 7, replace=False).tolist()) for _ in range(ROUNDS)]
    expected = transcript(A, b, w0, cohorts, steps, *METHODS[name])
    ours = trajectory(job(A, b, w0, method=igfl.method(name), lr=LR, steps=steps), igfl.Given(cohorts))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)
