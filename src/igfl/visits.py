"""The client's program: what happens between a broadcast and a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from igfl.data.federation import Federation
from igfl.exact import default_generator
from igfl.parts import Method
from igfl.streams import Ints, Stream, stream
from igfl.types import NOT_KEPT, Batch, Broadcast, Correction, Memory, Plan, Report, Task, Vec, Visit


@runtime_checkable
class ChecksItself(Protocol):
    """A task that can tell beforehand that the data does not fit it."""

    def check(self, batch: Batch, labels: Tensor) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that decides a run, whatever engine it runs on: the same job gives the same bits."""

    method: Method
    task: Task
    data: Federation
    plan: Plan
    seed: int = 0

    def __post_init__(self) -> None:
        steps = self.plan.steps
        if steps is not None and not isinstance(steps, int) and len(steps) != self.data.population:
            raise ValueError(
                f"plan.steps has {len(steps)} entries for {self.data.population} clients: give one count a client"
            )

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
        rule, nothing, blank = self.method.client, torch.zeros_like(params), self.blank(params)
        visit = Visit(
            round=0, params=params, shared=rule.init_shared(params), lr=self.plan.rate(0), cohort_size=1,
            population=self.data.population, client=0, local=blank.local, steps=1,
            last=NOT_KEPT if blank.last is None else blank.last,
        )  # fmt: skip
        name = type(rule).__name__
        try:
            shift = rule.correct(visit).shift
            self.method.tell(visit, nothing)
        except RuntimeError as error:
            hint = "" if self.method.uses_last else " (a part that reads visit.last declares uses_last = True)"
            raise ValueError(f"{name} or its weighting fails on the first visit: {error}{hint}") from error
        if isinstance(shift, Tensor) and shift.shape not in ((), params.shape):
            raise ValueError(
                f"{name}.correct gives a shift of {tuple(shift.shape)} for a model of {tuple(params.shape)}: give one "
                "number for every parameter; a rule that reads visit.last declares uses_last = True"
            )

    def blank(self, params: Vec) -> Memory:
        """What a client remembers before its first visit."""
        last = torch.zeros_like(params) if self.method.uses_last else None
        return Memory(local=self.method.client.init_local(params), last=last)


def visit_client(
    job: Job, broadcast: Broadcast, client: int, memory: Memory, out: Vec | None = None
) -> tuple[Report, Memory]:
    """Train on one client: w <- w - lr (scale g + shift + pull (w - w_global)), T times; `out` receives the update."""
    data, plan, method = job.data, job.plan, job.method
    rows = data.rows(client)
    visit = Visit(
        round=broadcast.round, params=broadcast.params, shared=broadcast.shared, lr=broadcast.lr,
        cohort_size=broadcast.cohort_size, population=broadcast.population, client=client, local=memory.local,
        last=NOT_KEPT if memory.last is None else memory.last, steps=plan.steps_of(client, len(rows)),
    )  # fmt: skip
    draws = stream(job.seed, "visit", broadcast.round, client)
    with default_generator(draws.at(0).seed(), broadcast.params.device):
        weights = torch.empty_like(broadcast.params) if out is None else out
        weights.copy_(broadcast.params)
        loss = descend_(weights, visit, method.client.correct(visit), job, batches(job, visit, rows, draws))
    delta = weights.sub_(broadcast.params)
    report = Report(
        client=client, delta=delta, examples=len(rows), notes=method.tell(visit, delta), metrics={"loss": loss}
    )
    return report, Memory(local=method.client.remember(visit, delta), last=delta if method.uses_last else None)


def descend_(weights: Vec, visit: Visit, correction: Correction, job: Job, batches: Iterator[Batch]) -> float:
    """The local steps of a visit, in place; returns the mean loss. Weight decay is part of the gradient."""
    lr, scale, pull = visit.lr, correction.scale, correction.pull
    keep = 1 - lr * (scale * job.plan.weight_decay + pull)
    shift = correction.shift - pull * visit.params if pull else correction.shift
    total = 0.0
    for batch in batches:
        loss, gradient = job.task.gradient(weights, batch)
        if keep != 1:
            weights.mul_(keep)
        if isinstance(shift, Tensor) or shift:
            weights.sub_(shift, alpha=lr)
        weights.sub_(gradient, alpha=lr * scale)
        total += float(loss)
    return total / visit.steps


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
