"""Small problems of which everything is known."""

from __future__ import annotations

import numpy as np
import torch

import igfl
from igfl.testing import quadratics


def job(A, b, w0, *, method: igfl.Method, lr: float, steps: int | list[int], weight_decay: float = 0.0) -> igfl.Job:
    A, b, w0 = (torch.tensor(np.array(part), dtype=torch.float64) for part in (A, b, w0))
    return quadratics(A, b, w0, method=method, plan=igfl.Plan(lr=lr, steps=steps, weight_decay=weight_decay))


def trajectory(job: igfl.Job, cohorts: igfl.Cohorts) -> np.ndarray:
    with igfl.Loop(job) as engine:
        return np.array([state.params.tolist() for state, _ in igfl.rounds(engine, cohorts=cohorts)])


def random_problem(clients: int, d: int, seed: int = 0, spread: float = 2.0):
    """Unequal A_i, well conditioned, and unequal b_i."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(clients, d, d))
    A = roots @ roots.transpose(0, 2, 1) / d + 0.3 * np.eye(d)
    return A, spread * rng.normal(size=(clients, d)), rng.normal(size=d)


def optimum(A, b):
    """Where the mean of the f_i is least: (sum A_i) w = sum A_i b_i."""
    return np.linalg.solve(A.sum(0), np.einsum("nij,nj->i", A, b))
