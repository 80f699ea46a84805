"""Which rows of the data each of several visits takes at each of its steps: the batches of the loop, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from igfl.streams import Ints, stream
from igfl.visits import Job


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows [n, batch] of the first n visits, those that still go on; counts [n] where some rows are padding."""

    rows: Tensor
    counts: Tensor | None


def widest(job: Job, clients: Sequence[int]) -> int | None:
    """How many rows the widest batch of these clients takes; None: all have as many, nothing is padded.

    A sum over padding is rounded as a longer one: what is padded to the width of the whole cohort does not depend on
    who is trained together with whom.
    """
    sizes = job.data.sizes[np.asarray(clients)]
    largest = int(sizes.max())
    return None if bool((sizes == largest).all()) else min(largest, job.plan.batch or largest)


def portions(
    job: Job, round: int, clients: Sequence[int], steps: Sequence[int], width: int | None
) -> Iterator[Portion]:
    """One portion for every step of the longest visit; the visits stand longest first."""
    ids = np.asarray(clients)
    sizes, starts = job.data.sizes[ids], job.data.offsets.numpy()[ids]
    batch = job.plan.batch or width or int(sizes[0])
    lengths = -(-sizes // batch)  # steps an epoch
    draws = None if job.plan.batch is None else stream(job.seed, "batches", round)
    order: Ints = starts[:, None] + np.minimum(np.arange(int(sizes.max())), sizes[:, None] - 1)  # rows as they lie
    for step in range(steps[0]):
        n = len(steps) if steps[-1] > step else int(np.searchsorted(-np.asarray(steps), -step))
        epochs, positions = np.divmod(step, lengths[:n])
        if draws is not None and bool((fresh := positions == 0).any()):
            places = np.flatnonzero(fresh)
            drawn = draws.at(ids[places]).at(epochs[places]).permutations(sizes[places])
            order[places, : drawn.shape[1]] = starts[places, None] + drawn
        if width is None:
            first = int(positions[0]) * batch
            yield Portion(_rows(job, order[:n, first : first + batch]), None)
        else:
            yield _ragged(job, order[:n], positions * batch, sizes[:n], batch, width)


def _ragged(job: Job, order: Ints, firsts: Ints, sizes: Ints, batch: int, width: int) -> Portion:
    """Every visit's own portion, the shorter ones filled up with their first row."""
    counts = np.minimum(batch, sizes - firsts)
    columns = np.arange(width)
    places = firsts[:, None] + np.where(columns < counts[:, None], columns, 0)
    return Portion(_rows(job, np.take_along_axis(order, places, 1)), torch.from_numpy(counts))


def _rows(job: Job, places: Ints) -> Tensor:
    return job.data.index[torch.from_numpy(places)]
