"""What a round is told as: one row of plain numbers, under names that every sink uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from igfl.exact import one_thread, weighted_sum
from igfl.runs.digest import Chain, short_hashes
from igfl.types import Arrays, Cohort, ServerState, Task

Row = Mapping[str, Any]


def row_of(
    state: ServerState, before: ServerState, cohort: Cohort, chain: Chain, task: Task, invited: int
) -> dict[str, Any]:
    """The row of the round that led from `before` to `state`, to which so many were invited."""
    row: dict[str, Any] = {"round": state.round, "digest": chain.head, "hashes": short_hashes(state, task)}
    row |= {"clients": len(cohort.clients), "rejected": len(cohort.rejected)}
    if cohort.clients:
        row["train/loss"] = float(cohort.metrics["loss"].mean())
        row |= _drift(cohort) | _attention(cohort)
    row |= _traffic(before, cohort, invited)
    return row


def of_clients(metrics: Arrays) -> dict[str, float]:
    """How well the clients are served."""
    accuracy = metrics.get("accuracy")
    if accuracy is None or not bool((known := accuracy[~accuracy.isnan()]).numel()):
        return {}
    return {
        "clients/accuracy_mean": float(known.mean()), "clients/accuracy_std": float(known.std(correction=0)),
        "clients/accuracy_p10": float(known.quantile(0.1)), "clients/accuracy_worst": float(known.min()),
    }  # fmt: skip


def _drift(cohort: Cohort) -> dict[str, float]:
    """How far the clients went, and how much they agreed: the mean cosine of their updates with the weighted one."""
    norms = cohort.metrics["norm"]
    found = {"drift/norm_mean": float(norms.mean()), "drift/norm_max": float(norms.max())}
    weights = cohort.weights
    if weights is not None:
        with one_thread():
            together = weighted_sum(weights, cohort.deltas)
            cosines = cohort.deltas @ together / (norms.to(together) * torch.linalg.vector_norm(together))
        found["drift/cosine"] = float(cosines.nan_to_num().mean())
    return found


def _attention(cohort: Cohort) -> dict[str, float]:
    """How unequal the weights are: entropy in nats, log n where all are alike."""
    if cohort.weights is None:
        return {}
    weights = cohort.weights.double()
    return {
        "attention/entropy": float(torch.special.entr(weights).sum()), "attention/max": float(weights.max()),
    }  # fmt: skip


def _traffic(before: ServerState, cohort: Cohort, invited: int) -> dict[str, int]:
    """Bytes that clients would hear and send, as plain arrays: all invited hear, those rejected have sent."""
    heard = sum(_bytes(array) for array in (before.params, *before.shared.values()))
    told = sum(_bytes(array) for array in (cohort.deltas, *cohort.notes.values()))
    each = told // len(cohort.clients) if cohort.clients else 0
    sent = (len(cohort.clients) + len(cohort.rejected)) * each
    return {"comm/down_bytes": invited * heard, "comm/up_bytes": sent}


def _bytes(array: Tensor) -> int:
    return array.numel() * array.element_size()
