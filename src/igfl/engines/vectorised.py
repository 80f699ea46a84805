"""All clients of a cohort at once: their models are the rows of one matrix, and every kernel works on all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import torch
from torch import Generator, Tensor

from igfl.batched import Batched, Dense, at_once, batched
from igfl.engines.hooks import Corrections, Hooks, Visits
from igfl.engines.loop import Loop
from igfl.engines.portions import Portion, portions, widest
from igfl.exact import aligned_rows, cores, one_thread
from igfl.streams import stream
from igfl.task import Inputs
from igfl.types import Arrays, Batch, Broadcast, Cohort, Memory, Metrics, Vec
from igfl.visits import Job


class Vectorised:
    """One batched kernel for many clients, `width` at a time, on several threads.

    Products of many models are summed in another order than those of one, so that results agree with the other engines
    to rounding, not bit for bit; with themselves they agree in every bit, at any width and on any number of threads.
    Modules that torch.func maps are trained in whole blocks: a width between two of them is the larger one.
    """

    def __init__(self, job: Job, *, width: int | None = None, threads: int | None = None) -> None:
        for name, value in (("width", width), ("threads", threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: must be at least one; None chooses by the size of the model")
        self.job = job
        self._model = model_of(job)
        self._inputs: Inputs | None = getattr(job.task, "inputs", None)
        self._hooks = Hooks(job.method)
        self._width = width
        self._loop = Loop(job)
        self._deltas: Tensor | None = None
        reentrant = isinstance(self._model, Dense)  # torch.func swaps the parameters of the one module
        self._pool = ThreadPoolExecutor(
            (threads or cores()) if reentrant else 1, "igfl-vectorised", torch.set_num_threads, (1,)
        )

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        """Visit all clients, some at a time, longest first, so that those still going on stand together."""
        steps = self.job.steps(broadcast.round, clients)
        order = sorted(range(len(clients)), key=steps.__getitem__, reverse=True)
        block, width = self._model.block, widest(self.job, clients)
        share = -(-(self._width or at_once(broadcast.params)) // block) * block
        shares = [order[lo : lo + share] for lo in range(0, len(order), share)]
        deltas = self._rows(len(clients), broadcast.params)
        with one_thread():
            blank = self.job.blank(broadcast.params)
            work = [
                (Visits.of(broadcast, [clients[i] for i in share], [steps[i] for i in share], memories, blank),
                 deltas, share, width)
                for share in shares
            ]  # fmt: skip
            done = [self._train(*work[0])] if len(work) == 1 else list(self._pool.map(self._train, *zip(*work)))
            cohort = self._cohort(broadcast, clients, deltas, order, done)
        return cohort, dict(chain.from_iterable(share.memories for share in done))

    def evaluate(self, params: Vec) -> Metrics:
        """Means over the test set, chunk by chunk."""
        return self._loop.evaluate(params)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def _rows(self, n: int, params: Vec) -> Tensor:
        """The cohort's updates, in memory that is used again in every round."""
        if self._deltas is None or len(self._deltas) < n:
            self._deltas = aligned_rows(n, params.shape, params)
        return self._deltas[:n]

    def _train(self, visits: Visits, deltas: Tensor, places: Sequence[int], width: int | None) -> _Share:
        """The visits of one share of the cohort, whose updates go to these places of `deltas`."""
        n, in_line = len(places), places[-1] - places[0] + 1 == len(places) and list(places) == sorted(places)
        params = visits.broadcast.params
        weights = deltas[places[0] : places[0] + n] if in_line else aligned_rows(n, params.shape, params)
        corrections = self._hooks.correct(visits)
        weights.copy_(params)
        losses = self._descend(visits, corrections, weights, width) / torch.tensor(visits.steps)
        weights -= params
        if not in_line:
            deltas[places] = weights
        notes, local = self._hooks.tell(visits, weights), self._hooks.remember(visits, weights)
        norms = torch.linalg.vector_norm(weights, dim=1).to("cpu", torch.float64)
        return _Share({"loss": losses, "norm": norms}, notes, list(self._memories(visits, weights, local)))

    def _descend(self, visits: Visits, corrections: Corrections, weights: Tensor, width: int | None) -> Tensor:
        """The local steps, as in `visits.move`; returns the sums of losses."""
        lr, params, scale, pull = visits.broadcast.lr, visits.broadcast.params, corrections.scale, corrections.pull
        keep = 1 - lr * (scale * self.job.plan.weight_decay + pull)
        pulls, keeps = isinstance(pull, Tensor) or pull != 0, isinstance(keep, Tensor) or keep != 1
        shift = corrections.shift - pull * params[None] if pulls else corrections.shift
        shifts = isinstance(shift, Tensor) or shift != 0
        generators = self._generators(visits)
        totals = torch.zeros(len(weights), dtype=torch.float64)
        for portion in portions(self.job, visits.broadcast.round, visits.clients, visits.steps, width):
            n = len(portion.rows)
            going = weights[:n]
            lost = going * (1 - _first(keep, n)) if keeps else None
            batch = self._batch(portion, generators)
            losses = self._model.descend(going, batch, portion.counts, lr * _first(scale, n))
            if lost is not None:
                going -= lost
            if shifts:
                going.sub_(_first(shift, n), alpha=lr)
            totals[:n] += losses.cpu()
        return totals

    def _generators(self, visits: Visits) -> list[Generator]:
        """Every visit's own stream, for whoever augments its images."""
        if self._inputs is None:
            return []
        return [
            stream(self.job.seed, "visit", visits.broadcast.round, client).at(1).torch() for client in visits.clients
        ]

    def _batch(self, portion: Portion, generators: Sequence[Generator]) -> Batch:
        x, y = (
            rows.index_select(0, portion.rows.reshape(-1)).view(*portion.rows.shape, *rows.shape[1:])
            for rows in (self.job.data.x, self.job.data.y)
        )
        if self._inputs is None:
            return Batch(x=x, y=y)
        counts = [x.shape[1]] * len(x) if portion.counts is None else portion.counts.tolist()
        made = [
            self._inputs.train(images[:count], generator) for images, count, generator in zip(x, counts, generators)
        ]
        return Batch(x=torch.stack([_padded(images, x.shape[1]) for images in made]), y=y)

    def _memories(self, visits: Visits, deltas: Tensor, local: Arrays) -> Iterator[tuple[int, Memory]]:
        """What each client would keep, every array by itself, so that none holds on to a whole cohort's."""
        if not (local or self.job.method.uses_last):
            return
        lasts = deltas.unbind() if self.job.method.uses_last else [None] * len(deltas)
        for i, (client, last) in enumerate(zip(visits.clients, lasts, strict=True)):
            arrays = {name: rows[i].clone() for name, rows in local.items()}
            yield client, Memory(local=arrays, last=None if last is None else last.clone())

    def _cohort(
        self, broadcast: Broadcast, clients: Sequence[int], deltas: Tensor, order: Sequence[int], done: Sequence[_Share]
    ) -> Cohort:
        """The shares' reports in client order."""
        return Cohort(
            clients=tuple(clients), deltas=deltas, population=broadcast.population,
            examples=torch.from_numpy(self.job.data.sizes[list(clients)]),
            notes=_together([share.notes for share in done], order),
            metrics=_together([share.metrics for share in done], order),
        )  # fmt: skip


