"""What everything is measured against: SGD steps in two processes of one thread each, and no federated code.

`bare` is PyTorch as anybody writes it. `tuned` is the same with what is known to pay: parameters in one flat buffer,
channels last, freed memory kept, and the mean of the clients' updates taken at the end of a round.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from igfl.bench.workloads import Precision, workload
from igfl.engines.allocator import keep_freed_memory

PROCESSES = 2


class Bare:
    """Two processes, the clients of a round split between them."""

    def __init__(self, name: str, *, tuned: bool = False, precision: Precision = "fp32") -> None:
        context = mp.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for part in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(name, tuned, precision, part, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def round(self) -> None:
        """One round: every process trains its clients."""
        for pipe in self._pipes:
            pipe.send("round")
        for pipe in self._pipes:
            pipe.recv()

    def close(self) -> None:
        """Stop both."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join()


def _serve(name: str, tuned: bool, precision: Precision, part: int, pipe: Connection) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(part)
    if tuned:
        keep_freed_memory()
    work = workload(name)
    data = work.data()
    clients = list(range(part, work.cohort, PROCESSES))
    train = (_tuned if tuned else _bare)(work.network(), work.shape, precision)
    pipe.send("ready")
    while pipe.recv():
        for client in clients:
            x, y = (
                data.x[client * work.rows : (client + 1) * work.rows],
                data.y[client * work.rows : (client + 1) * work.rows],
            )
            train(x, y, work.batch)
        train(None, None, 0)
        pipe.send("done")


Train = Callable[[Tensor | None, Tensor | None, int], None]


def _loss(network: nn.Module, x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    if precision == "fp32":
        return cross_entropy(network(x), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return cross_entropy(network(x), y)


def _bare(network: nn.Module, _shape: tuple[int, ...], precision: Precision) -> Train:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def train(x: Tensor | None, y: Tensor | None, batch: int) -> None:
        if x is None or y is None:
            return
        for chosen in torch.randperm(len(x)).split(batch):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            _loss(network, x[chosen], y[chosen], precision).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return train


def _tuned(network: nn.Module, shape: tuple[int, ...], precision: Precision) -> Train:
    images = len(shape) == 3
    if images:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parameters = list(network.parameters())
    flat = torch.cat(
        [p.detach().permute(0, 2, 3, 1).reshape(-1) if p.ndim == 4 else p.detach().reshape(-1) for p in parameters]
    )
    start, total = flat.clone(), torch.zeros_like(flat)
    sizes = [p.numel() for p in parameters]
    for parameter, piece in zip(parameters, torch.split(flat, sizes), strict=True):
        shaped = (
            piece.view(parameter.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
            if parameter.ndim == 4
            else piece.view(parameter.shape)
        )
        parameter.data = shaped
    trained = 0

    def train(x: Tensor | None, y: Tensor | None, batch: int) -> None:
        nonlocal trained
        if x is None or y is None:
            start.add_(total, alpha=1 / max(trained, 1))
            total.zero_()
            trained = 0
            return
        flat.copy_(start)
        for chosen in torch.randperm(len(x)).split(batch):  # type: ignore[no-untyped-call]
            inputs = x[chosen].contiguous(memory_format=torch.channels_last) if images else x[chosen]
            gradients = torch.autograd.grad(_loss(network, inputs, y[chosen], precision), parameters)
            torch._foreach_add_([p.data for p in parameters], gradients, alpha=-0.01)
        total.add_(flat).sub_(start)
        trained += 1

    return train
