"""Server optimizers: from the weighted update to the step the server takes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch

from igfl.parts import ServerOptimizer
from igfl.types import Arrays, Vec


@final
@dataclass(frozen=True)
class Descend(ServerOptimizer):
    """w <- w + lr Δ."""

    lr: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.lr)

    def step(self, update: Vec, state: Arrays) -> tuple[Vec, Arrays]:
        return self.lr * update, {}


@final
@dataclass(frozen=True)
class Momentum(ServerOptimizer):
    """v <- beta v + Δ;  w <- w + lr v  (FedAvgM: Hsu et al. 2019, section 4.3)."""

    lr: float = 1.0
    beta: float = 0.9

    def __post_init__(self) -> None:
        _check_rate(self.lr)
        _check_decay("beta", self.beta)

    def init(self, params: Vec) -> Arrays:
        return {"velocity": torch.zeros_like(params)}

    def step(self, update: Vec, state: Arrays) -> tuple[Vec, Arrays]:
        velocity = self.beta * state["velocity"] + update
        return self.lr * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class _Adaptive(ServerOptimizer):
    """FedOPT (Reddi et al. 2021, Algorithm 2): m <- beta1 m + (1 - beta1) Δ;  w <- w + lr m / (sqrt v + tau)."""

    lr: float = 0.1
    tau: float = 0.01
    beta1: float = 0.9

    def __post_init__(self) -> None:
        _check_rate(self.lr)
        _check_decay("beta1", self.beta1)
        if not self.tau > 0:
            raise ValueError(f"tau={self.tau}: the degree of adaptivity must be above zero")

    def init(self, params: Vec) -> Arrays:
        return {"m": torch.zeros_like(params), "v": torch.full_like(params, self.tau**2)}

    def step(self, update: Vec, state: Arrays) -> tuple[Vec, Arrays]:
        m = self.beta1 * state["m"] + (1 - self.beta1) * update
        v = self.second_moment(state["v"], update.square())
        return self.lr * m / (v.sqrt() + self.tau), {"m": m, "v": v}

    @abstractmethod
    def second_moment(self, v: Vec, square: Vec) -> Vec:
        """The next v, from the last one and Δ^2."""


@final
@dataclass(frozen=True)
class Adagrad(_Adaptive):
    """v <- v + Δ^2  (FedAdagrad)."""

    def second_moment(self, v: Vec, square: Vec) -> Vec:
        return v + square


@dataclass(frozen=True)
class _Forgetting(_Adaptive):
    """The two whose second moment forgets."""

    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_decay("beta2", self.beta2)


@final
@dataclass(frozen=True)
class Adam(_Forgetting):
    """v <- beta2 v + (1 - beta2) Δ^2  (FedAdam); no bias correction."""

    def second_moment(self, v: Vec, square: Vec) -> Vec:
        return self.beta2 * v + (1 - self.beta2) * square


@final
@dataclass(frozen=True)
class Yogi(_Forgetting):
    """v <- v - (1 - beta2) Δ^2 sign(v - Δ^2)  (FedYogi)."""

    def second_moment(self, v: Vec, square: Vec) -> Vec:
        return v - (1 - self.beta2) * square * torch.sign(v - square)


def _check_rate(lr: float) -> None:
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr={lr}: the server's rate must be a finite number above zero")


def _check_decay(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name}={value}: must be at least 0 and below 1")
