"""A data set and who holds which of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from igfl.types import Batch


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Rows of data, one index vector with offsets (client -> its rows), and a test set.

    Rows stay as stored (uint8 images stay uint8) and are in memory once, however many clients hold them.
    """

    x: Tensor  # [rows, ...]
    y: Tensor  # [rows, ...]
    index: Tensor  # int64, the rows of client 0, then of client 1, ...
    offsets: Tensor  # int64 [population + 1]: client k holds index[offsets[k]:offsets[k + 1]]
    test: Batch | None = None
    held_index: Tensor | None = None  # rows each client keeps back to test on, laid out like index
    held_offsets: Tensor | None = None

    def __post_init__(self) -> None:
        _check_rows("the training data", self.x, self.y)
        if self.test is not None:
            _check_rows("the test data", self.test.x, self.test.y)
        if self.offsets.ndim != 1 or len(self.offsets) < 2:
            raise ValueError("a federation has at least one client: give at least one list of rows")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.index) or bool((self.offsets.diff() < 0).any()):
            raise ValueError(
                "offsets must rise from 0 to the length of index: client k holds index[offsets[k]:offsets[k+1]]"
            )
        if len(self.index) and not 0 <= int(self.index.min()) <= int(self.index.max()) < len(self.x):
            wrong = self.index[(self.index < 0) | (self.index >= len(self.x))][0]
            raise ValueError(
                f"a client holds row {int(wrong)}, the data has rows 0 to {len(self.x) - 1}: check the partition"
            )

    @staticmethod
    def split(
        x: Tensor, y: Tensor, rows: Sequence[Sequence[int] | NDArray[np.int64] | Tensor], test: Batch | None = None
    ) -> Federation:
        """A data set divided by one list of rows for each client."""
        lists = [torch.as_tensor(r, dtype=torch.int64) for r in rows]
        sizes = torch.tensor([0, *map(len, lists)])
        index = torch.cat(lists) if lists else torch.empty(0, dtype=torch.int64)
        return Federation(x=x, y=y, index=index, offsets=sizes.cumsum(0), test=test)

    @staticmethod
    def of_clients(clients: Sequence[tuple[Tensor, Tensor]], test: Batch | None = None) -> Federation:
        """Each client's own (x, y)."""
        if not clients:
            raise ValueError("a federation has at least one client: give at least one (x, y)")
        sizes = torch.tensor([0, *(len(x) for x, _ in clients)])
        x, y = (torch.cat([client[part] for client in clients]) for part in (0, 1))
        return Federation(x=x, y=y, index=torch.arange(len(x)), offsets=sizes.cumsum(0), test=test)

    @property
    def population(self) -> int:
        """How many clients there are, those without data included."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """[population] how many examples each client holds."""
        return np.diff(self.offsets.numpy())

    @cached_property
    def with_data(self) -> NDArray[np.int64]:
        """The clients that hold at least one example."""
        return np.flatnonzero(self.sizes)

    def rows(self, client: int) -> Tensor:
        """The rows this client holds."""
        start, end = self.offsets[client : client + 2].tolist()
        return self.index[start:end]

    def held(self, client: int) -> Tensor:
        """The rows this client keeps back, none unless the partition holds some out."""
        if self.held_index is None or self.held_offsets is None:
            return self.index[:0]
        start, end = self.held_offsets[client : client + 2].tolist()
        return self.held_index[start:end]


def _check_rows(what: str, x: Tensor, y: Tensor) -> None:
    if len(x) != len(y):
        raise ValueError(f"{what} has {len(x)} inputs and {len(y)} labels: give one label for every input")
    for name, part in (("inputs", x), ("labels", y)):
        if part.is_floating_point() and not bool(part.isfinite().all()):
            bad = (
                int((~part.isfinite()).flatten(1).any(1).nonzero()[0])
                if part.ndim > 1
                else int((~part.isfinite()).nonzero()[0])
            )
            raise ValueError(
                f"{what} has NaN or infinity in its {name}, first in row {bad}: clean it or leave the row out"
            )
