"""Weightings: how much the server lets each client's update count. All are weights on the simplex.

The attentions are IGFL-server (Algorithm 3): psi is the dot product of whole update vectors, the softmax runs over the
cohort, and a client's weight is the mean over all queries i of alpha_ij.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from igfl.exact import products
from igfl.parts import Weighting
from igfl.types import Arrays, Cohort, Vec, Visit

Similarity: TypeAlias = Literal["dot", "cosine"]


@final
@dataclass(frozen=True)
class Uniform(Weighting):
    """Every client alike: 1/n."""

    def weigh(self, cohort: Cohort) -> Vec:
        n = len(cohort.clients)
        return cohort.deltas.new_full((n,), 1 / n)


@final
@dataclass(frozen=True)
class ByExamples(Weighting):
    """By the number of examples: n_k / n (McMahan et al. 2017)."""

    def weigh(self, cohort: Cohort) -> Vec:
        examples = cohort.examples.to(cohort.deltas.dtype)
        return examples / examples.sum()


@dataclass(frozen=True)
class _Attention:
    """The two named variations of the paper's attention: the defaults are the paper's."""

    temperature: float = 1.0
    similarity: Similarity = "dot"

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature}: must be above zero; inf weighs all clients alike")
        if self.similarity not in ("dot", "cosine"):
            raise ValueError(f"similarity={self.similarity!r}: choose 'dot' or 'cosine'")

    def behaviours(self, updates: Tensor) -> Tensor:
        """The vectors whose dot products are the scores."""
        return normalize(updates, dim=-1) if self.similarity == "cosine" else updates


@final
@dataclass(frozen=True)
class SelfAttention(_Attention, Weighting):
    """Query: each client's own update."""

    def weigh(self, cohort: Cohort) -> Vec:
        updates = self.behaviours(cohort.deltas)
        scores = products(updates)  # [n, n], row = query
        attention = torch.softmax(scores / self.temperature, dim=1)
        return attention.mean(0)


@final
@dataclass(frozen=True)
class GlobalAttention(_Attention, Weighting):
    """Query: the plain mean of the updates."""

    def weigh(self, cohort: Cohort) -> Vec:
        query = self.behaviours(cohort.deltas.mean(0))
        scores = self.behaviours(cohort.deltas) @ query  # [n]
        return torch.softmax(scores / self.temperature, dim=0)


@final
@dataclass(frozen=True)
class TimeAttention(_Attention, Weighting):
    """Query: each client's own previous update; the client computes its score, so that its history stays with it."""

    uses_last: ClassVar[bool] = True

    def tell(self, visit: Visit, delta: Vec) -> Arrays:
        return {"persistence": torch.linalg.vecdot(self.behaviours(visit.last), self.behaviours(delta))}

    def weigh(self, cohort: Cohort) -> Vec:
        scores = cohort.notes["persistence"]  # [n]
        return torch.softmax(scores / self.temperature, dim=0)
