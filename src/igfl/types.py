"""The values everything else is written in: a model is one flat vector, a cohort one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch
from torch import Generator, Tensor

Vec: TypeAlias = Tensor  # [d] a whole model, flat
Arrays: TypeAlias = Mapping[str, Tensor]  # named arrays: all that is stored, sent or saved
Metrics: TypeAlias = Mapping[str, float]
Schedule: TypeAlias = Callable[[int], float]  # round -> the clients' learning rate

_LAST = "/last"  # Memory.last among the arrays a client keeps: a name that no rule gives
NOT_KEPT = torch.empty(0)  # stands for `last` where no part of the method declares `uses_last`


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a client does in one visit: how far, in what portions, how fast."""

    lr: float | Schedule
    epochs: int = 1
    batch: int | None = None  # None: all of a client's examples in every step
    steps: int | Sequence[int] | None = None  # local steps, for all or for each client; overrides epochs
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.lr) and not 0 < self.lr < float("inf"):
            raise ValueError(f"lr={self.lr}: a learning rate must be a finite number above zero")
        if self.epochs < 1:
            raise ValueError(f"epochs={self.epochs}: a visit takes at least one epoch; set epochs >= 1")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch={self.batch}: a batch holds at least one example; None takes all at once")
        if self.steps is not None and min([self.steps] if isinstance(self.steps, int) else self.steps, default=0) < 1:
            raise ValueError(f"steps={self.steps}: a visit takes at least one local step; None counts epochs instead")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"weight_decay={self.weight_decay}: must be zero or a finite number above it")

    def rate(self, round: int) -> float:
        """The clients' learning rate in this round."""
        rate = float(self.lr(round)) if callable(self.lr) else self.lr
        if not 0 < rate < float("inf"):
            raise ValueError(f"lr={self.lr!r} gives {rate} in round {round}: let the schedule end above zero")
        return rate

    def steps_of(self, client: int, examples: int) -> int:
        """T = E * ceil(n / B), or the fixed count."""
        if isinstance(self.steps, int):
            return self.steps
        if self.steps is not None:
            return self.steps[client]
        return self.epochs * (1 if self.batch is None else -(-examples // self.batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Simulated misfortune: the share of visits whose report is lost, and of those that end early."""

    drop: float = 0.0
    slow: float = 0.0

    def __post_init__(self) -> None:
        for name, share in (("drop", self.drop), ("slow", self.slow)):
            if not 0 <= share < 1:
                raise ValueError(f"{name}={share}: the share of visits it befalls lies in [0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """What the server tells every client of a round."""

    round: int
    params: Vec
    shared: Arrays
    lr: float
    cohort_size: int  # S, as intended
    population: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(Broadcast):
    """What a client knows while it trains: the broadcast, its own memory, its count of local steps."""

    client: int
    local: Arrays
    last: Vec  # the client's previous update; zero before its first visit
    steps: int  # T of this visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How a client's step differs from plain descent: w <- w - lr (scale g + strength shift + pull (w - w_global))."""

    scale: float = 1.0
    shift: Vec | float = 0.0
    strength: float = 1.0  # a number beside the vector saves a pass over it
    pull: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a client keeps from visit to visit; it is never sent."""

    local: Arrays
    last: Vec | None = None

    def packed(self) -> Arrays:
        """All of it as arrays of one mapping."""
        return self.local if self.last is None else {**self.local, _LAST: self.last}

    @staticmethod
    def unpacked(arrays: Arrays) -> Memory:
        """What was packed."""
        local = dict(arrays)
        return Memory(last=local.pop(_LAST, None), local=local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a client tells the server."""

    client: int
    delta: Vec
    examples: int
    notes: Arrays
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The reports of a round side by side, in client order; `deltas` is valid until the next round is asked for."""

    clients: tuple[int, ...]
    deltas: Tensor  # [n, d]
    examples: Tensor  # [n]
    notes: Arrays  # each [n, ...]
    metrics: Arrays = field(default_factory=dict)  # each [n], float64
    population: int
    weights: Vec | None = None  # [n], once the server has weighed them
    rejected: tuple[int, ...] = ()  # clients that reported what could not be counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """All that the server carries from round to round; `round` counts the rounds done."""

    round: int
    params: Vec
    shared: Arrays
    optimizer: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some rows of the data, as stored, and the visit's own stream for whoever augments them."""

    x: Tensor
    y: Tensor
    generator: Generator | None = None  # None: evaluation, nothing is drawn


class Task(Protocol):
    """All the core knows of a model."""

    def initial(self) -> Vec:
        """The parameters to start from."""
        ...

    def gradient(self, params: Vec, batch: Batch) -> tuple[Tensor | float, Vec]:
        """The mean loss of the batch and its gradient, which may be overwritten by the next call."""
        ...

    def evaluate(self, params: Vec, batch: Batch) -> Metrics:
        """Means over the rows of the batch."""
        ...
