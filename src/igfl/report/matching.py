"""Whether clients attend to those that hold the same labels: the matching rate of the paper's figure 2.

Unordered pairs of clients are scored by (a_ij + a_ji) / 2, a the attention averaged over rounds. Of the m pairs with
the highest scores, m the number of pairs that share a label, the matching rate is the share that do share one; of pairs
tied at the border as many count as are expected to be among the m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from igfl.data.partitions.passport import Floats

OWN = 0.25  # a class is a client's own where it makes up so much of its rows


@dataclass(frozen=True, kw_only=True)
class Matching:
    """How well attention finds the pairs that share a label."""

    rate: float
    pairs: int  # m
    zero: float  # the share of all pairs whose score is exactly zero


def matching(attention: Floats, together: NDArray[np.bool_]) -> Matching | None:
    """Of attention [n, n], row = query, and which clients share a label [n, n]; None where no two do."""
    i, j = np.triu_indices(len(attention), 1)
    scores, real = (attention[i, j] + attention[j, i]) / 2, together[i, j]
    m = int(real.sum())
    if not m:
        return None
    border = np.sort(scores)[-m]
    above, tied = scores > border, scores == border
    found = real[above].sum() + (m - above.sum()) * real[tied].mean()
    return Matching(rate=float(found / m), pairs=m, zero=float((scores == 0).mean()))


def attention_of(similarity: NDArray[np.floating]) -> Floats:
    """alpha = softmax over keys of the dot products, in single precision as the server has it."""
    scores = torch.from_numpy(np.asarray(similarity, np.float32))
    weights: Floats = torch.softmax(scores, dim=1).double().numpy()
    return weights


def share_labels(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[n, n] which clients, of examples [n, classes], have a class in common that is both's own."""
    own = (counts >= OWN * counts.sum(1, keepdims=True)).astype(int)
    together: NDArray[np.bool_] = (own @ own.T > 0) & ~np.eye(len(own), dtype=bool)
    return together
