"""The matching rate, and what is found of clients' behaviour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from igfl.data.partitions import Shards, partition
from igfl.report.behaviour import Snapshot, averaged, behaviour_of, found_clusters
from igfl.report.matching import attention_of, matching, share_labels


def ring(n: int) -> np.ndarray:
    """Every client shares a label with its two neighbours."""
    near = np.zeros((n, n), bool)
    for i in range(n):
        near[i, (i + 1) % n] = near[(i + 1) % n, i] = True
    return near


def test_attention_that_sees_labels_finds_them_all() -> None:
    together = ring(6)
    found = matching(0.1 + 0.2 * together, together)
    assert found is not None
    assert (found.rate, found.pairs, found.zero) == (1.0, 6, 0.0)


def test_attention_that_sees_the_opposite_finds_none() -> None:
    together = ring(6)
    found = matching(0.1 + 0.2 * ~together, together)
    assert found is not None
    assert found.rate == 0.0


def test_scores_are_made_symmetric() -> None:
    together = ring(4)
    one_way = np.triu(together).astype(float)
    found = matching(one_way, together)
    assert found is not None
    assert found.rate == 1.0
    assert found.zero == pytest.approx(2 / 6)  # the two pairs that are no neighbours


def test_ties_count_as_expected() -> None:
    """All six pairs alike, four of them real: of four drawn, 4 x 4/6 are real, which is 2/3 of what there is."""
    found = matching(np.ones((4, 4)), ring(4))
    assert found is not None
    assert found.rate == pytest.approx(2 / 3)


def test_ties_at_the_border_alone() -> None:
    """Pair (0, 1) stands above; among the other five, three are real and three are to be found: 1 + 3 x 3/5 of four."""
    scores = np.ones((4, 4))
    scores[0, 1] = 3.0
    found = matching(scores, ring(4))
    assert found is not None
    assert found.rate == pytest.approx((1 + 3 * 3 / 5) / 4)


def test_where_nobody_shares_a_label_there_is_nothing_to_find() -> None:
    assert matching(np.ones((3, 3)), np.zeros((3, 3), bool)) is None


def test_a_class_is_ones_own_from_a_quarter_on() -> None:
    counts = np.array([[75, 25, 0], [0, 25, 75], [76, 24, 0]])
    assert share_labels(counts).tolist() == [[False, True, True], [True, False, False], [True, False, False]]


def test_attention_is_the_servers() -> None:
    """IGFL-S weighs by the mean over queries of what is drawn here."""
    import torch

    from igfl.types import Cohort
    from igfl.weightings import SelfAttention

    deltas = torch.randn(5, 40, generator=torch.Generator().manual_seed(1)) / 3
    cohort = Cohort(clients=tuple(range(5)), deltas=deltas, examples=torch.ones(5), notes={}, population=5)
    weights = attention_of((deltas @ deltas.T).numpy()).mean(0)
    assert np.allclose(weights, SelfAttention().weigh(cohort).numpy(), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_paired_clients_hold_the_same_two_labels(seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(10), 50))
    made = partition(labels, Shards(paired=True), 10, seed=seed)
    together = share_labels(made.counts(labels, 10))
    assert together.sum() == 10  # five pairs, either way round
    assert all(together[2 * k, 2 * k + 1] for k in range(5))
    assert len(np.unique(made.index)) == 500
    for client in range(10):
        assert len(np.unique(labels[made.rows(client)])) == 2


def test_clients_that_cannot_come_in_twos_are_refused() -> None:
    with pytest.raises(ValueError, match="the number of clients is odd: leave out paired"):
        partition(np.repeat(np.arange(5), 10), Shards(paired=True), 5)
    with pytest.raises(ValueError, match="label 0 fills an odd number of shares"):
        partition(np.repeat(np.arange(4), [15, 5, 10, 10]), Shards(paired=True), 4)


def blocks(n: int, noise: float = 0.05) -> np.ndarray:
    """Cosines of clients of which 2k and 2k + 1 are alike."""
    draws = np.random.default_rng(0)
    cosines = np.kron(np.eye(n // 2), np.full((2, 2), 0.8)) + noise * draws.random((n, n))
    cosines = (cosines + cosines.T) / 2
    np.fill_diagonal(cosines, 1)
    return cosines


def test_clusters_are_found_and_stand_together() -> None:
    order, clusters = found_clusters(blocks(10))
    assert len(set(clusters)) == 5
    assert all(clusters[2 * k] == clusters[2 * k + 1] for k in range(5))
    assert all(clusters[order[2 * k]] == clusters[order[2 * k + 1]] for k in range(5))


def test_what_met_is_averaged_and_what_did_not_is_nothing() -> None:
    def snapshot(round: int, clients: list[int], value: float) -> Snapshot:
        n = len(clients)
        return Snapshot(
            round=round, clients=np.array(clients), weights=np.full(n, 1 / n), similarity=np.full((n, n), value)
        )

    seen = [snapshot(1, [0, 2], 1.0), snapshot(2, [0, 1], 2.0), snapshot(3, [0, 2], 3.0)]
    mean = averaged(seen, np.array([0, 1, 2]), lambda s: s.similarity)
    assert mean[0, 2] == 2.0
    assert mean[0, 1] == 2.0
    assert np.isnan(mean[1, 2])
    assert mean[0, 0] == 2.0


def test_behaviour_of_a_run_goes_along_with_its_labels(tmp_path: Path) -> None:
    from igfl.cli.main import run
    from igfl.report.gather import gathered

    options = [
        "method=igfl_s/self",
        "split.paired=true",
        "rounds=12",
        "behaviour=1",
        "engine.name=loop",
        "train.lr=0.3",
    ]
    assert run(["run", "--under", str(tmp_path), *options, "data.name=synthetic", "train.batch=50"]) == 0
    behaviour = gathered([tmp_path / "run-001"])["runs"][0]["behaviour"]
    assert behaviour["correlation"] > 0.5
    assert behaviour["matching"]["rate"] == 1.0
    assert behaviour_of(tmp_path / "none", None, 1000) is None
