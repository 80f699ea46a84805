"""Each client's own accuracy: on the rows it keeps back, or by its mixture of classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import igfl
from igfl.data import Dirichlet, load, partition
from igfl.fairness import evaluate_clients
from igfl.models import model


@pytest.fixture(scope="module")
def job() -> igfl.Job:
    digits = load("digits")
    data = digits.divided(partition(digits.y.numpy(), Dirichlet(0.3), 8, holdout=0.2))
    task = igfl.ModuleTask(model("mlp", inputs=64))
    return igfl.Job(method=igfl.fedavg(), task=task, data=data, plan=igfl.Plan(lr=0.3, batch=20, epochs=2))


@pytest.fixture(scope="module")
def trained(job: igfl.Job) -> torch.Tensor:
    return list(igfl.rounds(igfl.Loop(job), cohorts=igfl.Sampled(rounds=4)))[-1][0].params


def right(job: igfl.Job, params: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    job.task.evaluate(params, igfl.Batch(x=x, y=y))  # binds the parameters
    return (job.task.module(x).argmax(1) == y).double()


def test_held_rows_are_nobodys_to_train_on(job: igfl.Job, trained: torch.Tensor) -> None:
    found = evaluate_clients(job, trained, "held")["accuracy"]
    everything = set(job.data.index.tolist())
    for client in range(8):
        rows = job.data.held(client)
        assert len(rows)
        assert not everything & set(rows.tolist())
        assert float(found[client]) == pytest.approx(
            float(right(job, trained, job.data.x[rows], job.data.y[rows]).mean())
        )


def test_a_mixture_weighs_the_test_set(job: igfl.Job, trained: torch.Tensor) -> None:
    """The same as the mean over test rows, each weighing as its class does with the client."""
    found = evaluate_clients(job, trained, "mixture")["accuracy"]
    test = job.data.test
    correct = right(job, trained, test.x, test.y).numpy()
    for client in range(8):
        own = np.bincount(job.data.y[job.data.rows(client)], minlength=10)
        weight = (own / own.sum())[test.y] / np.bincount(test.y, minlength=10)[test.y]
        assert float(found[client]) == pytest.approx(float((weight * correct).sum()))


def test_without_held_rows_it_says_how(job: igfl.Job) -> None:
    digits = load("digits")
    plain = igfl.Job(
        method=job.method,
        task=job.task,
        data=digits.divided(partition(digits.y.numpy(), Dirichlet(1), 4)),
        plan=job.plan,
    )
    with pytest.raises(ValueError, match="holdout=0.1"):
        evaluate_clients(plain, job.task.initial(), "held")
    with pytest.raises(ValueError, match="did you mean held"):
        evaluate_clients(plain, job.task.initial(), "hold")
