"""The client's program: what happens between a broadcast and a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from igfl.data.federation import Federation
from igfl.exact import default_generator
from igfl.parts import Method
from igfl.streams import Ints, Stream, stream
from igfl.types import (
    NOT_KEPT,
    Arrays,
    Batch,
    Broadcast,
    Correction,
    Faults,
    Memory,
    Plan,
    Report,
    Task,
    Vec,
    Visit,
)  # fmt: skip

NO_FAULTS = Faults()


@runtime_checkable
class ChecksItself(Protocol):
    """A task that can tell beforehand that the data does not fit it."""

    def check(self, batch: Batch, labels: Tensor) -> None: ...


@runtime_checkable
class Descends(Protocol):
    """A task that steps down its gradient without laying it out in one vector first."""

    def descend(self, params: Vec, batch: Batch, rate: float, out: Vec) -> Tensor | float: ...

    def step(self, params: Vec, batch: Batch, rate: float, out: Vec) -> Tensor | float: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that decides a run, whatever engine it runs on: the same job gives the same bits."""

    method: Method
    task: Task
    data: Federation
    plan: Plan
    seed: int = 0
    faults: Faults = NO_FAULTS

    def __post_init__(self) -> None:
        steps = self.plan.steps
        if steps is not None and not isinstance(steps, int) and len(steps) != self.data.population:
            raise ValueError(
                f"plan.steps has {len(steps)} entries for {self.data.population} clients: give one count a client"
            )

    def steps(self, round: int, clients: Sequence[int]) -> list[int]:
        """T of each of these visits; a slow client's ends after a part of them, drawn evenly, at least one."""
        planned = [self.plan.steps_of(client, int(self.data.sizes[client])) for client in clients]
        if not self.faults.slow:
            return planned
        slow, part = stream(self.seed, "slow", round).at(clients).uniform(2).T
        return [
            min(steps, 1 + int(part[i] * (steps - 1))) if slow[i] < self.faults.slow else steps
            for i, steps in enumerate(planned)
        ]

    def arriving(self, round: int, clients: Sequence[int]) -> tuple[int, ...]:
        """Those of these clients whose reports are not lost."""
        if not self.faults.drop:
            return tuple(clients)
        (lost,) = stream(self.seed, "drop", round).at(clients).uniform(1).T
        return tuple(client for client, draw in zip(clients, lost, strict=True) if draw >= self.faults.drop)

    def check(self, params: Vec) -> None:
        """Refuse, before any work, a task or a method that does not fit the data or itself."""
        if not len(self.data.with_data):
            raise ValueError("no client has any data: check the partition")
        rows = self.data.rows(int(self.data.with_data[0]))[:2]
        batch = Batch(x=self.data.x[rows], y=self.data.y[rows], generator=torch.Generator().manual_seed(0))
        if isinstance(self.task, ChecksItself):
            for labels in (self.data.y, *([self.data.test.y] if self.data.test else [])):
                self.task.check(batch, labels)
        with default_generator(0, params.device):
            gradient = self.task.gradient(params, batch)[1]
        if gradient.shape != params.shape:
            raise ValueError(
                f"{type(self.task).__name__}.gradient gave {tuple(gradient.shape)} for a model of "
                f"{tuple(params.shape)}: return one number for every parameter"
            )
        self._try_method(params)

    def _try_method(self, params: Vec) -> None:
        """Call the rule once: it refuses names that clash, a shift of the wrong length, a `last` nobody keeps."""
        name, visit = type(self.method.client).__name__, self._first_visit(params)
        try:
            shift = self.method.client.correct(visit).shift
            self.notes(params)
        except RuntimeError as error:
            hint = "" if self.method.uses_last else " (a part that reads visit.last declares uses_last = True)"
            raise ValueError(f"{name} or its weighting fails on the first visit: {error}{hint}") from error
        if isinstance(shift, Tensor) and shift.shape not in ((), params.shape):
            raise ValueError(
                f"{name}.correct gives a shift of {tuple(shift.shape)} for a model of {tuple(params.shape)}: give one "
                "number for every parameter; a rule that reads visit.last declares uses_last = True"
            )

    def notes(self, params: Vec) -> Arrays:
        """What a client that has not moved would tell: the names and shapes of all notes."""
        return self.method.tell(self._first_visit(params), torch.zeros_like(params))

    def _first_visit(self, params: Vec) -> Visit:
        blank = self.blank(params)
        return Visit(
            round=0, params=params, shared=self.method.client.init_shared(params), lr=self.plan.rate(0), cohort_size=1,
            population=self.data.population, client=0, local=blank.local, steps=1,
            last=NOT_KEPT if blank.last is None else blank.last,
        )  # fmt: skip

    def blank(self, params: Vec) -> Memory:
        """What a client remembers before its first visit."""
        last = torch.zeros_like(params) if self.method.uses_last else None
        return Memory(local=self.method.client.init_local(params), last=last)


