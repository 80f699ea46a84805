"""What snapshots of a run say of its clients: who moves like whom, and whether their labels explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igfl.data.partitions.passport import Floats
from igfl.report.matching import attention_of, matching, share_labels
from igfl.streams import Ints

JUDGED = 400  # snapshots that figures rest on, evenly spaced
PAIRS = 3000  # dots of a scatter
SHOWN = 120  # clients of a matrix; more would not be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cohort in one round."""

    round: int
    clients: Ints
    weights: Floats
    similarity: Floats  # [n, n] dot products of the updates

    @property
    def cosines(self) -> Floats:
        """[n, n] of the updates."""
        norms = np.sqrt(np.maximum(np.diag(self.similarity), 1e-30))
        cosines: Floats = np.clip(self.similarity / np.outer(norms, norms), -1, 1)
        return cosines

    @property
    def attention(self) -> Floats:
        """[n, n] self-attention, whatever weighed the clients; row = query."""
        return attention_of(self.similarity)


def snapshots(folder: Path, most: int | None = None) -> list[Snapshot]:
    """The snapshots of a run, at most so many, evenly spaced."""
    paths = sorted(folder.glob("*.npz"))
    if most is not None and len(paths) > most:
        paths = [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, most).astype(int))]
    found = []
    for path in paths:
        with np.load(path) as stored:
            found.append(Snapshot(
                round=int(stored["round"]), clients=stored["clients"].astype(np.int64),
                weights=stored["weights"].astype(float), similarity=stored["similarity"].astype(float),
            ))  # fmt: skip
    return found


def behaviour_of(folder: Path, partition: Mapping[str, Any] | None, numbers: int) -> dict[str, Any] | None:
    """What a page shows of a run's snapshots, in about so many numbers; None where there are none."""
    seen = snapshots(folder, JUDGED)
    if not seen:
        return None
    n = len(seen[0].clients)
    shown = np.unique(np.linspace(0, len(seen) - 1, max(2, numbers // (n * n + 2 * n))).round().astype(int))
    everybody = np.unique(np.concatenate([s.clients for s in seen]))[:SHOWN]
    cosines = averaged(seen, everybody, lambda s: s.cosines)
    order, clusters = found_clusters(cosines)
    found = {
        "clients": everybody.tolist(), "order": order, "clusters": clusters,
        "snapshots": [_shown(seen[i], everybody) for i in shown],
    }  # fmt: skip
    if partition is None or partition["counts"] is None:
        return found
    counts = np.array(partition["counts"])[everybody]
    attention = averaged(seen, everybody, lambda s: s.attention)
    return found | against_labels(cosines, attention, counts)


def _shown(snapshot: Snapshot, clients: Ints) -> dict[str, Any]:
    here = np.flatnonzero(np.isin(snapshot.clients, clients))
    dots = snapshot.similarity[np.ix_(here, here)]
    return {
        "round": snapshot.round, "clients": snapshot.clients[here].tolist(),
        "weights": [float(f"{w:.3g}") for w in snapshot.weights[here]],
        "dots": [_rounded(float(v)) for v in dots[np.triu_indices(len(here))]],
    }  # fmt: skip


def _rounded(value: float) -> float:
    """Four digits, and in any case three behind the point: a softmax sees differences, however large the numbers."""
    return value if value == 0 or not np.isfinite(value) else round(value, max(3, 3 - floor(log10(abs(value)))))


def averaged(seen: list[Snapshot], clients: Ints, what: Callable[[Snapshot], Floats]) -> Floats:
    """[clients, clients] averaged over the snapshots in which both took part; NaN where they never met."""
    place = {int(client): i for i, client in enumerate(clients)}
    total, times = np.zeros((len(clients),) * 2), np.zeros((len(clients),) * 2)
    for snapshot in seen:
        values = what(snapshot)
        here = [i for i, client in enumerate(snapshot.clients) if int(client) in place]
        there = [place[int(snapshot.clients[i])] for i in here]
        total[np.ix_(there, there)] += values[np.ix_(here, here)]
        times[np.ix_(there, there)] += 1
    return np.divide(total, times, out=np.full_like(total, np.nan), where=times > 0)


def mean_attention(folder: Path) -> Floats:
    """Self-attention averaged over a run's snapshots."""
    seen = snapshots(folder)
    if not seen:
        raise ValueError(f"{folder}: no snapshots of behaviour; train with behaviour=1")
    return averaged(seen, np.unique(np.concatenate([s.clients for s in seen])), lambda s: s.attention)


def found_clusters(cosines: Floats) -> tuple[list[int], list[int]]:
    """An order in which like stands beside like, and each client's cluster: average linkage, cut at its largest gap."""
    try:
        from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise ImportError("clusters need SciPy, which is not installed: pip install 'igfl[plots]'") from error

    if len(cosines) < 3 or not bool(np.isfinite(cosines).any()):
        return list(range(len(cosines))), [1] * len(cosines)
    distances = 1 - np.where(np.isnan(cosines), np.nanmean(cosines), cosines)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform((distances + distances.T) / 2, checks=False), "average", optimal_ordering=True)
    heights = tree[:, 2]
    cut = int(np.argmax(np.diff(heights)))  # at least two are together, and at least two apart
    level = (heights[cut] + heights[cut + 1]) / 2
    return leaves_list(tree).tolist(), fcluster(tree, level, "distance").tolist()


def against_labels(cosines: Floats, attention: Floats, counts: NDArray[np.int64]) -> dict[str, Any]:
    """Every pair that met: how alike its labels are distributed, how alike it moved; their correlation; matching."""
    mixture = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    i, j = np.triu_indices(len(cosines), 1)
    alike = 1 - 0.5 * np.abs(mixture[i] - mixture[j]).sum(1)  # 1 - total variation
    moved = cosines[i, j]
    met = np.isfinite(moved)
    pairs = np.stack([alike[met], moved[met]], 1)
    varied = len(pairs) > 2 and bool((pairs.std(0) > 1e-9).all())
    shown = pairs[np.unique(np.linspace(0, max(0, len(pairs) - 1), min(PAIRS, len(pairs))).astype(int))]
    rate = matching(attention, share_labels(counts)) if bool(np.isfinite(attention).all()) else None
    return {
        "pairs": [[round(float(a), 4), round(float(b), 4)] for a, b in shown],
        "correlation": round(float(np.corrcoef(pairs.T)[0, 1]), 4) if varied else None,
        "matching": None if rate is None else asdict(rate),
    }  # fmt: skip
