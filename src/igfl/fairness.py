"""How well the global model serves each client: on the rows it keeps back, or on its own mixture of classes."""

from __future__ import annotations

from typing import Literal

import torch

from igfl.exact import one_thread
from igfl.names import unknown
from igfl.types import Arrays, Batch, Metrics, Vec
from igfl.visits import Job

Test = Literal["held", "mixture"]


def evaluate_clients(job: Job, params: Vec, test: Test) -> Arrays:
    """Every metric [population], float64; NaN for a client that has nothing to be tested on.

    `held`: on each client's held-out rows. `mixture`: on the global test set, each class weighing as it does among the
    client's own training rows; a class that the test set lacks is left out of the mixture.
    """
    if test not in ("held", "mixture"):
        raise unknown("clients.test", test, ("held", "mixture"))
    with one_thread():
        return _on_held_rows(job, params) if test == "held" else _by_mixture(job, params)


def _on_held_rows(job: Job, params: Vec) -> Arrays:
    if job.data.held_index is None:
        raise ValueError("no client keeps rows back: partition(..., holdout=0.1), or test='mixture'")
    rows = [job.data.held(client) for client in range(job.data.population)]
    return _side_by_side(
        [job.task.evaluate(params, Batch(x=job.data.x[r], y=job.data.y[r])) if len(r) else {} for r in rows]
    )


def _by_mixture(job: Job, params: Vec) -> Arrays:
    data = job.data
    if data.test is None or data.y.is_floating_point() or data.y.ndim != 1:
        raise ValueError("clients.test='mixture' needs a test set with classes: hold rows out and take 'held' instead")
    classes = 1 + max(int(data.y.max()), int(data.test.y.max()))
    places = [(data.test.y == k).nonzero().ravel() for k in range(classes)]
    of_class = _side_by_side(
        [job.task.evaluate(params, Batch(x=data.test.x[p], y=data.test.y[p])) if len(p) else {} for p in places]
    )
    owner = torch.repeat_interleave(torch.arange(data.population), data.offsets.diff())
    counts = torch.bincount(owner * classes + data.y[data.index], minlength=data.population * classes)
    tested = torch.tensor([len(p) > 0 for p in places])
    mixture = (counts.view(-1, classes) * tested).to(torch.float64)
    mixture /= mixture.sum(1, keepdim=True)  # NaN for a client with no data
    return {name: mixture @ values.nan_to_num() for name, values in of_class.items()}


def _side_by_side(metrics: list[Metrics]) -> Arrays:
    names = sorted({name for found in metrics for name in found})
    nan = float("nan")
    return {name: torch.tensor([found.get(name, nan) for found in metrics], dtype=torch.float64) for name in names}
