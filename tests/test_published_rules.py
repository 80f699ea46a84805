"""The other methods against their own papers' update rules, written naively in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import igfl
from quadratics import job, random_problem, trajectory

LR, N, D, ROUNDS = 0.05, 6, 4, 20
STEPS = [3, 1, 4, 2, 5, 3]
EVERYBODY = [list(range(N))] * ROUNDS
SOME = [sorted(np.random.default_rng(r).choice(N, size=3, replace=False).tolist()) for r in range(ROUNDS)]


def local(w_global, gradient, T):
    w = w_global.copy()
    for _ in range(T):
        w = w - LR * gradient(w)
    return w - w_global


def mean_update(A, b, w, cohort):
    return np.mean([local(w, lambda v, i=i: A[i] @ (v - b[i]), STEPS[i]) for i in cohort], axis=0)


def fedavgm(A, b, w, cohorts):
    velocity = np.zeros(D)
    for cohort in cohorts:
        velocity = 0.7 * velocity + mean_update(A, b, w, cohort)
        w = w + 0.5 * velocity
        yield w


def adaptive(second_moment):
    def run(A, b, w, cohorts):
        m, v = np.zeros(D), np.full(D, 0.02**2)
        for cohort in cohorts:
            delta = mean_update(A, b, w, cohort)
            m = 0.8 * m + 0.2 * delta
            v = np.array([second_moment(v_j, d_j**2) for v_j, d_j in zip(v, delta, strict=True)])
            w = w + 0.3 * m / (np.sqrt(v) + 0.02)
            yield w

    return run


def yogi(v, square):
    if v > square:
        return v - 0.05 * square
    return v + 0.05 * square


def fedprox(A, b, w, cohorts):
    for cohort in cohorts:
        ws = w
        w = w + np.mean(
            [local(ws, lambda v, i=i: A[i] @ (v - b[i]) + 0.4 * (v - ws), STEPS[i]) for i in cohort], axis=0
        )
        yield w


def scaffold(A, b, w, cohorts):
    c, ci = np.zeros(D), np.zeros((N, D))
    for cohort in cohorts:
        updates, changes = [], []
        for i in cohort:
            delta = local(w, lambda v, i=i: A[i] @ (v - b[i]) - ci[i] + c, STEPS[i])
            new = ci[i] - c + (w - (w + delta)) / (STEPS[i] * LR)
            updates.append(delta)
            changes.append(new - ci[i])
        for i, change in zip(cohort, changes, strict=True):
            ci[i] = ci[i] + change
        w = w + np.mean(updates, axis=0)
        c = c + np.sum(changes, axis=0) / N
        yield w


def vrl_sgd(A, b, w, cohorts):
    ci = np.zeros((N, D))
    for cohort in cohorts:
        updates = [local(w, lambda v, i=i: A[i] @ (v - b[i]) - ci[i], STEPS[i]) for i in cohort]
        mean = np.mean(updates, axis=0)
        for i in cohort:
            ci[i] = ci[i] + (mean - updates[i]) / (STEPS[i] * LR)
        w = w + mean
        yield w


OPTIONS = {"lr": 0.3, "tau": 0.02, "beta1": 0.8}
RULES = {
    "fedavgm": (fedavgm, {"lr": 0.5, "beta": 0.7}),
    "fedadam": (adaptive(lambda v, square: 0.95 * v + 0.05 * square), OPTIONS | {"beta2": 0.95}),
    "fedadagrad": (adaptive(lambda v, square: v + square), OPTIONS),
    "fedyogi": (adaptive(yogi), OPTIONS | {"beta2": 0.95}),
    "fedprox": (fedprox, {"mu": 0.4}),
    "scaffold": (scaffold, {}),
    "vrl_sgd": (vrl_sgd, {}),
}


@pytest.mark.parametrize("cohorts", [EVERYBODY, SOME], ids=["everybody", "sampled"])
@pytest.mark.parametrize("name", RULES)
def test_is_its_own_paper(name: str, cohorts: list[list[int]]) -> None:
    rule, options = RULES[name]
    method = igfl.method(name, **options)
    A, b, w0 = random_problem(N, D, seed=5)
    run = job(A, b, w0, method=method, lr=LR, steps=STEPS)
    if method.client.needs_everybody and cohorts is SOME:
        with pytest.raises(ValueError, match="needs every client in every round"):
            trajectory(run, igfl.Given(cohorts))
        return
    np.testing.assert_allclose(trajectory(run, igfl.Given(cohorts)), list(rule(A, b, w0, cohorts)), rtol=0, atol=1e-10)
