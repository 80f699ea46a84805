"""Where a round's time goes: every part of a round timed by itself, on the loop, one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch
from torch import Tensor

from igfl.engines.loop import Loop
from igfl.exact import one_thread
from igfl.screening import Screen
from igfl.streams import stream
from igfl.training import Sampled, serve, start
from igfl.types import NOT_KEPT, Batch, Broadcast, Cohort, Memory, ServerState, Visit
from igfl.visits import Job, batches, move


@dataclass
class Clock:
    """Seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Whatever happens inside is of this part."""
        began = perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + perf_counter() - began


def where_time_goes(job: Job, cohort: int, rounds: int, test_rows: int = 0) -> dict[str, float]:
    """Seconds a round in each part; the visits of all clients one after another. The first round is not counted."""
    clock, state, memories = Clock(), start(job), dict[int, Memory]()
    screen, cohorts = Screen(), Sampled(size=cohort, rounds=rounds + 1)
    for round in range(rounds + 1):
        if round == 1:
            clock.seconds.clear()
        clients = cohorts.of_round(round, job)
        broadcast = Broadcast(
            round=round, params=state.params, shared=state.shared, lr=job.plan.rate(round), cohort_size=cohort,
            population=job.data.population,
        )  # fmt: skip
        with one_thread():
            reports = _train(job, broadcast, clients, memories, clock)
        with clock.of("screen"):
            reports = screen.admit(round, state.params, reports)
        with clock.of("reduce"):
            state, _ = serve(job.method, state, reports)
    if test_rows:
        _score(job, state, test_rows, clock)
    return {part: seconds / rounds for part, seconds in clock.seconds.items()}


def _train(
    job: Job, broadcast: Broadcast, clients: tuple[int, ...], memories: dict[int, Memory], clock: Clock
) -> Cohort:
    """What `visit_client` does, part by part."""
    blank = job.blank(broadcast.params)
    told, deltas, steps = [], torch.empty(len(clients), len(broadcast.params)), job.steps(broadcast.round, clients)
    for client, row, count in zip(clients, deltas, steps, strict=True):
        memory = memories.get(client, blank)
        visit = Visit(
            round=broadcast.round, params=broadcast.params, shared=broadcast.shared, lr=broadcast.lr,
            cohort_size=broadcast.cohort_size, population=broadcast.population, client=client, local=memory.local,
            last=NOT_KEPT if memory.last is None else memory.last, steps=count,
        )  # fmt: skip
        with clock.of("load"):
            draws = stream(job.seed, "visit", broadcast.round, client)
            portions = list(batches(job, visit, job.data.rows(client), draws))
        with clock.of("correction"):
            correction = job.method.client.correct(visit)
        with clock.of("steps"):
            move(visit, correction, job, iter(portions), row)
        with clock.of("update"):
            torch.linalg.vector_norm(row)
        with clock.of("correction"):
            told.append(job.method.tell(visit, row))
            local = job.method.client.remember(visit, row)
        if job.method.uses_last or local:
            with clock.of("memory"):
                memories[client] = Memory(local=local, last=row.clone() if job.method.uses_last else None)
    notes: dict[str, Tensor] = {name: torch.stack([notes[name] for notes in told]) for name in told[0]}
    return Cohort(
        clients=clients, deltas=deltas, examples=torch.from_numpy(job.data.sizes[list(clients)]), notes=notes,
        population=broadcast.population,
    )  # fmt: skip


def _score(job: Job, state: ServerState, rows: int, clock: Clock) -> None:
    """One evaluation on so many rows, as a tenth of it falls on a round that is evaluated every tenth."""
    few = Batch(x=job.data.x[:rows], y=job.data.y[:rows])
    engine = Loop(replace(job, data=replace(job.data, test=few)))
    with clock.of("evaluate"):
        engine.evaluate(state.params)
