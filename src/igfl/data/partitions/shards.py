"""Sort-and-partition: the paper's split for few clients (after McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from igfl.data.partitions.rules import Divided, Rule, one_size
from igfl.streams import Ints, Stream


@final
@dataclass(frozen=True)
class Shards(Rule):
    """Sort by label, cut into 2P equal shares, two shares of different labels to each client, at random.

    A share's label is its most frequent one. Rows that do not fill a share are left out. `paired`: clients come in
    twos with the same two labels, where each label fills two shares or another even number of them.
    """

    paired: bool = False

    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        size = len(labels) // (2 * clients)
        _check(labels, clients, size)
        shares = np.argsort(labels, kind="stable")[: 2 * clients * size].reshape(2 * clients, size)
        share_labels = _share_labels(labels, clients)
        pairs = in_twos(share_labels, draws) if self.paired else assign(share_labels, draws)
        return Divided(shares[pairs].ravel(), np.arange(clients + 1) * 2 * size)


def assign(share_labels: Ints, draws: Stream) -> Ints:
    """[clients, 2] shares of different labels: shuffled, conflicts swapped away, and if some resist, by a matching."""
    clients = len(share_labels) // 2
    rng = draws.numpy()
    pairs = rng.permutation(2 * clients).reshape(clients, 2)
    for conflict in np.flatnonzero(share_labels[pairs[:, 0]] == share_labels[pairs[:, 1]]):
        for other in rng.integers(clients, size=200):
            (a, b), (c, d) = pairs[conflict], pairs[other]
            if share_labels[a] == share_labels[b]:
                if share_labels[a] != share_labels[d] and share_labels[c] != share_labels[b]:
                    pairs[conflict, 1], pairs[other, 1] = d, b
                continue
            break
    if (share_labels[pairs[:, 0]] == share_labels[pairs[:, 1]]).any():
        return _matching(share_labels, rng)
    return pairs


def in_twos(share_labels: Ints, draws: Stream) -> Ints:
    """[clients, 2] shares, those of clients 2k and 2k + 1 of the same two labels."""
    found, counts = np.unique(share_labels, return_counts=True)
    if (counts % 2).any() or len(share_labels) % 4:
        odd = found[counts % 2 == 1]
        why = f"label {odd[0]} fills an odd number of shares" if len(odd) else "the number of clients is odd"
        raise ValueError(f"shards: clients cannot come in twos of the same labels, {why}: leave out paired")
    twos = np.argsort(share_labels, kind="stable").reshape(-1, 2)  # shares 2k and 2k + 1 have one label
    ours = assign(share_labels[twos[:, 0]], draws)  # [clients / 2, 2] of them
    return twos[ours].swapaxes(1, 2).reshape(-1, 2)


def _matching(share_labels: Ints, rng: np.random.Generator) -> Ints:
    """In the order of labels, share k with share k + P: never the same label, as none fills more than P shares."""
    clients = len(share_labels) // 2
    shuffled = rng.permutation(2 * clients)
    ordered = shuffled[np.argsort(share_labels[shuffled], kind="stable")]
    return rng.permutation(np.stack([ordered[:clients], ordered[clients:]], axis=1))


def _share_labels(labels: Ints, clients: int) -> Ints:
    """The most frequent label of each share; the lowest of equals."""
    size = len(labels) // (2 * clients)
    ordered = np.sort(labels)[: 2 * clients * size].reshape(2 * clients, size)
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(starts)
    lengths = np.diff(np.append(first, ordered.size))
    share = first // size
    best = np.lexsort((first, -lengths, share))  # by share, then the longest run, then the first
    return ordered.ravel()[first[best[np.unique(share[best], return_index=True)[1]]]]


def _fits(labels: Ints, clients: int) -> bool:
    return bool(np.unique(_share_labels(labels, clients), return_counts=True)[1].max() <= clients)


def _check(labels: Ints, clients: int, size: int) -> None:
    one_size(len(labels), 2 * clients, "shares", cure=f"take at most {len(labels) // 2} clients")
    if _fits(labels, clients):
        return
    found, counts = np.unique(_share_labels(labels, clients), return_counts=True)
    works = next((p for p in range(min(clients - 1, len(labels) // 2), 0, -1) if _fits(labels, p)), None)
    cure = (
        f"the largest number of clients that works is {works}"
        if works
        else "no number of clients works; choose dirichlet"
    )
    raise ValueError(
        f"shards: label {found[counts.argmax()]} fills {counts.max()} of {2 * clients} shares of {size}, so that "
        f"{clients} clients cannot each have two different labels: {cure}"
    )
