"""Updates that must not reach the server: those with NaN or infinity, and those that explode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from torch import Tensor

from igfl.exact import one_thread
from igfl.names import unknown
from igfl.types import Cohort, Vec

Policy = Literal["reject", "stop", "keep"]


class Diverged(RuntimeError):  # noqa: N818  # what happened, in the paper's word
    """No update of this round is fit to be counted."""

    def __init__(self, round: int, why: str) -> None:
        super().__init__(round, why)
        self.round, self.why = round, why

    def __str__(self) -> str:
        return f"diverged at round {self.round}: {self.why}; a smaller lr may hold"


@final
@dataclass(frozen=True, kw_only=True)
class Screen:
    """Reject such a report, stop the run, or keep it; exploding is a norm above `limit` times the model's, plus one."""

    policy: Policy = "reject"
    limit: float = 1000.0

    def __post_init__(self) -> None:
        if self.policy not in ("reject", "stop", "keep"):
            raise unknown("policy", self.policy, ("reject", "stop", "keep"))
        if not self.limit > 0:
            raise ValueError(f"limit={self.limit}: must be above zero; inf lets every finite update pass")

    def admit(self, round: int, params: Vec, cohort: Cohort) -> Cohort:
        """The cohort without the reports that are unfit; with none that is fit, the run has diverged."""
        if self.policy == "keep" or not cohort.clients:
            return cohort
        with one_thread():
            fit = self._fit(params, cohort)
        if bool(fit.all()):
            return cohort
        unfit = tuple(cohort.clients[i] for i in (~fit).nonzero().ravel().tolist())
        if self.policy == "stop" or not bool(fit.any()):
            names = ", ".join(map(str, unfit[:5])) + (", ..." if len(unfit) > 5 else "")
            raise Diverged(round, f"updates of clients {names} are not finite or explode")
        return replace(chosen(cohort, fit.nonzero().ravel()), rejected=unfit)

    def _fit(self, params: Vec, cohort: Cohort) -> Tensor:
        norms = cohort.metrics.get("norm")  # [n] as each client's visit found it, while the update was at hand
        if norms is None:
            norms = torch.linalg.vector_norm(cohort.deltas, dim=1).cpu()
        fit: Tensor = norms <= self.limit * (1 + float(torch.linalg.vector_norm(params)))  # false for NaN
        for note in cohort.notes.values():
            fit &= (note.flatten(1).sum(1) if note.ndim > 1 else note).isfinite().cpu()  # a sum tells of all its terms
        return fit


def chosen(cohort: Cohort, places: Tensor) -> Cohort:
    """The reports at these places alone."""
    on_cpu = places.cpu()
    return replace(
        cohort,
        clients=tuple(cohort.clients[i] for i in on_cpu.tolist()),
        deltas=cohort.deltas[places],
        examples=cohort.examples[on_cpu],
        notes={name: note[places] for name, note in cohort.notes.items()},
        metrics={name: metric[on_cpu] for name, metric in cohort.metrics.items()},
    )
