"""Learning rates that change from round to round; each ends at a rate above zero."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Step:
    """lr * factor^(round // every), never below `floor`."""

    lr: float
    every: int
    factor: float
    floor: float

    def __post_init__(self) -> None:
        _check_ends(self.lr, self.floor, "floor")
        if self.every < 1 or not 0 < self.factor <= 1:
            raise ValueError(
                f"every={self.every}, factor={self.factor}: decay by 0 < factor <= 1 every so many rounds, at least 1"
            )

    def __call__(self, round: int) -> float:
        return max(self.floor, self.lr * self.factor ** (round // self.every))


@dataclass(frozen=True)
class Cosine:
    """end + (lr - end) (1 + cos(pi round / rounds)) / 2, and `end` from there on."""

    lr: float
    end: float
    rounds: int

    def __post_init__(self) -> None:
        _check_ends(self.lr, self.end, "end")
        if self.rounds < 1:
            raise ValueError(f"rounds={self.rounds}: a decay takes at least one round")

    def __call__(self, round: int) -> float:
        done = min(round / self.rounds, 1.0)
        return self.end + (self.lr - self.end) * (1 + cos(pi * done)) / 2


def _check_ends(lr: float, end: float, name: str) -> None:
    if not 0 < end <= lr < float("inf"):
        raise ValueError(f"lr={lr}, {name}={end}: a rate decays to a stated rate above zero, 0 < {name} <= lr")
