"""A worker process: it is told of buffers, rounds and visits, and answers each visit with a few numbers.

Whatever is large lies in shared rows: the broadcast, the updates, the notes, what clients keep.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from igfl.engines.allocator import keep_freed_memory
from igfl.engines.loop import chunks, test_set
from igfl.engines.shared import write
from igfl.types import Broadcast, Memory, Metrics
from igfl.visits import Job, visit_client

Row = tuple[str, int]  # of which buffer, which row


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOrder:
    """What is the same for all visits of a round, beside the shared rows."""

    round: int
    lr: float
    cohort_size: int
    population: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitOrder:
    """Train this client; its update goes into row `place`, what it would remember into the rows `after`."""

    place: int
    client: int
    before: Mapping[str, Row] | None  # None: never visited
    after: Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOrder:
    """Evaluate this chunk of the test set."""

    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of an order."""

    place: int
    metrics: Metrics
    error: Exception | None = None


def serve(job: Job, orders: Connection) -> None:
    """The process's main: until it is told to stop, or nobody is there to tell it anything."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine decides when to stop
    keep_freed_memory()
    torch.set_num_threads(1)
    worker = _Worker(job)
    gc.collect()
    gc.freeze()  # what is here stays here: no need to look through it again and again
    try:
        while (order := orders.recv()) is not None:
            answers = worker.obey(order)
            if answers:
                orders.send(answers)
    except (EOFError, ConnectionError):
        return


@dataclass
class _Worker:
    job: Job
    buffers: dict[str, Tensor] = field(default_factory=dict)
    broadcast: Broadcast | None = None

    def obey(self, order: Any) -> list[Answer]:
        """Take note of buffers and rounds; answer a bundle of orders, up to the first that fails."""
        if isinstance(order, dict):
            self._take_note(order)
        elif isinstance(order, RoundOrder):
            self._hear(order)
        else:
            return list(self._answers(order))
        return []

    def _answers(self, bundle: Sequence[VisitOrder | ScoreOrder]) -> Iterator[Answer]:
        for order in bundle:
            try:
                metrics = self._train(order) if isinstance(order, VisitOrder) else self._score(order)
            except Exception as error:  # whatever a model or a method raises is the caller's to see
                yield Answer(place=order.place, metrics={}, error=portable(error))
                return
            yield Answer(place=order.place, metrics=metrics)

    def _take_note(self, buffers: Mapping[str, Tensor]) -> None:
        self.buffers.update(buffers)
        self.blank = self.job.blank(self.buffers["params"][0])

    def _hear(self, order: RoundOrder) -> None:
        shared = {name.partition("/")[2]: rows[0] for name, rows in self.buffers.items() if name.startswith("shared/")}
        self.broadcast = Broadcast(
            round=order.round, params=self.buffers["params"][0], shared=shared, lr=order.lr,
            cohort_size=order.cohort_size, population=order.population,
        )  # fmt: skip

    def _train(self, order: VisitOrder) -> Metrics:
        assert self.broadcast is not None  # noqa: S101  # a round is announced before its visits
        memory = self.blank if order.before is None else self._memory(order.before)
        out = self.buffers["deltas"][order.place]
        report, after = visit_client(self.job, self.broadcast, order.client, memory, out)
        notes = {name: self.buffers[f"notes/{name}"][order.place] for name in report.notes}
        write(report.notes, notes)
        write(after.packed(), {name: self.buffers[buffer][row] for name, (buffer, row) in order.after.items()})
        return report.metrics

    def _memory(self, rows: Mapping[str, Row]) -> Memory:
        return Memory.unpacked({name: self.buffers[buffer][row] for name, (buffer, row) in rows.items()})

    def _score(self, order: ScoreOrder) -> Metrics:
        part = chunks(test_set(self.job))[order.place]
        return self.job.task.evaluate(self.buffers["params"][0], part)


def portable(error: Exception) -> Exception:
    """The exception itself where it can be sent, else its words."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    except Exception:  # an exception may fail to pickle in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
