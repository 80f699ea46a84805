"""Spawned workers on shared memory, one thread each: the same bits as the loop, on all cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor

from igfl.engines.crew import Crew
from igfl.engines.loop import add_up, chunks, test_set
from igfl.engines.shared import Pool
from igfl.engines.worker import Answer, RoundOrder, Row, ScoreOrder, VisitOrder
from igfl.exact import aligned_rows, cores
from igfl.types import Broadcast, Cohort, Memory, Metrics, Vec
from igfl.visits import Job


class Processes:
    """Workers that share data, broadcast and the cohort's rows; a lost one is replaced, and its visits are repeated."""

    def __init__(self, job: Job, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers}: at least one process trains; None takes one a core")
        self.job = job
        self._crew = Crew(job, workers or cores())
        self._buffers = self._crew.buffers
        self._pools: dict[str, Pool] = {}
        for tensor in _tensors_of(job):
            cast("Any", tensor).share_memory_()

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        """Visit all clients, longest first; every update lands in its own row, whoever trains it."""
        self._lay_out(broadcast, len(clients))
        self._crew.round = RoundOrder(
            round=broadcast.round, lr=broadcast.lr, cohort_size=broadcast.cohort_size, population=broadcast.population
        )
        borrowed: list[tuple[str, int]] = []
        orders: list[VisitOrder] = [
            VisitOrder(
                place=place, client=client, before=self._rows_before(memories.get(client), borrowed),
                after={name: self._address(name, pool.take()) for name, pool in self._pools.items()},
            )
            for place, client in enumerate(clients)
        ]  # fmt: skip
        steps = self.job.steps(broadcast.round, clients)
        longest_first = sorted(orders, key=lambda order: steps[order.place], reverse=True)
        answers = self._crew.carry_out(longest_first, dict(enumerate(steps)))
        for name, row in borrowed:
            self._pools[name].give_back(row)
        kept = {order.client: self._memory(order) for order in orders} if self._pools else {}
        return self._cohort(broadcast, clients, answers), kept

    def evaluate(self, params: Vec) -> Metrics:
        """Means over the test set, chunk by chunk, added in the order of the chunks."""
        parts = chunks(test_set(self.job))
        self._share("params", params)
        answers = self._crew.carry_out([ScoreOrder(place=place) for place in range(len(parts))])
        return add_up((len(part.x), answers[place].metrics) for place, part in enumerate(parts))

    def close(self) -> None:
        """Stop all workers."""
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _lay_out(self, broadcast: Broadcast, n: int) -> None:
        """The broadcast in shared memory, rows for a cohort of n, and pools for what clients keep."""
        params = broadcast.params
        self._share("params", params)
        for name, array in broadcast.shared.items():
            self._share(f"shared/{name}", array)
        if "deltas" not in self._buffers or len(self._buffers["deltas"]) < n:
            rows = {"deltas": params, **{f"notes/{name}": note for name, note in self.job.notes(params).items()}}
            self._buffers.update({k: aligned_rows(n, like.shape, like, shared=True) for k, like in rows.items()})
        if not self._pools:
            self._pools = {name: Pool(like) for name, like in self.job.blank(params).packed().items()}

    def _share(self, name: str, array: Tensor) -> None:
        if name not in self._buffers:
            self._buffers[name] = aligned_rows(1, array.shape, array, shared=True)
        self._buffers[name][0].copy_(array)

    def _address(self, name: str, number: int) -> Row:
        block, row = divmod(number, self._pools[name].block)
        key = f"kept/{name}/{block}"
        self._buffers.setdefault(key, self._pools[name].blocks[block])
        return key, row

    def _rows_before(self, memory: Memory | None, borrowed: list[tuple[str, int]]) -> dict[str, Row] | None:
        """Where a memory lies; one that is not in our rows (read from a file, say) is copied into some."""
        if memory is None or not self._pools:
            return None
        found = {}
        for name, array in memory.packed().items():
            number = self._pools[name].number_of(array)
            if number is None:
                number = self._pools[name].take()
                self._pools[name].row(number).copy_(array)
                borrowed.append((name, number))
            found[name] = self._address(name, number)
        return found

    def _memory(self, order: VisitOrder) -> Memory:
        arrays = {}
        for name, (key, row) in order.after.items():
            pool = self._pools[name]
            arrays[name] = pool.lend(int(key.rpartition("/")[2]) * pool.block + row)
        return Memory.unpacked(arrays)

    def _cohort(self, broadcast: Broadcast, clients: Sequence[int], answers: Mapping[int, Answer]) -> Cohort:
        n = len(clients)
        metrics = {
            name: torch.tensor([answers[place].metrics[name] for place in range(n)], dtype=torch.float64)
            for name in answers[0].metrics
        }
        notes = {k.partition("/")[2]: rows[:n] for k, rows in self._buffers.items() if k.startswith("notes/")}
        return Cohort(
            clients=tuple(clients), deltas=self._buffers["deltas"][:n], notes=notes, metrics=metrics,
            examples=torch.from_numpy(self.job.data.sizes[list(clients)]), population=broadcast.population,
        )  # fmt: skip


def _tensors_of(job: Job) -> list[Tensor]:
    data = job.data
    of_test = [data.test.x, data.test.y] if data.test else []
    return [
        t
        for t in (data.x, data.y, data.index, data.offsets, data.held_index, data.held_offsets, *of_test)
        if t is not None
    ]
