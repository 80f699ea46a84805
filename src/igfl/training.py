"""The server's program: who takes part, what is sent, what becomes of the reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch

from igfl.exact import aligned_state, one_thread, weighted_sum
from igfl.parts import Method
from igfl.screening import Screen
from igfl.streams import stream
from igfl.types import Broadcast, Cohort, Memory, Metrics, ServerState, Vec
from igfl.visits import Job

SCREEN = Screen()


class ServerError(RuntimeError):
    """What the server's part of a method raised; the exception itself is the cause."""


class Engine(Protocol):
    """Where clients train. It keeps nothing from round to round: `rounds` owns the state and the memories."""

    @property
    def job(self) -> Job: ...

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        """The reports of these clients, and what each would remember if its report counts. A client missing from
        `memories` was never visited."""
        ...

    def evaluate(self, params: Vec) -> Metrics:
        """Means over the test set."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Cohorts(Protocol):
    """Who takes part in which round."""

    @property
    def rounds(self) -> int: ...

    def check(self, job: Job) -> None:
        """Refuse what cannot be."""
        ...

    def of_round(self, round: int, job: Job) -> tuple[int, ...]:
        """The clients of this round, in order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """`size` clients a round, drawn without replacement among those with data; None: all of them."""

    rounds: int
    size: int | None = None

    def check(self, job: Job) -> None:
        available = len(job.data.with_data)
        if self.rounds < 0:
            raise ValueError(f"rounds={self.rounds}: must be zero or more")
        if self.size is not None and not 1 <= self.size <= available:
            raise ValueError(f"cohort size={self.size}: {available} clients have data; choose 1 to {available}")
        if self.size is not None and self.size < available:
            _refuse_absence(job.method)

    def of_round(self, round: int, job: Job) -> tuple[int, ...]:
        everybody = job.data.with_data
        if self.size is None or self.size == len(everybody):
            return tuple(everybody.tolist())
        return tuple(everybody[stream(job.seed, "cohort", round).sample(len(everybody), self.size)].tolist())


@dataclass(frozen=True)
class Given:
    """The cohorts themselves, one for each round."""

    cohorts: Sequence[Sequence[int]]

    @property
    def rounds(self) -> int:
        return len(self.cohorts)

    def check(self, job: Job) -> None:
        available = set(job.data.with_data.tolist())
        for round, cohort in enumerate(self.cohorts):
            if not cohort:
                raise ValueError(f"cohort {round} is empty: name at least one client")
            if len(set(cohort)) < len(cohort):
                raise ValueError(f"cohort {round} names a client twice: {sorted(cohort)}; each takes part once a round")
            if strangers := sorted(set(cohort) - available):
                why = "has no data" if 0 <= strangers[0] < job.data.population else "is not in the population"
                raise ValueError(f"cohort {round} names client {strangers[0]}, which {why}: leave it out")
            if len(cohort) < len(available):
                _refuse_absence(job.method)

    def of_round(self, round: int, job: Job) -> tuple[int, ...]:
        return tuple(sorted(self.cohorts[round]))


def start(job: Job) -> ServerState:
    """The server before round 0."""
    params = job.task.initial()
    return ServerState(
        round=0, params=params, shared=job.method.client.init_shared(params), optimizer=job.method.server.init(params)
    )


def rounds(
    engine: Engine,
    state: ServerState | None = None,
    memories: MutableMapping[int, Memory] | None = None,
    *,
    cohorts: Cohorts,
    screen: Screen = SCREEN,
) -> Iterator[tuple[ServerState, Cohort]]:
    """Train, round after round, from `state` on; each yields the server's new state and the reports it came from.

    `memories` holds what clients keep between visits, written only when a client's report was counted. State and
    memories together are all there is to save. `screen` decides which reports are fit to count.
    """
    job = engine.job
    state = aligned_state(state or start(job))
    memories = {} if memories is None else memories
    cohorts.check(job)
    job.check(state.params)
    if job.faults.drop:
        _refuse_absence(job.method)
    if job.method.client.needs_everybody and screen.policy == "reject":
        screen = replace(screen, policy="stop")  # a client whose report does not count has missed a round
    _tell_of_clients_without_data(job)
    return _rounds(engine, state, memories, cohorts, screen)


def _rounds(
    engine: Engine, state: ServerState, memories: MutableMapping[int, Memory], cohorts: Cohorts, screen: Screen
) -> Iterator[tuple[ServerState, Cohort]]:
    job = engine.job
    while state.round < cohorts.rounds:
        clients = cohorts.of_round(state.round, job)
        broadcast = Broadcast(
            round=state.round, params=state.params, shared=state.shared, lr=job.plan.rate(state.round),
            cohort_size=len(clients), population=job.data.population,
        )  # fmt: skip
        cohort, kept = _train(engine, broadcast, job.arriving(state.round, clients), memories)
        cohort = screen.admit(state.round, state.params, cohort)
        try:
            state, cohort = serve(job.method, state, cohort)
        except Exception as error:  # whatever a weighting, an optimizer or a rule raises
            raise ServerError(f"the server in round {state.round}: {type(error).__name__}: {error}") from error
        memories.update(kept if not cohort.rejected else {k: m for k, m in kept.items() if k not in cohort.rejected})
        yield state, cohort


def _train(
    engine: Engine, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
) -> tuple[Cohort, Mapping[int, Memory]]:
    if clients:
        return engine.train(broadcast, clients, memories)
    nobody = broadcast.params.new_empty(0, len(broadcast.params))
    return Cohort(
        clients=(), deltas=nobody, examples=torch.empty(0, dtype=torch.int64), notes={}, population=broadcast.population
    ), {}


def serve(method: Method, state: ServerState, cohort: Cohort) -> tuple[ServerState, Cohort]:
    """The server's part of a round: w <- w + optimizer(weights @ deltas). No report: nothing moves."""
    if not cohort.clients:
        return replace(state, round=state.round + 1), cohort
    with one_thread():
        weights = method.weighting.weigh(cohort)
        update = weighted_sum(weights, cohort.deltas)
        step, optimizer = method.server.step(update, state.optimizer)
        params = state.params + step
        cohort = replace(cohort, weights=weights)
        shared = method.client.publish(state.shared, cohort, step)
    return ServerState(round=state.round + 1, params=params, shared=shared, optimizer=optimizer), cohort


def _refuse_absence(method: Method) -> None:
    if method.client.needs_everybody:
        raise ValueError(
            f"{type(method.client).__name__} needs every client in every round, for it corrects each by the step "
            "the group took since that client's last visit: let all take part, or choose SCAFFOLD, which samples"
        )


def _tell_of_clients_without_data(job: Job) -> None:
    empty: Iterable[int] = (job.data.sizes == 0).nonzero()[0].tolist()
    if names := [str(client) for client in empty]:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        warnings.warn(
            f"{len(names)} of {job.data.population} clients have no data and are never sampled: {shown}", stacklevel=3
        )
