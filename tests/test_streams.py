"""Random numbers have addresses: together or alone, today or after a crash, the same."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, strategies as st

from igfl.streams import stream

seeds = st.integers(min_value=-(2**70), max_value=2**70)


@given(seeds, st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_a_cohorts_orders_are_each_clients_own(seed: int, sizes: list[int]) -> None:
    clients = np.arange(len(sizes)) * 13
    together = stream(seed, "batches", 5).at(clients).permutations(sizes)
    for client, size, row in zip(clients, sizes, together, strict=True):
        alone = stream(seed, "batches", 5, int(client)).permutation(size)
        assert row[:size].tolist() == alone.tolist()
        assert sorted(alone) == list(range(size))


def test_every_part_of_the_address_counts() -> None:
    addresses = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 1), (0, "a", 1, 0), (-1, "a")]
    assert len({stream(*address).seed() for address in addresses}) == len(addresses)


def mix(word: int) -> int:
    """SplitMix64's output function, in Python's own integers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_is_the_same_on_every_machine() -> None:
    """The addresses and draws typed out once more, so that no release changes anybody's runs."""
    gamma = 0x9E3779B97F4A7C15
    key = int.from_bytes(blake2b(b"0:batches", digest_size=8).digest(), "little")
    for index in (1, 2):
        key = mix((key + gamma * (index + 1)) % 2**64)
    bits = [mix(((key ^ 0xD1B54A32D192ED03) + gamma * j) % 2**64) for j in range(1, 9)]
    assert stream(0, "batches", 1, 2).bits(8)[0].tolist() == bits
    assert stream(0, "batches", 1, 2).permutation(8).tolist() == sorted(range(8), key=bits.__getitem__)


def test_uniform_is_uniform_and_permutations_are_fair() -> None:
    draws = stream(3, "u").uniform(200_000)[0]
    assert abs(draws.mean() - 0.5) < 5 * (1 / 12 / 200_000) ** 0.5
    counts = np.histogram(draws, bins=64, range=(0, 1))[0]
    assert ((counts - 200_000 / 64) ** 2 / (200_000 / 64)).sum() < 63 + 5 * (2 * 63) ** 0.5  # chi-square
    firsts = np.bincount(stream(4, "p").at(np.arange(24_000)).permutations(6)[:, 0], minlength=6)
    assert ((firsts - 4_000) ** 2 / 4_000).sum() < 5 + 5 * 10**0.5


@given(seeds, st.integers(1, 20_000), st.data())
def test_samples_are_different_numbers_in_order(seed: int, population: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, min(population, 300)))
    drawn = stream(seed, "cohort").sample(population, size)
    assert len(drawn) == size
    assert (np.diff(drawn) > 0).all()
    assert not size or 0 <= drawn[0] <= drawn[-1] < population


def test_samples_are_fair_where_they_are_drawn_by_rejection() -> None:
    counts = np.zeros(10_000)
    for round in range(400):
        counts[stream(0, "cohort", round).sample(10_000, 2_500)] += 1
    assert abs(counts.mean() - 100) < 1e-9
    assert abs(counts.var() - 75) < 5 * 75 * (2 / 10_000) ** 0.5  # binomial(400, 1/4)
    assert abs(counts[:5_000].mean() - 100) < 5 * (75 / 5_000) ** 0.5


def test_refuses_more_than_there_are() -> None:
    with pytest.raises(ValueError, match="cannot draw 4 different numbers below 3"):
        stream(0, "cohort").sample(3, 4)