def model_of(job: Job) -> Batched:
    """The job's task for many clients at once; refused where it cannot be."""
    rows, inputs = job.data.index[:4], getattr(job.task, "inputs", None)
    x = job.data.x[rows] if inputs is None else inputs.evaluate(job.data.x[rows])
    return batched(job.task, Batch(x=x, y=job.data.y[rows]))


@dataclass(frozen=True, slots=True)
class _Share:
    """What came of a share of the cohort, in the order it was trained."""

    metrics: Arrays
    notes: Arrays
    memories: list[tuple[int, Memory]]


def _together(shares: Sequence[Arrays], order: Sequence[int]) -> Arrays:
    """The arrays of all shares, trained in this order, in client order."""
    if len(shares) == 1 and list(order) == sorted(order):
        return shares[0]
    back = torch.tensor(order).argsort()
    return {name: torch.cat([share[name] for share in shares])[back] for name in shares[0]}


def _padded(rows: Tensor, width: int) -> Tensor:
    """Rows, and the first of them again until there are so many."""
    return rows if len(rows) == width else torch.cat([rows, rows[:1].expand(width - len(rows), *rows.shape[1:])])


def _first(value: float | Tensor, n: int) -> Any:
    """The first n rows, of one row or of a number: all there is."""
    return value[:n] if isinstance(value, Tensor) else value
