"""What all drivers share: the lines they speak, the workload they are asked for, and its data and network.

A driver says `ready NAME VERSION`, then `done` for every `round` it is told, and leaves at the end of the file.
Importing this module keeps standard output for these lines alone (whatever a library prints goes to standard error),
and tells every library not to report to anybody.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_LINES = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_HOME": str(Path(tempfile.gettempdir()) / "flwr"),
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "disabled",
    "WANDB_ERROR_REPORTING": "false",
    "CLEARML_OFFLINE_MODE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

import torch  # noqa: E402  # after the environment is set
from torch import Tensor, nn  # noqa: E402

from igfl.bench.workloads import WORKLOADS, Workload, workload  # noqa: E402
from igfl.engines.allocator import keep_freed_memory  # noqa: E402

LR = 0.01


def _let_torchvision_load() -> None:
    """PyPI's torchvision is built for CUDA: on torch's CPU build its operators stay away and its import fails.

    The import looks up two of them by name. Nothing here calls these, so that their declarations will do.
    """
    if find_spec("torchvision") and torch.version.cuda is None and "+cpu" not in version("torchvision"):
        for operator in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)


_let_torchvision_load()


class Over(Exception):  # noqa: N818  # no error: nobody wants another round
    """The end of the file has come."""


class Turns:
    """The driver's half of the conversation, for a library that offers a loop over rounds and a hook in it."""

    def __init__(self, name: str, package: str) -> None:
        self._answer = f"ready {name} {version(package)}"

    def wait(self) -> None:
        """Between rounds: say that the last one is done, and return when the next is wanted."""
        print(self._answer, file=_LINES)
        self._answer = "done"
        line = sys.stdin.readline()
        if not line:
            raise Over
        if line.strip() != "round":
            raise ValueError(f"{line.strip()!r} was asked of a driver, which knows only 'round'")


def serve(name: str, package: str, round: Callable[[], object]) -> None:
    """The whole conversation, for a library that can be asked for a single round."""
    turns = Turns(name, package)
    with suppress(Over):
        while True:
            turns.wait()
            round()


def asked() -> tuple[Workload, bool]:
    """The workload of the command line, and whether it is to be tuned."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--tuned", action="store_true", help="keep freed memory; images channels last")
    options = parser.parse_args()
    return workload(options.workload), options.tuned


def begin(tuned: bool, threads: int | None = None) -> None:
    """What a process that trains does first."""
    if threads is not None:
        torch.set_num_threads(threads)
    if tuned and not keep_freed_memory():
        raise RuntimeError("--tuned needs glibc, whose allocator it sets: run it on Linux")


def clients(work: Workload) -> list[tuple[Tensor, Tensor]]:
    """Everybody's rows."""
    data = work.data()
    rows = torch.arange(len(data.x)).view(work.clients, work.rows)
    return [(data.x[own], data.y[own]) for own in rows]


def network(work: Workload, tuned: bool, *, weights: bool = True) -> nn.Module:
    """The workload's network; tuned, images (and the weights, where a library can bear it) lie channels last."""
    model = work.network()
    if tuned and len(work.shape) == 3:
        if weights:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.register_forward_pre_hook(_channels_last)
    return model


def _channels_last(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)
