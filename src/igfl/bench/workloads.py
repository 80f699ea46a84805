"""The three workloads, each as a job and as the plain numbers a loop without federated code needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from igfl.data.federation import Federation
from igfl.methods import fedavg
from igfl.models import cnn, logistic
from igfl.names import unknown
from igfl.parts import Method
from igfl.streams import stream
from igfl.task import ModuleTask
from igfl.types import Plan
from igfl.visits import Job

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """So many clients with so many rows of this shape, a cohort of them a round, one epoch."""

    name: str
    clients: int
    rows: int  # of each client
    shape: tuple[int, ...]
    classes: int
    cohort: int
    batch: int
    network: Callable[[], nn.Module]

    def data(self) -> Federation:
        """Noise: speed does not depend on what is learned."""
        draws = stream(0, "bench", ord(self.name[0])).torch()
        total = self.clients * self.rows
        x = torch.randn(total, *self.shape, generator=draws)
        y = torch.randint(self.classes, (total,), generator=draws)
        offsets = torch.arange(self.clients + 1) * self.rows
        return Federation(x=x, y=y, index=torch.arange(total), offsets=offsets)

    def job(self, method: Method | None = None, precision: Precision = "fp32") -> Job:
        """The same for our engines."""
        task = ModuleTask(self.network(), precision=precision)
        return Job(method=method or fedavg(), task=task, data=self.data(), plan=Plan(lr=0.01, batch=self.batch))


def _small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 62),
    )  # fmt: skip


def _logistic() -> nn.Module:
    return logistic(inputs=60)


WORKLOADS = {
    "A": Workload(name="A", clients=100, rows=500, shape=(3, 32, 32), classes=10, cohort=10, batch=100, network=cnn),
    "B": Workload(
        name="B", clients=1000, rows=20, shape=(1, 28, 28), classes=62, cohort=100, batch=20, network=_small_cnn
    ),
    "C": Workload(name="C", clients=1000, rows=20, shape=(60,), classes=10, cohort=100, batch=10, network=_logistic),
}


def workload(name: str) -> Workload:
    """The workload of this name."""
    if name not in WORKLOADS:
        raise unknown("workload", name, WORKLOADS)
    return WORKLOADS[name]
