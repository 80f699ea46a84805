"""Jobs on which everything that could tell engines apart happens at once, and fingerprints of what comes of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import igfl
from igfl.data.federation import Federation
from igfl.engines import Loop
from igfl.inputs import Images
from igfl.models import mlp
from igfl.types import Batch, Faults, Memory
from igfl.visits import Job

SIZES = (3, 17, 1, 23, 9, 12, 6)
METHODS = (
    "fedavg", "fedavgm", "fedprox", "scaffold", "fedadam", "fedadagrad", "fedyogi", "vrl_sgd", "igfl_c", "igfl_s/self",
    "igfl_s/global", "igfl_s/time", "igfl/self", "igfl/global", "igfl/time",
)  # fmt: skip


class Drawing(nn.Module):
    """Convolutions, dropout, and an odd number of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.dropout = nn.Dropout(0.3)
        self.dense = nn.Linear(4 * 3 * 3, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.max_pool2d(self.convolution(x).relu(), 2)
        return self.dense(self.dropout(hidden.flatten(1)))


def images(method: str, **options: Any) -> Job:
    """Unequal clients with stored images, augmented; a network with dropout; lost reports and slow clients."""
    draws = torch.Generator().manual_seed(5)
    total = sum(SIZES)
    x = torch.randint(256, (total, 3, 10, 10), generator=draws, dtype=torch.uint8)
    y = torch.randint(5, (total,), generator=draws)
    rows = torch.randperm(total, generator=draws).split(SIZES)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = Drawing()
    task = igfl.ModuleTask(network, inputs=Images(crop=8))
    faults = Faults(slow=0.3) if method == "vrl_sgd" else Faults(drop=0.15, slow=0.3)
    job = Job(
        method=igfl.method(method), task=task, plan=igfl.Plan(lr=0.05, batch=4, epochs=2, weight_decay=0.01), seed=3,
        data=Federation.split(x, y, list(rows), test=Batch(x=x[:600], y=y[:600])), faults=faults,
    )  # fmt: skip
    return replace(job, **options)


def vectors(method: str, sizes: tuple[int, ...] = SIZES, dtype: torch.dtype = torch.float32, **options: Any) -> Job:
    """Dense layers on unequal clients."""
    draws = torch.Generator().manual_seed(7)
    clients = [
        (torch.randn(n, 12, generator=draws, dtype=dtype), torch.randint(5, (n,), generator=draws)) for n in sizes
    ]
    task = igfl.ModuleTask(mlp(inputs=12, hidden=(17,), classes=5).to(dtype))
    job = Job(
        method=igfl.method(method), task=task, data=Federation.of_clients(clients),
        plan=igfl.Plan(lr=0.1, batch=5, epochs=2),
    )  # fmt: skip
    return replace(job, **options)


def cohorts(job: Job, rounds: int = 20, size: int = 4) -> igfl.Sampled:
    """A sample, where the method allows one."""
    return igfl.Sampled(rounds=rounds, size=None if job.method.client.needs_everybody else size)


def outcome(engine: Any, rounds: int = 20, size: int = 4) -> tuple[igfl.ServerState, dict[int, Memory]]:
    """The state and the memories after so many rounds."""
    memories: dict[int, Memory] = {}
    state = igfl.start(engine.job)
    for state, _ in igfl.rounds(engine, memories=memories, cohorts=cohorts(engine.job, rounds, size)):
        pass
    return state, memories


def fingerprint(state: igfl.ServerState, memories: dict[int, Memory]) -> str:
    """Every bit that a run leaves behind."""
    digest = hashlib.sha256(str(state.round).encode())
    groups = [{"": state.params}, state.shared, state.optimizer]
    for client in sorted(memories):
        memory = memories[client]
        groups.append(dict(memory.local))
        groups.append({} if memory.last is None else {"last": memory.last})
    for group in groups:
        for name in sorted(group):
            digest.update(name.encode() + group[name].contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def of_loop(job: Job, rounds: int = 20, size: int = 4) -> str:
    """What the reference engine makes of it."""
    return fingerprint(*outcome(Loop(job), rounds, size))
