"""The reference engine: one client after another, in this process, with one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor

from igfl.exact import aligned_rows, one_thread, side_by_side
from igfl.types import Batch, Broadcast, Cohort, Memory, Metrics, Report, Vec
from igfl.visits import Job, visit_client

CHUNK = 500  # rows evaluated at once, on every engine, so that any number of workers adds up the same figure


class ClientError(RuntimeError):
    """What a client's visit raised; the exception itself is the cause."""


@contextmanager
def of_client(client: int, round: int) -> Iterator[None]:
    """Whatever is raised inside says whose visit it was, and in which round."""
    try:
        yield
    except Exception as error:  # whatever a model or a method raises
        raise ClientError(f"client {client} in round {round}: {type(error).__name__}: {error}") from error


class Loop:
    """One client after another."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        """Visit each client in turn."""
        blank = self.job.blank(broadcast.params)
        deltas = aligned_rows(len(clients), broadcast.params.shape, broadcast.params)
        reports: list[Report] = []
        kept: dict[int, Memory] = {}
        with one_thread():
            for client, row in zip(clients, deltas, strict=True):
                with of_client(client, broadcast.round):
                    report, memory = visit_client(self.job, broadcast, client, memories.get(client, blank), row)
                reports.append(report)
                if memory.local or memory.last is not None:
                    kept[client] = Memory(local=memory.local, last=None if memory.last is None else memory.last.clone())
            return cohort_of(reports, deltas, broadcast.population), kept

    def evaluate(self, params: Vec) -> Metrics:
        """Means over the test set, chunk by chunk."""
        parts = chunks(test_set(self.job))
        with one_thread():
            return add_up((len(part.x), self.job.task.evaluate(params, part)) for part in parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def cohort_of(reports: Sequence[Report], deltas: Tensor, population: int) -> Cohort:
    """Reports side by side; `deltas` holds their updates already."""
    return Cohort(
        clients=tuple(r.client for r in reports),
        deltas=deltas,
        examples=torch.tensor([r.examples for r in reports]),
        notes=side_by_side([r.notes for r in reports]),
        metrics={
            name: torch.tensor([r.metrics[name] for r in reports], dtype=torch.float64)
            for name in (reports[0].metrics if reports else {})
        },
        population=population,
    )


def test_set(job: Job) -> Batch:
    """The rows to evaluate on."""
    if job.data.test is None:
        raise ValueError("the federation has no test set: give Federation one with test=Batch(x=..., y=...)")
    return job.data.test


def chunks(data: Batch) -> list[Batch]:
    """The rows in fixed portions."""
    return [Batch(x=data.x[i : i + CHUNK], y=data.y[i : i + CHUNK]) for i in range(0, len(data.x), CHUNK)]


def add_up(parts: Iterable[tuple[int, Metrics]]) -> Metrics:
    """Means of parts as the mean of the whole, added in order, in double precision."""
    rows, sums = 0, dict[str, float]()
    for n, metrics in parts:
        rows += n
        for name, mean in metrics.items():
            sums[name] = sums.get(name, 0.0) + n * mean
    return {name: total / rows for name, total in sums.items()}
