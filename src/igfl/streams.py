"""Named random streams: every random number has an address, and nothing else decides it.

A stream is a key; its j-th draw is a hash of (key, j), the SplitMix64 of Steele et al. 2014. So a whole cohort's draws
come from one call, one client's alone from another, and both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

Keys: TypeAlias = NDArray[np.uint64]
Ints: TypeAlias = NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_DRAWS = np.uint64(0xD1B54A32D192ED03)  # keeps the draws of a stream apart from the keys below it
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of random numbers (keys [1]), or many side by side (keys [n])."""

    keys: Keys

    def at(self, index: ArrayLike) -> Stream:
        """The stream at this index below; an array of indices gives as many, side by side."""
        return Stream(_mix(self.keys + _GAMMA * (np.atleast_1d(np.asarray(index, dtype=np.uint64)) + np.uint64(1))))

    def bits(self, count: int) -> Keys:
        """[n, count] words of 64 random bits."""
        counter = np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
        return _mix((self.keys ^ _DRAWS)[:, None] + counter)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """[n, count] numbers in [0, 1)."""
        return (self.bits(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def permutations(self, sizes: ArrayLike) -> Ints:
        """[n, max(sizes)] whose row i begins with a permutation of range(sizes[i])."""
        lengths = np.broadcast_to(np.asarray(sizes, dtype=np.int64), self.keys.shape)
        longest = int(lengths.max(initial=0))
        bits = self.bits(longest)
        if int(lengths.min(initial=longest)) < longest:
            bits[np.arange(longest) >= lengths[:, None]] = _LAST
        return np.argsort(bits, axis=1)

    def permutation(self, size: int) -> Ints:
        """A permutation of range(size), from a single stream."""
        order: Ints = self.permutations(size)[0]
        return order

    def sample(self, population: int, size: int) -> Ints:
        """`size` different numbers below `population`, in order."""
        if size > population:
            raise ValueError(f"cannot draw {size} different numbers below {population}")
        if 2 * size >= population or population <= 4096:
            return np.sort(self.permutation(population)[:size])
        count = 2 * size  # draw, keep the first of every number; more than half are new, so that a few doublings do
        while True:
            drawn, first = np.unique((self.uniform(count)[0] * population).astype(np.int64), return_index=True)
            if len(drawn) >= size:
                return np.sort(drawn[np.argsort(first)[:size]])
            count *= 2

    def seed(self) -> int:
        """A seed for a generator that is not ours."""
        return int(self.bits(1)[0, 0] >> np.uint64(1))

    def numpy(self) -> np.random.Generator:
        """A numpy generator of its own."""
        return np.random.Generator(np.random.Philox(self.seed()))

    def torch(self) -> torch.Generator:
        """A torch generator of its own, on the CPU."""
        return torch.Generator().manual_seed(self.seed())


def stream(seed: int, name: str, *address: int) -> Stream:
    """The stream at this address: stream(seed, "batches", round, client)."""
    digest = blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    found = Stream(np.frombuffer(digest, dtype="<u8").astype(np.uint64))
    for index in address:
        found = found.at(index)
    return found


def _mix(words: Keys) -> Keys:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
