"""What equal bits take: where vectors start in memory, how many threads compute, whose random state is drawn from.

Products and sums change with the alignment of their operands and with the number of threads, so every vector a rule
sees starts on 64 bytes, and everything that is computed of them is computed by one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, cast

import torch
from torch import Tensor

from igfl.types import Arrays, ServerState

ALIGNMENT = 64  # bytes; torch allocates every tensor of its own on this boundary
COLUMNS = 2**16  # of a cohort's rows, summed at once: a fixed number, so that threads do not change the sums


def aligned_rows(n: int, shape: Sequence[int], like: Tensor, *, shared: bool = False) -> Tensor:
    """[n, *shape], uninitialised, every row starting on the boundary; shared: in memory that other processes see."""
    size = prod(shape)
    unit = max(1, ALIGNMENT // like.element_size())
    width = max(1, -(-size // unit)) * unit
    if shared:  # made where it stays: its pages come into being when somebody writes them
        storage = cast("Any", torch.UntypedStorage)._new_shared(n * width * like.element_size())
        padded = torch.empty(0, dtype=like.dtype).set_(storage, 0, (n, width), (width, 1))
    else:
        padded = like.new_empty(n, width)
    return padded[:, :size].view(n, *shape)


def aligned(tensor: Tensor) -> Tensor:
    """The tensor itself where it starts on the boundary and lies in one piece, else a copy that does."""
    if tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def aligned_arrays(arrays: Arrays) -> Arrays:
    """The same names, every array aligned."""
    return {name: aligned(array) for name, array in arrays.items()}


def aligned_state(state: ServerState) -> ServerState:
    """A server's state as read from anywhere, with every array aligned."""
    return ServerState(
        round=state.round,
        params=aligned(state.params),
        shared=aligned_arrays(state.shared),
        optimizer=aligned_arrays(state.optimizer),
    )


def side_by_side(reports: Sequence[Mapping[str, Tensor]]) -> Arrays:
    """Arrays of the same names, one mapping a client, as arrays with a leading axis [n] and aligned rows."""
    stacked: dict[str, Tensor] = {}
    for name, first in (reports[0] if reports else {}).items():
        rows = aligned_rows(len(reports), first.shape, first)
        for row, report in zip(rows, reports, strict=True):
            row.copy_(report[name])
        stacked[name] = rows
    return stacked


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread computes; the caller's setting is put back after."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def default_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's default generator starts from this seed; its state is put back after."""
    if device.type != "cpu":
        with torch.random.fork_rng([device], device_type=device.type):
            torch.manual_seed(seed)
            yield
        return
    generator = torch.default_generator
    before = generator.get_state()
    try:
        generator.manual_seed(seed)
        yield
    finally:
        generator.set_state(before)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def weighted_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """[d] the sum of the rows [n, d], each by its weight: on all cores, the same bits on any number."""
    if rows.shape[1] <= COLUMNS or rows.device.type != "cpu":
        return weights @ rows
    total = torch.empty_like(rows[0])
    pairs = zip(_columns(rows), _columns(total))
    list(_threads().map(lambda pair: torch.mv(pair[0].T, weights, out=pair[1]), pairs))
    return total


def products(rows: Tensor) -> Tensor:
    """[n, n] the dot products of all rows [n, d] with each other: on all cores, the same bits on any number."""
    if rows.shape[1] <= COLUMNS or rows.device.type != "cpu":
        return rows @ rows.T
    return sum(_threads().map(lambda block: block @ block.T, _columns(rows)), rows.new_zeros(()))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "igfl", torch.set_num_threads, (1,))


def _columns(rows: Tensor) -> tuple[Tensor, ...]:
    blocks: tuple[Tensor, ...] = rows.split(COLUMNS, rows.ndim - 1)  # type: ignore[no-untyped-call]
    return blocks
