"""Partitions: what each rule promises, over many sizes, concentrations and seeds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from igfl.data import IID, DataError, Dirichlet, Explicit, Partition, Proportions, Quantity, Shards, Writers, partition
from igfl.data.partitions import RULES, Rule, rule
from igfl.data.partitions.dirichlet import _Dealer
from igfl.data.partitions.shards import _share_labels, assign
from igfl.streams import stream

RHO = st.floats(-3, 6).map(lambda exponent: 10.0**exponent)
SEEDS = st.integers(0, 2**40)
LABELS = st.tuples(st.integers(1, 12), st.integers(1, 400), SEEDS).map(
    lambda t: np.random.default_rng(t[2]).choice(
        t[0], size=t[1], p=np.random.default_rng(t[2] + 1).dirichlet(np.ones(t[0]))
    )
)


def disjoint(made: Partition, rows: int) -> None:
    assert len(np.unique(made.index)) == len(made.index)
    assert made.index.min(initial=0) >= 0
    assert made.index.max(initial=0) < rows
    assert made.offsets[0] == 0
    assert made.offsets[-1] == len(made.index)


@settings(max_examples=150)
@given(
    LABELS,
    st.integers(1, 40),
    RHO,
    SEEDS,
    st.sampled_from(["rotate", "sequence", "refill"]),
    st.sampled_from(["ones", "probability"]),
)
def test_dirichlet_gives_all_the_same_size(labels, clients, rho, seed, order, prior) -> None:
    if clients > len(labels):
        with pytest.raises(ValueError, match="cannot fill"):
            partition(labels, Dirichlet(rho, order, prior), clients, seed=seed)
        return
    made = partition(labels, Dirichlet(rho, order, prior), clients, seed=seed)
    assert (made.sizes == len(labels) // clients).all()
    if order != "refill":
        disjoint(made, len(labels))
        if len(labels) % clients == 0:
            assert sorted(made.index) == list(range(len(labels)))
    assert made.sha256 == partition(labels, Dirichlet(rho, order, prior), clients, seed=seed).sha256
    np.testing.assert_allclose(made.drawn.sum(1), 1)


@settings(max_examples=100)
@given(LABELS, st.integers(1, 40), SEEDS, RHO, st.floats(0, 3))
def test_the_others_are_complete(labels, clients, seed, rho, sigma) -> None:
    for chosen in (IID(), Quantity(sigma), Proportions(rho, least=0)):
        if clients > len(labels) and not isinstance(chosen, Proportions):
            with pytest.raises(ValueError, match="cannot fill"):
                partition(labels, chosen, clients, seed=seed)
            continue
        made = partition(labels, chosen, clients, seed=seed)
        assert made.clients == clients
        assert sorted(made.index) == list(range(len(labels)))
        if isinstance(chosen, IID):
            assert made.sizes.max() - made.sizes.min() <= 1
        if isinstance(chosen, Quantity):
            assert made.sizes.min() >= 1


@settings(max_examples=150)
@given(LABELS, st.integers(1, 30), SEEDS)
def test_shards_gives_two_labels_to_each_or_refuses(labels, clients, seed) -> None:
    size = len(labels) // (2 * clients)
    if not size:
        with pytest.raises(ValueError, match="cannot fill"):
            partition(labels, Shards(), clients, seed=seed)
        return
    shares = np.sort(labels)[: 2 * clients * size].reshape(2 * clients, size)
    most = [np.bincount(share).argmax() for share in shares]  # the naive reading
    np.testing.assert_array_equal(_share_labels(labels, clients), most)
    if np.bincount(most).max() > clients:
        with pytest.raises(ValueError, match=rf"shards: label {np.bincount(most).argmax()} fills .*works"):
            partition(labels, Shards(), clients, seed=seed)
        return
    made = partition(labels, Shards(), clients, seed=seed)
    disjoint(made, len(labels))
    assert (made.sizes == 2 * size).all()
    for client in range(clients):
        first, second = labels[made.rows(client)].reshape(2, size)
        assert np.bincount(first).argmax() != np.bincount(second).argmax()


def test_shards_names_the_largest_number_of_clients_that_works() -> None:
    labels = np.array([0] * 70 + [1] * 50)  # 2P shares of 120 / 2P: label 0 fills more than half of them, but for few
    with pytest.raises(ValueError, match="label 0 fills 4 of 6 shares.*the largest number of clients that works is 2"):
        partition(labels, Shards(), 3)
    assert partition(labels, Shards(), 2).clients == 2
    with pytest.raises(ValueError, match="no number of clients works; choose dirichlet"):
        partition(np.zeros(100, int), Shards(), 5)


def test_assignment_of_shares_is_even() -> None:
    """Every pair of different labels is as likely: four labels of two shares, six pairs."""
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    counts = {}
    for seed in range(4000):
        for a, b in assign(labels, stream(seed, "shares")):
            pair = tuple(sorted((labels[a], labels[b])))
            counts[pair] = counts.get(pair, 0) + 1
    assert set(counts) == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    expected = 4000 * 4 / 6
    assert all(abs(n - expected) < 0.08 * expected for n in counts.values())


def test_the_hardest_shares_are_matched() -> None:
    """One label fills exactly half of all: nearly every shuffle conflicts, and one assignment only is left."""
    labels = np.array([7] * 50 + list(range(100, 150)))
    for seed in range(20):
        pairs = assign(labels, stream(seed, "shares"))
        assert sorted(pairs.ravel()) == list(range(100))
        assert (labels[pairs[:, 0]] != labels[pairs[:, 1]]).all()


class Scripted:
    """Uniform numbers in a fixed order."""

    def __init__(self, uniforms) -> None:
        self.uniforms = uniforms

    def random(self, n):
        taken, self.uniforms = self.uniforms[:n], self.uniforms[n:]
        return taken


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 10), SEEDS)
def test_dealing_together_is_dealing_one_by_one(classes, clients, size, seed) -> None:
    """Against the rule typed out: at its turn each draws from its mixture over the classes that are left."""
    rng = np.random.default_rng(seed)
    stock = rng.multinomial(clients * size, rng.dirichlet(np.ones(classes)))
    pools = [np.arange(n) + 1000 * k for k, n in enumerate(stock)]
    mixtures = rng.dirichlet(np.full(classes, 0.3), size=clients)
    turns = np.tile(np.arange(clients), size)
    uniforms = rng.random(len(turns))
    dealt = _Dealer([*pools], refill=False, rng=Scripted(uniforms)).deal(mixtures, turns)

    left = [list(pool) for pool in pools]
    for turn, (client, u) in enumerate(zip(turns, uniforms, strict=True)):
        weights = [mixtures[client, k] if left[k] else 0.0 for k in range(classes)]
        if sum(weights) <= 0:
            weights = [len(pool) / sum(map(len, left)) for pool in left]
        heights = np.cumsum(weights)
        drawn = next((k for k in range(classes) if heights[k] > u * heights[-1]), None)
        if drawn is None or not left[drawn]:
            drawn = max(k for k in range(classes) if weights[k] > 0)
        assert dealt[turn] == left[drawn].pop(0)


def test_rotation_leaves_no_scraps_to_the_last() -> None:
    """Client after client, the last ones take what is left over; in turns, all are as far from their mixtures."""
    labels = np.repeat(np.arange(10), 500)
    gap = {}
    for order in ("rotate", "sequence", "refill"):
        made = partition(labels, Dirichlet(0.1, order), 50, seed=3)
        mixture = made.counts(labels, 10) / made.sizes[:, None]
        distance = 0.5 * np.abs(made.drawn - mixture).sum(1)
        gap[order] = distance[-10:].mean() - distance[:40].mean()
    assert abs(gap["rotate"]) < 0.1
    assert gap["sequence"] > 0.3
    assert abs(gap["refill"]) < 0.05


def test_concentration_is_what_it_says() -> None:
    labels = np.repeat(np.arange(10), 5000)
    entropy = {
        rho: partition(labels, Dirichlet(rho), 100).passport(labels)["label_entropy_bits"]["mean"]
        for rho in (0.1, 1, 1000)
    }
    assert entropy[0.1] < 2 < entropy[1] < 3.1 < 3.3 < entropy[1000] < np.log2(10)
    tenfold = partition(labels, Dirichlet(1, prior="probability"), 100).drawn
    assert abs((tenfold**2).sum(1).mean() - (partition(labels, Dirichlet(0.1), 100).drawn ** 2).sum(1).mean()) < 0.08


@pytest.mark.parametrize(
    "chosen", [IID(), Dirichlet(0.3), Proportions(0.5), Quantity(), Shards()], ids=lambda r: type(r).__name__
)
def test_share_and_holdout(chosen: Rule) -> None:
    labels = np.repeat(np.arange(10), 60)
    made = partition(labels, chosen, 6, seed=4, share=0.05, holdout=0.1)
    everybody = set.intersection(*({*made.rows(k)} | {*made.held(k)} for k in range(6)))
    assert len(everybody) == 30
    for client in range(6):
        rows, held = made.rows(client), made.held(client)
        assert not {*rows} & {*held}
        assert len(held) == int(0.1 * (len(rows) + len(held)))
    plain = partition(labels, chosen, 6, seed=4)
    with_holdout = partition(labels, chosen, 6, seed=4, holdout=0.1)
    for client in range(6):
        assert {*plain.rows(client)} == {*with_holdout.rows(client), *with_holdout.held(client)}
    assert made.passport(labels)["held_out"] == sum(len(made.held(k)) for k in range(6))


def test_writers_are_clients() -> None:
    ids = np.array([5, 3, 5, 9, 3, 5])
    made = partition(np.zeros(6, int), Writers(ids))
    assert [made.rows(k).tolist() for k in range(made.clients)] == [[1, 4], [0, 2, 5], [3]]
    shared = partition(np.zeros(6, int), Writers(ids), share=0.34)
    assert shared.clients == 3
    assert len(set.intersection(*({*shared.rows(k)} for k in range(3)))) == 2


def test_saves_to_one_file_that_anybody_reads(tmp_path) -> None:
    labels = np.repeat(np.arange(10), 30)
    for chosen, holdout in ((Dirichlet(0.2), 0.0), (IID(), 0.2)):
        made = partition(labels, chosen, 7, seed=2, holdout=holdout)
        path = tmp_path / f"{made.rule}.json"
        made.save(path, labels)
        again = Partition.load(path)
        assert again.sha256 == made.sha256
        assert again.passport(labels) == made.passport(labels)
        lists = json.loads(path.read_text())["clients"]
        assert lists == [made.rows(k).tolist() for k in range(7)]
        bare = tmp_path / "bare.json"
        bare.write_text(json.dumps(lists))
        explicit = partition(labels, Explicit(bare))
        assert [explicit.rows(k).tolist() for k in range(7)] == lists


def test_another_partition_is_refused(tmp_path) -> None:
    labels = np.repeat(np.arange(4), 30)
    made = partition(labels, IID(), 5)
    with pytest.raises(DataError, match=f"run 7: not the partition it was started with: expected sha256 {made.sha256}"):
        partition(labels, IID(), 5, seed=1).require(made.sha256, "run 7")
    path = tmp_path / "p.json"
    made.save(path, labels)
    content = json.loads(path.read_text())
    content["clients"][0][0], content["clients"][1][0] = content["clients"][1][0], content["clients"][0][0]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="not the partition it was started with"):
        Partition.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"), ("3", "neither a list"), ('[["a"]]', "whole numbers"), ("[[-1]]", "zero or above"),
        ("[[0], 3]", "not a plain list"), ("[[0.5]]", "whole numbers"), ("[[[0]]]", "plain list of whole numbers"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_partition_is_refused(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        Partition.load(path)
    with pytest.raises(DataError, match="no such"):
        Partition.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: rule("dirichlt"), "did you mean dirichlet"),
        (lambda: rule("dirichlet", roh=1), "did you mean rho"),
        (lambda: rule("dirichlet", rho="a"), "rho='a': give a number"),
        (lambda: rule("iid", rho=1), "choose one of none"),
        (lambda: Dirichlet(0), "rho=0"),
        (lambda: Dirichlet(order="rotat"), "did you mean rotate"),
        (lambda: Dirichlet(prior="one"), "did you mean ones"),
        (lambda: Quantity(-1), "sigma=-1"),
        (lambda: partition(np.zeros(5, int), IID(), 0), "clients=0"),
        (lambda: partition(np.zeros((5, 2), int), IID(), 2), r"labels of shape \(5, 2\)"),
        (lambda: partition(np.zeros(5, int), IID(), 2, share=1.0), "share=1.0"),
        (lambda: partition(np.zeros(5, int), IID(), 2, holdout=1.0), "holdout=1.0"),
        (lambda: partition(np.arange(40) % 2, Proportions(1e-3, least=3), 10), "raise rho, lower least"),
        (lambda: partition(np.arange(4), Proportions(1, least=3), 10), "take fewer clients"),
        (lambda: partition(np.zeros(5, int), Writers(np.zeros(4, int))), "4 ids for 5 rows"),
        (lambda: partition(np.zeros(5, int), Writers(np.zeros(5, int)), 3), "1 writers, not 3"),
    ],
)
def test_is_refused_in_one_line(attempt, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_every_rule_has_its_name() -> None:
    assert {type(rule(name)).__name__.lower() for name in RULES if name not in ("writers", "explicit")} | {
        "writers",
        "explicit",
    } == set(RULES)


def test_the_same_rows_on_every_machine() -> None:
    """Hashes written down once: a new release of numpy that changed its streams would be seen here."""
    labels = np.arange(1000) % 10
    made = {
        name: partition(labels, rule(name), 10, seed=1).sha256[:16]
        for name in ("iid", "shards", "dirichlet", "proportions", "quantity")
    }
    assert made == HASHES


HASHES = {
    "iid": "2e8ecd37d9f9c3db",
    "shards": "2f24c3f9ffc647e8",
    "dirichlet": "9d718973b9980741",
    "proportions": "b695d48c359c2658",
    "quantity": "48cae5a7a076b01f",
}