def visit_client(
    job: Job, broadcast: Broadcast, client: int, memory: Memory, out: Vec | None = None
) -> tuple[Report, Memory]:
    """Train on one client: w <- w - lr (scale g + shift + pull (w - w_global)), T times; `out` receives the update."""
    method, rows = job.method, job.data.rows(client)
    visit = Visit(
        round=broadcast.round, params=broadcast.params, shared=broadcast.shared, lr=broadcast.lr,
        cohort_size=broadcast.cohort_size, population=broadcast.population, client=client, local=memory.local,
        last=NOT_KEPT if memory.last is None else memory.last, steps=job.steps(broadcast.round, (client,))[0],
    )  # fmt: skip
    draws = stream(job.seed, "visit", broadcast.round, client)
    with default_generator(draws.at(0).seed(), broadcast.params.device):
        delta = torch.empty_like(broadcast.params) if out is None else out
        loss = move(visit, method.client.correct(visit), job, batches(job, visit, rows, draws), delta)
        notes, local = method.tell(visit, delta), method.client.remember(visit, delta)
    metrics = {"loss": loss, "norm": float(torch.linalg.vector_norm(delta))}
    report = Report(client=client, delta=delta, examples=len(rows), notes=notes, metrics=metrics)
    return report, Memory(local=local, last=delta if method.uses_last else None)


def move(visit: Visit, correction: Correction, job: Job, batches: Iterator[Batch], delta: Vec) -> float:
    """The local steps of a visit, all that they moved the parameters by in `delta`; returns the mean loss."""
    if visit.steps == 1:
        return _step(visit, correction, job, next(batches), delta)
    loss = _descend(visit, correction, job, batches, delta)
    delta.sub_(visit.params)
    return loss


def _step(visit: Visit, correction: Correction, job: Job, batch: Batch, delta: Vec) -> float:
    """One step from w_global, where nothing pulls: -lr (scale (g + decay w_global) + strength shift)."""
    rate = visit.lr * correction.scale
    if isinstance(job.task, Descends):
        loss: Tensor | float = job.task.step(visit.params, batch, rate, delta)
    else:
        loss, gradient = job.task.gradient(visit.params, batch)
        torch.mul(gradient, -rate, out=delta)
    if job.plan.weight_decay:
        delta.sub_(visit.params, alpha=rate * job.plan.weight_decay)
    if _is_there(correction.shift):
        delta.sub_(correction.shift, alpha=visit.lr * correction.strength)
    return float(loss)


def _descend(visit: Visit, correction: Correction, job: Job, batches: Iterator[Batch], weights: Vec) -> float:
    """The local steps of a visit, from the parameters of the broadcast into `weights`; returns the mean loss.

    With weight decay in g: w <- (1 - lr (scale decay + pull)) w - lr scale g - lr (strength shift - pull w_global).
    """
    lr, scale, pull = visit.lr, correction.scale, correction.pull
    keep = 1 - lr * (scale * job.plan.weight_decay + pull)
    shift, strength = correction.shift, correction.strength
    if pull:
        shift, strength = strength * shift - pull * visit.params, 1.0
    shifts = _is_there(shift)
    fused = job.task.descend if keep == 1 and isinstance(job.task, Descends) else None
    current, total = visit.params, 0.0
    for batch in batches:
        if fused is not None:
            loss: Tensor | float = fused(current, batch, lr * scale, weights)
        else:
            loss, gradient = job.task.gradient(current, batch)
            torch.mul(current, keep, out=weights).sub_(gradient, alpha=lr * scale)
        if shifts:
            weights.sub_(shift, alpha=lr * strength)
        current = weights
        total += float(loss)
    return total / visit.steps


def _is_there(shift: Vec | float) -> bool:
    return isinstance(shift, Tensor) or shift != 0


def batches(job: Job, visit: Visit, rows: Tensor, draws: Stream) -> Iterator[Batch]:
    """T batches: a fresh permutation an epoch, the last partial batch kept. No batch size: all rows as they lie."""
    generator = draws.at(1).torch()
    for chosen in portions(
        len(rows), job.plan.batch, visit.steps, stream(job.seed, "batches", visit.round, visit.client)
    ):
        picked = rows if chosen is None else rows[torch.from_numpy(chosen)]
        yield Batch(x=job.data.x[picked], y=job.data.y[picked], generator=generator)


def portions(examples: int, batch: int | None, steps: int, draws: Stream) -> Iterator[Ints | None]:
    """Which examples each of the T steps takes; None: all of them."""
    if batch is None:
        yield from [None] * steps
        return
    starts = range(0, examples, batch)
    for step in range(steps):
        epoch, position = divmod(step, len(starts))
        if position == 0:
            order = draws.at(epoch).permutation(examples)
        yield order[starts[position] : starts[position] + batch]
