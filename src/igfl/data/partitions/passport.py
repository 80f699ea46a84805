"""A partition: who holds which rows, where it came from, and its passport."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igfl.data.files import DataError
from igfl.streams import Ints, Stream

Floats = NDArray[np.float64]
DRAWN = 200_000  # clients times classes, of which more would not be seen in a picture


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Lists of rows, one for each client, flat: client k holds index[offsets[k]:offsets[k + 1]]."""

    rule: str
    parameters: Mapping[str, Any]
    seed: int
    index: Ints
    offsets: Ints
    held_index: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # kept back for testing on the client
    held_offsets: Ints | None = None
    drawn: Floats | None = None  # [clients, classes] the mixtures the rule drew, where it drew any

    @property
    def clients(self) -> int:
        """How many."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Ints:
        """[clients] rows of each."""
        return np.diff(self.offsets)

    def rows(self, client: int) -> Ints:
        """The rows this client trains on."""
        return self.index[self.offsets[client] : self.offsets[client + 1]]

    def held(self, client: int) -> Ints:
        """The rows this client keeps back."""
        if self.held_offsets is None:
            return self.held_index
        return self.held_index[self.held_offsets[client] : self.held_offsets[client + 1]]

    @cached_property
    def sha256(self) -> str:
        """Of the index lists, the held-out ones included; equal where and only where everybody's rows are."""
        digest = hashlib.sha256()
        for part in (self.offsets, self.index, self.held_offsets if self.held_offsets is not None else self.held_index):
            digest.update(len(part).to_bytes(8, "little") + part.astype("<i8").tobytes())
        digest.update(self.held_index.astype("<i8").tobytes())
        return digest.hexdigest()

    def counts(self, labels: Ints, classes: int) -> Ints:
        """[clients, classes] examples of each class."""
        owner = np.repeat(np.arange(self.clients), self.sizes)
        return np.bincount(owner * classes + labels[self.index], minlength=self.clients * classes).reshape(-1, classes)

    def passport(self, labels: Ints) -> dict[str, Any]:
        """What a partition is, in figures: where it came from, its hash, sizes, and how the labels lie."""
        counts = self.counts(labels, int(labels.max(initial=0)) + 1)
        mixture = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        entropy = -(mixture * np.log2(np.where(mixture > 0, mixture, 1))).sum(1)
        passport: dict[str, Any] = {
            "rule": self.rule,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "clients": self.clients,
            "sha256": self.sha256,
            "rows": len(self.index),
            "unused": int(len(labels) - len(np.unique(np.concatenate([self.index, self.held_index])))),
            "duplicates": int(len(self.index) - len(np.unique(self.index))),
            "held_out": len(self.held_index),
            "empty_clients": int((self.sizes == 0).sum()),
            "size": _spread(self.sizes),
            "label_entropy_bits": _spread(entropy),
        }
        if self.drawn is not None:
            distance = 0.5 * np.abs(self.drawn - mixture)[self.sizes > 0].sum(1)
            passport["drawn_against_realised"] = _spread(distance)  # total variation
        return passport

    def save(self, path: str | Path, labels: Ints) -> None:
        """One JSON file: the passport, plain index lists that any framework reads, and what pictures need of labels."""
        content: dict[str, Any] = {"passport": self.passport(labels), "clients": _lists(self.index, self.offsets)}
        counts = self.counts(labels, int(labels.max(initial=0)) + 1)
        if counts.size <= DRAWN:
            content["counts"] = counts.tolist()
        if self.held_offsets is not None:
            content["held_out"] = _lists(self.held_index, self.held_offsets)
        if self.drawn is not None:
            content["drawn"] = self.drawn.tolist()
        Path(path).write_text(json.dumps(content, separators=(",", ":")))

    @staticmethod
    def load(path: str | Path) -> Partition:
        """A partition as saved, or a bare JSON list of index lists from anywhere."""
        try:
            content = json.loads(Path(path).read_text())
        except FileNotFoundError as error:
            raise DataError(f"{path}: no such partition file") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DataError(f"{path}: not JSON, or cut short ({error})") from error
        content = {"clients": content} if isinstance(content, list) else content
        if not isinstance(content, dict) or not isinstance(content.get("clients"), list):
            raise DataError(f'{path}: neither a list of index lists nor a partition with "clients"')
        passport = content.get("passport", {"rule": "explicit", "parameters": {"path": str(path)}, "seed": 0})
        held = of_lists(content["held_out"], path) if "held_out" in content else (np.empty(0, np.int64), None)
        index, offsets = of_lists(content["clients"], path)
        partition = Partition(
            rule=passport["rule"], parameters=passport["parameters"], seed=passport["seed"], index=index,
            offsets=offsets, held_index=held[0], held_offsets=held[1],
            drawn=np.array(content["drawn"]) if "drawn" in content else None,
        )  # fmt: skip
        partition.require(passport.get("sha256", partition.sha256), f"{path}")
        return partition

    def require(self, sha256: str, where: str) -> None:
        """Refuse to go on with another partition than the one that was started with."""
        if self.sha256 != sha256:
            raise DataError(
                f"{where}: not the partition it was started with: expected sha256 {sha256}, found "
                f"{self.sha256}; give back the rule, seed and data it was made from"
            )


def hold_out(partition: Partition, share: float, draws: Stream) -> Partition:
    """A share of every client's own rows, kept back for testing on that client."""
    if not 0 < share < 1:
        raise ValueError(f"holdout={share}: the share a client keeps back lies between 0 and 1")
    keep, held = [], []
    for client in range(partition.clients):
        rows = partition.rows(client)
        order = draws.at(client).permutation(len(rows))
        cut = int(share * len(rows))
        held.append(rows[np.sort(order[:cut])])
        keep.append(rows[np.sort(order[cut:])])
    index, offsets = flat(keep)
    held_index, held_offsets = flat(held)
    return Partition(
        rule=partition.rule, parameters={**partition.parameters, "holdout": share}, seed=partition.seed, index=index,
        offsets=offsets, held_index=held_index, held_offsets=held_offsets, drawn=partition.drawn,
    )  # fmt: skip


def flat(lists: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Lists of rows as one index vector with offsets."""
    offsets = np.cumsum([0, *map(len, lists)])
    return (np.concatenate(lists).astype(np.int64) if lists else np.empty(0, np.int64)), offsets


def of_lists(lists: Sequence[Sequence[int]], where: object) -> tuple[Ints, Ints]:
    """The same from lists of a file, checked."""
    try:
        arrays = [np.asarray(rows, np.int64 if len(rows) == 0 else None) for rows in lists]
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: a client's rows are not a plain list of numbers ({error})") from error
    for client, rows in enumerate(arrays):
        if rows.ndim != 1 or rows.dtype.kind != "i" or rows.min(initial=0) < 0:
            raise DataError(f"{where}: client {client}: rows are a plain list of whole numbers, zero or above")
    return flat(arrays)


def _lists(index: Ints, offsets: Ints) -> list[list[int]]:
    return [part.tolist() for part in np.split(index, offsets[1:-1])]


def _spread(values: NDArray[Any]) -> dict[str, float]:
    if not len(values):
        return {}
    return {
        name: float(f(values))
        for name, f in (("min", np.min), ("median", np.median), ("mean", np.mean), ("max", np.max))
    }
