"""Client rules: what each method does to the gradient, for one visit. Names are the papers' nouns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from igfl.exact import weighted_sum
from igfl.parts import ClientRule
from igfl.types import Arrays, Cohort, Correction, Vec, Visit


@final
@dataclass(frozen=True)
class Plain(ClientRule):
    """Local SGD: the gradient as it is (FedAvg: McMahan et al. 2017, Algorithm 1)."""


@final
@dataclass(frozen=True)
class Proximal(ClientRule):
    """FedProx: f_i(w) + mu/2 |w - w_global|^2 (Li et al. 2020, equation 2)."""

    mu: float = 0.01

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"mu={self.mu}: FedProx pulls towards the global model with mu >= 0")

    def correct(self, visit: Visit) -> Correction:
        return Correction(pull=self.mu)


@final
@dataclass(frozen=True)
class ControlVariates(ClientRule):
    """SCAFFOLD, option II (Karimireddy et al. 2020, Algorithm 1).

    Line 10: g -> g - c_i + c;  line 12: c_i+ = c_i - c + (x - y_i) / (K lr);  line 17: c += sum of (c_i+ - c_i) / N.
    The server knows c and hears y_i - x: it finds c_i+ - c_i = -c - (y_i - x) / (K lr) itself, and nobody sends it.
    """

    def init_local(self, params: Vec) -> Arrays:
        return {"control": torch.zeros_like(params)}  # c_i

    def init_shared(self, params: Vec) -> Arrays:
        return {"control": torch.zeros_like(params)}  # c

    def correct(self, visit: Visit) -> Correction:
        return Correction(shift=visit.shared["control"] - visit.local["control"])

    def remember(self, visit: Visit, delta: Vec) -> Arrays:
        control = visit.local["control"] - visit.shared["control"]
        return {"control": control.sub_(delta, alpha=1 / (visit.lr * visit.steps))}

    def tell(self, visit: Visit, delta: Vec) -> Arrays:
        return {"pace": delta.new_tensor(1 / (visit.lr * visit.steps))}  # 1 / (K lr)

    def publish(self, shared: Arrays, cohort: Cohort, step: Vec) -> Arrays:
        control, n = shared["control"], len(cohort.clients)
        changes = -n * control - weighted_sum(cohort.notes["pace"], cohort.deltas)
        return {"control": control + changes / cohort.population}


@final
@dataclass(frozen=True)
class VarianceReduction(ClientRule):
    """VRL-SGD (Liang et al. 2019, Algorithm 1): g -> g - c_i, with c_i += (group - last) / (lr T) at each visit.

    last, lr and T are those of the client's previous visit, group the step the server made of it; c_i starts at zero.
    """

    uses_last: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True

    def init_local(self, params: Vec) -> Arrays:
        return {"control": torch.zeros_like(params), "pace": params.new_ones(1)}  # c_i; lr T of the previous visit

    def init_shared(self, params: Vec) -> Arrays:
        return {"group": torch.zeros_like(params)}  # Δw_ps

    def correct(self, visit: Visit) -> Correction:
        return Correction(shift=-self._control(visit))

    def remember(self, visit: Visit, delta: Vec) -> Arrays:
        return {"control": self._control(visit), "pace": torch.full_like(visit.local["pace"], visit.lr * visit.steps)}

    def publish(self, shared: Arrays, cohort: Cohort, step: Vec) -> Arrays:
        return {"group": step}

    def _control(self, visit: Visit) -> Vec:
        return visit.local["control"] + (visit.shared["group"] - visit.last) / visit.local["pace"]


@final
@dataclass(frozen=True)
class GroupBehaviour(ClientRule):
    """IGFL-client (Algorithm 2): every local step also moves a little with the group.

    Line 5 divided by -lr:  g -> (1 + 1/S) g + (last - S group) / (S lr T),  with S clients and T local steps.
    """

    uses_last: ClassVar[bool] = True

    def init_shared(self, params: Vec) -> Arrays:
        return {"group": torch.zeros_like(params)}  # Δw_ps

    def correct(self, visit: Visit) -> Correction:
        S, T = visit.cohort_size, visit.steps
        pull_back = torch.sub(visit.last, visit.shared["group"], alpha=S)
        return Correction(scale=1 + 1 / S, shift=pull_back, strength=1 / (S * visit.lr * T))

    def publish(self, shared: Arrays, cohort: Cohort, step: Vec) -> Arrays:
        return {"group": step}
