"""What a method is made of: a rule for clients, a weighting of their updates, an optimizer on the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from igfl.types import Arrays, Cohort, Correction, Vec, Visit


class ClientRule:
    """How a client's gradient is corrected, and what it keeps, tells and hears. Every default is FedAvg."""

    uses_last: ClassVar[bool] = False  # True: the client's previous update is kept for it
    needs_everybody: ClassVar[bool] = False  # True: client sampling is refused

    def init_local(self, params: Vec) -> Arrays:
        """What a client remembers before its first visit."""
        return {}

    def init_shared(self, params: Vec) -> Arrays:
        """What the server shares in round 0, beside the parameters."""
        return {}

    def correct(self, visit: Visit) -> Correction:
        """The correction of every gradient of this visit."""
        return Correction()

    def remember(self, visit: Visit, delta: Vec) -> Arrays:
        """What the client remembers after the visit in which it moved by delta."""
        return visit.local

    def tell(self, visit: Visit, delta: Vec) -> Arrays:
        """What the client tells the server beside delta."""
        return {}

    def publish(self, shared: Arrays, cohort: Cohort, step: Vec) -> Arrays:
        """What the server shares in the next round, after it moved by step."""
        return shared


class Weighting(ABC):
    """How much each client's update counts."""

    uses_last: ClassVar[bool] = False

    def tell(self, visit: Visit, delta: Vec) -> Arrays:
        """What the weighting wants to hear of a client beside delta."""
        return {}

    @abstractmethod
    def weigh(self, cohort: Cohort) -> Vec:
        """Weights [n] on the simplex."""


class ServerOptimizer(ABC):
    """How the server moves along the weighted update."""

    def init(self, params: Vec) -> Arrays:
        """The optimizer's state before round 0."""
        return {}

    @abstractmethod
    def step(self, update: Vec, state: Arrays) -> tuple[Vec, Arrays]:
        """The step to take, and the next state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A federated method: its three parts, each any of its kind."""

    client: ClientRule
    weighting: Weighting
    server: ServerOptimizer

    def __post_init__(self) -> None:
        for slot, kind in (("client", ClientRule), ("weighting", Weighting), ("server", ServerOptimizer)):
            part = getattr(self, slot)
            if not isinstance(part, kind):
                cure = f"; did you mean {part.__name__}()?" if isinstance(part, type) else ""
                raise ValueError(f"{slot}={part!r} is not a {kind.__name__}{cure}")

    @property
    def uses_last(self) -> bool:
        """Whether clients keep their previous update."""
        return self.client.uses_last or self.weighting.uses_last

    def tell(self, visit: Visit, delta: Vec) -> Arrays:
        """The notes of both parts; a name may be used by one of them only."""
        rule, weighting = self.client.tell(visit, delta), self.weighting.tell(visit, delta)
        if clash := sorted(rule.keys() & weighting.keys()):
            raise ValueError(
                f"{type(self.client).__name__} and {type(self.weighting).__name__} both tell {clash[0]!r}: "
                "rename it in one of them"
            )
        return {**rule, **weighting}
