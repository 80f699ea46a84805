"""The contract of a method, and problems whose answers are known. For anybody's method, not only ours."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from igfl.data.federation import Federation
from igfl.engines.loop import Loop
from igfl.parts import Method
from igfl.screening import Screen
from igfl.training import Given, rounds, start
from igfl.types import Arrays, Batch, Broadcast, Cohort, Memory, Metrics, Plan, ServerState, Vec
from igfl.visits import Job


@dataclass(frozen=True)
class Quadratic:
    """A task that is no torch module: f(w) = 1/2 (w - b)' A (w - b), each row of the data one (A, b)."""

    start: Vec

    def initial(self) -> Vec:
        return self.start.clone()

    def gradient(self, params: Vec, batch: Batch) -> tuple[Tensor, Vec]:
        residuals = params - batch.y  # [rows, d]
        slopes = torch.einsum("rij,rj->ri", batch.x, residuals)
        return 0.5 * (residuals * slopes).sum(1).mean(), slopes.mean(0)

    def evaluate(self, params: Vec, batch: Batch) -> Metrics:
        return {"loss": float(self.gradient(params, batch)[0])}


def quadratics(A: Tensor, b: Tensor, w0: Tensor, *, method: Method, plan: Plan, seed: int = 0) -> Job:
    """A job of one client for each row of A [n, d, d] and b [n, d]."""
    data = Federation.split(A, b, [[i] for i in range(len(A))], test=Batch(x=A, y=b))
    return Job(method=method, task=Quadratic(w0), data=data, plan=plan, seed=seed)


COHORTS = ((0, 1, 2, 3, 4), (4, 0, 2, 1, 3), (1, 3, 0, 2, 4), (0, 1, 2, 3, 4), (2, 0, 1, 3, 4), (0, 1, 2, 3, 4))
SAMPLED = ((0, 1, 4), (2, 3, 4), (0, 2, 3), (0, 1, 3), (1, 2, 4), (0, 3, 4))
KEEP = Screen(policy="keep")  # what is not finite is told by the clause it breaks


def check_method(method: Method) -> None:
    """Raise AssertionError, naming the clause, where a method breaks the contract that every engine relies on."""
    for dtype in (torch.float32, torch.float64):
        job = _problem(method, dtype)
        _check_parts(job)
        _check_runs(job)


def _problem(method: Method, dtype: torch.dtype) -> Job:
    draws = torch.Generator().manual_seed(1)
    roots = torch.randn(5, 7, 7, generator=draws, dtype=dtype)
    A = roots @ roots.mT / 7 + 0.3 * torch.eye(7, dtype=dtype)
    b, w0 = torch.randn(5, 7, generator=draws, dtype=dtype), torch.randn(7, generator=draws, dtype=dtype)
    return quadratics(A, b, w0, method=method, plan=Plan(lr=0.05, steps=(3, 1, 2, 3, 4)))


def _check_parts(job: Job) -> None:
    """Every part, called once more by itself on what a run has brought about."""
    method, engine = job.method, Loop(job)
    memories: dict[int, Memory] = {}
    everybody = tuple(range(job.data.population))
    state = list(rounds(engine, memories=memories, cohorts=Given(COHORTS[:3]), screen=KEEP))[-1][0]
    kept = {client: memories.get(client, job.blank(state.params)) for client in everybody}
    broadcast = Broadcast(
        round=state.round, params=state.params, shared=state.shared, lr=0.05, cohort_size=5, population=5
    )
    given = (broadcast, kept, state)
    before = _copied(given)
    cohort, after = engine.train(broadcast, everybody, kept)
    told = _copied(cohort)
    weights = method.weighting.weigh(cohort)
    _check_weights(weights, 5)
    step, optimizer = method.server.step(weights @ cohort.deltas, state.optimizer)
    shared = method.client.publish(state.shared, cohort, step)

    _agree(before, given, "it mutates what it was given: return new arrays, never write into visit, memory or state")
    _agree(told, cohort, "it mutates the cohort: weigh and publish return new arrays")
    _check_kinds(state, cohort, after, weights, step, optimizer, shared)

    order = [3, 0, 4, 2, 1]
    turned = _reordered(cohort, order)
    _close(weights[order], method.weighting.weigh(turned), "its weights depend on the order of the reports")
    _close(
        shared, method.client.publish(state.shared, turned, step), "what it publishes depends on the order of reports"
    )


