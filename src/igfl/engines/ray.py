"""Ray's actors, on this machine or on many: the same bits as the loop, also when some of them are lost.

The driver keeps what clients remember, and sends it along: a client is tied to no actor, and no actor's end loses any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from igfl.engines.actors import Failed, PackedBroadcast, PackedJob, Trained, pack, pack_memory, unpack
from igfl.engines.cluster import Cast, Session
from igfl.engines.loop import add_up, chunks, of_client, test_set
from igfl.exact import aligned_rows, side_by_side
from igfl.types import Arrays, Broadcast, Cohort, Memory, Metrics, Vec
from igfl.visits import Job


class Ray:
    """One actor a worker and one task an actor a round.

    Without an address a Ray of its own is started and stopped again, and nothing is sent to anybody; with one (`auto`,
    or `host:port`) the cluster there is joined. `resources` are what each actor asks of it: `{"num_gpus": 0.5}`, say.
    """

    def __init__(
        self,
        job: Job,
        workers: int | None = None,
        *,
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers}: at least one actor trains; None takes one a core")
        self.job = job
        self._session = Session(address, dict(resources or {}))
        try:
            self._cast = Cast(self._session, PackedJob.of(job), workers or self._session.room())
        except BaseException:
            self._session.close()
            raise
        self._deltas: Tensor | None = None

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], memories: Mapping[int, Memory]
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        """Visit all clients; reports are taken as they come, and stand in client order."""
        deltas = self._rows(len(clients), broadcast.params)
        heard = self._session.put(PackedBroadcast.of(broadcast))
        reports: dict[int, tuple[Arrays, Metrics, Arrays]] = {}

        def order(actor: Any, places: Sequence[int]) -> Any:
            kept = [memories.get(clients[place]) for place in places]
            return actor.train.remote(
                heard, [(clients[p], None if m is None else pack_memory(m)) for p, m in zip(places, kept)]
            )

        for places, answer in self._cast.carry_out(self.job.steps(broadcast.round, clients), order):
            if isinstance(answer, Failed):
                with of_client(answer.client, broadcast.round):
                    raise answer.error
            reports.update(zip(places, self._take(answer, places, deltas), strict=True))
        return self._cohort(broadcast, clients, deltas, [reports[place] for place in range(len(clients))])

    def evaluate(self, params: Vec) -> Metrics:
        """Means over the test set, chunk by chunk, added in the order of the chunks."""
        parts, found = chunks(test_set(self.job)), dict[int, Metrics]()
        vector = self._session.put(pack({"params": params}))
        orders = self._cast.carry_out([1] * len(parts), lambda actor, places: actor.score.remote(vector, places))
        for places, metrics in orders:
            found.update(zip(places, metrics, strict=True))
        return add_up((len(part.x), found[place]) for place, part in enumerate(parts))

    def close(self) -> None:
        """Stop all actors, and the Ray that was started for them."""
        self._cast.close()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _rows(self, n: int, params: Vec) -> Tensor:
        """The cohort's updates, in memory that is used again in every round."""
        if self._deltas is None or len(self._deltas) < n:
            self._deltas = aligned_rows(n, params.shape, params)
        return self._deltas[:n]

    def _take(self, answer: Trained, places: Sequence[int], deltas: Tensor) -> list[tuple[Arrays, Metrics, Arrays]]:
        """An actor's updates, copied to their places, and the rest of its reports."""
        rows, notes = unpack({"deltas": answer.deltas})["deltas"], unpack(answer.notes)
        for place, row in zip(places, rows, strict=True):
            deltas[place].copy_(row[: deltas.shape[1]])
        local = [{name: array.clone() for name, array in unpack(kept).items()} for kept in answer.local]
        return [
            ({name: values[i] for name, values in notes.items()}, answer.metrics[i], local[i])
            for i in range(len(places))
        ]

    def _cohort(
        self,
        broadcast: Broadcast,
        clients: Sequence[int],
        deltas: Tensor,
        reports: Sequence[tuple[Arrays, Metrics, Arrays]],
    ) -> tuple[Cohort, Mapping[int, Memory]]:
        device, remembers = deltas.device, self.job.method.uses_last
        cohort = Cohort(
            clients=tuple(clients), deltas=deltas, population=broadcast.population,
            examples=torch.from_numpy(self.job.data.sizes[list(clients)]),
            notes={name: rows.to(device) for name, rows in side_by_side([notes for notes, _, _ in reports]).items()},
            metrics={
                name: torch.tensor([metrics[name] for _, metrics, _ in reports], dtype=torch.float64)
                for name in reports[0][1]
            },
        )  # fmt: skip
        kept = {
            client: Memory(
                local={name: array.to(device) for name, array in local.items()},
                last=delta.clone() if remembers else None,
            )
            for client, delta, (_, _, local) in zip(clients, deltas, reports)
            if local or remembers
        }
        return cohort, kept
