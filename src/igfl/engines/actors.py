"""What Ray runs for us: the actor that trains, and what travels between it and the driver."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from igfl.data.federation import Federation
from igfl.engines.allocator import keep_freed_memory
from igfl.engines.loop import chunks, test_set
from igfl.engines.worker import portable
from igfl.exact import aligned, aligned_rows, side_by_side
from igfl.types import Arrays, Batch, Broadcast, Memory, Metrics
from igfl.visits import Job, visit_client

Packed: TypeAlias = Mapping[str, NDArray[Any]]  # what Ray carries without copying, and maps into every process


def pack(arrays: Arrays) -> Packed:
    """Tensors as arrays on the same memory."""
    return {name: array.detach().cpu().numpy() for name, array in arrays.items()}


def unpack(packed: Packed, device: torch.device | None = None) -> Arrays:
    """Arrays as tensors on the same memory, each on the boundary that equal bits take; nobody may write to them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: aligned(torch.from_numpy(array).to(device)) for name, array in packed.items()}


@dataclass(frozen=True)
class PackedJob:
    """A job whose data travels as arrays: Ray keeps them once on each machine."""

    rest: Mapping[str, Any]
    data: Packed
    test: Packed

    @staticmethod
    def of(job: Job) -> PackedJob:
        """The job in two parts."""
        parts = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "data"}
        tensors = {f.name: t for f in fields(Federation) if isinstance(t := getattr(job.data, f.name), Tensor)}
        test = {} if job.data.test is None else {"x": job.data.test.x, "y": job.data.test.y}
        return PackedJob(parts, pack(tensors), pack(test))

    def job(self) -> Job:
        """The job as it was."""
        test = unpack(self.test)
        data = Federation(**unpack(self.data), test=Batch(**test) if test else None)  # type: ignore[arg-type]
        return Job(data=data, **self.rest)


@dataclass(frozen=True, slots=True)
class PackedBroadcast:
    """A broadcast on its way."""

    broadcast: Broadcast  # without its arrays
    params: Packed
    shared: Packed

    @staticmethod
    def of(broadcast: Broadcast) -> PackedBroadcast:
        """The broadcast in three parts."""
        bare = replace(broadcast, params=torch.empty(0), shared={})
        return PackedBroadcast(bare, pack({"params": broadcast.params}), pack(broadcast.shared))

    def unpacked(self, device: torch.device | None) -> Broadcast:
        """The broadcast as it was."""
        params = unpack(self.params, device)["params"]
        return replace(self.broadcast, params=params, shared=unpack(self.shared, device))


def pack_memory(memory: Memory) -> Packed:
    """What a client keeps, on its way."""
    return pack(memory.packed())


def unpack_memory(packed: Packed, device: torch.device) -> Memory:
    """What a client keeps, as it was."""
    return Memory.unpacked(unpack(packed, device))


Order: TypeAlias = tuple[int, Packed | None]  # a client and its memory, which it has after its first visit


@dataclass(frozen=True, slots=True)
class Trained:
    """The reports of an actor's clients, and what each remembers beside its update."""

    deltas: NDArray[Any]  # [n, d and padding]
    notes: Packed
    metrics: Sequence[Metrics]
    local: Sequence[Packed]


@dataclass(frozen=True, slots=True)
class Failed:
    """What a client's visit raised."""

    client: int
    error: Exception


class Actor:
    """A process of Ray's, on whatever machine, that trains one client after another."""

    def __init__(self, packed: PackedJob) -> None:
        keep_freed_memory()
        torch.set_num_threads(1)
        self._job = packed.job()
        initial = self._job.task.initial()
        self._device = initial.device
        self._rows = aligned_rows(1, initial.shape, initial)

    def ready(self) -> bool:
        """Answered once the job is here."""
        return True

    def train(self, packed: PackedBroadcast, orders: Sequence[Order]) -> Trained | Failed:
        """Visit these clients, one after another."""
        broadcast = packed.unpacked(self._device)
        if len(self._rows) < len(orders):
            self._rows = aligned_rows(len(orders), broadcast.params.shape, broadcast.params)
        blank = self._job.blank(broadcast.params)
        reports, kept = [], []
        for (client, before), row in zip(orders, self._rows):
            try:
                memory = blank if before is None else unpack_memory(before, self._device)
                report, after = visit_client(self._job, broadcast, client, memory, row)
            except Exception as error:  # whatever a model or a method raises is the caller's to see
                return Failed(client, portable(error))
            reports.append(report)
            kept.append(pack(after.local))
        notes = side_by_side([report.notes for report in reports])
        padded = self._rows.as_strided((len(orders), self._rows.stride(0)), self._rows.stride())  # in one piece
        return Trained(padded.cpu().numpy(), pack(notes), [report.metrics for report in reports], kept)

    def score(self, params: Packed, places: Sequence[int]) -> list[Metrics]:
        """Evaluate these chunks of the test set."""
        parts, vector = chunks(test_set(self._job)), unpack(params, self._device)["params"]
        return [self._job.task.evaluate(vector, parts[place]) for place in places]