def _check_runs(job: Job) -> None:
    """Whole runs: twice, pickled, from blank memories, interrupted."""
    cohorts = Given(COHORTS if job.method.client.needs_everybody else SAMPLED)
    whole = _run(job, cohorts)
    _agree(whole, _run(job, cohorts), "a second run differs: keep state in the arrays it returns, never on self")
    try:
        copy = replace(job, method=_copied(job.method))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"broken contract: it cannot be pickled, and workers are other processes: {error}"
        ) from error
    _agree(whole, _run(copy, cohorts), "it does not survive pickling")

    params = start(job).params
    blank = {client: job.blank(params) for client in range(job.data.population)}
    _agree(whole, _run(job, cohorts, memories=blank), "an unknown client does not start from init_local and zero")

    memories: dict[int, Memory] = {}
    half = _run(job, Given(cohorts.cohorts[:3]), memories=memories)
    state, memories = _copied((half, memories))
    _agree(whole, _run(copy, cohorts, state, memories), "a resumed run differs from an undisturbed one")


def _run(
    job: Job, cohorts: Given, state: ServerState | None = None, memories: dict[int, Memory] | None = None
) -> ServerState:
    states = rounds(Loop(job), state, memories, cohorts=cohorts, screen=KEEP)
    return list(states)[-1][0]


def _check_weights(weights: Tensor, n: int) -> None:
    _hold(weights.shape == (n,), f"weigh gives {tuple(weights.shape)} for {n} reports: one weight for each")
    _hold(bool(weights.isfinite().all()), "weigh gives a weight that is not finite")
    _hold(bool((weights >= 0).all()), "weigh gives a negative weight: weights lie on the simplex")
    _hold(abs(float(weights.double().sum()) - 1) < 1e-5, f"weights sum to {float(weights.sum())}, not to one")


def _check_kinds(state: ServerState, cohort: Cohort, after: Mapping[int, Memory], *made: Tensor | Arrays) -> None:
    """Whatever is made keeps the parameters' type and device; integers may stay integers."""
    values = [value for group in (*made, cohort.notes, *(m.local for m in after.values())) for value in _tensors(group)]
    for value in values:
        if value.is_floating_point():
            _hold(value.dtype == state.params.dtype, f"it turns {state.params.dtype} into {value.dtype}")
        _hold(value.device == state.params.device, f"it moves arrays from {state.params.device} to {value.device}")


def _reordered(cohort: Cohort, order: list[int]) -> Cohort:
    return Cohort(
        clients=tuple(cohort.clients[i] for i in order),
        deltas=cohort.deltas[order],
        examples=cohort.examples[order],
        notes={name: note[order] for name, note in cohort.notes.items()},
        population=cohort.population,
    )


def _tensors(value: Any) -> list[Tensor]:
    """All tensors inside a value, in a fixed order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for key in sorted(value) for tensor in _tensors(value[key])]
    if isinstance(value, tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    if hasattr(value, "__dataclass_fields__"):
        return [tensor for name in value.__dataclass_fields__ for tensor in _tensors(getattr(value, name))]
    return []


def _copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes


def _agree(expected: Any, found: Any, clause: str) -> None:
    _compare(expected, found, lambda a, b: torch.allclose(a, b, rtol=0, atol=0, equal_nan=True), clause)


def _close(expected: Any, found: Any, clause: str) -> None:
    _compare(expected, found, lambda a, b: torch.allclose(a, b, rtol=1e-4, atol=1e-6), clause)


def _compare(expected: Any, found: Any, same: Callable[[Tensor, Tensor], bool], clause: str) -> None:
    pairs = list(zip(_tensors(expected), _tensors(found), strict=True))
    _hold(all(a.shape == b.shape and a.dtype == b.dtype and same(a, b) for a, b in pairs), clause)


def _hold(holds: bool, clause: str) -> None:
    if not holds:
        raise AssertionError(f"broken contract: {clause}")
