"""Rows of memory that several processes see: the cohort's updates and notes, and what clients keep between visits."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from torch import Tensor

from igfl.exact import aligned_rows
from igfl.types import Arrays

BLOCK_BYTES = 2**26


@dataclass
class Pool:
    """Rows of one shape, lent until the tensor that stands for them is let go; it grows by blocks."""

    like: Tensor
    blocks: list[Tensor] = field(default_factory=list)
    free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = max(1, self.like.numel() * self.like.element_size())
        self.block = min(4096, max(8, BLOCK_BYTES // size))  # rows

    def take(self) -> int:
        """The number of a row that nobody holds."""
        if not self.free:
            start = len(self.blocks) * self.block
            self.blocks.append(aligned_rows(self.block, self.like.shape, self.like, shared=True))
            self.free.extend(range(start + self.block - 1, start - 1, -1))
        return self.free.pop()

    def give_back(self, number: int) -> None:
        """Nobody holds this row any more."""
        self.free.append(number)

    def row(self, number: int) -> Tensor:
        """The row itself."""
        return self.blocks[number // self.block][number % self.block]

    def lend(self, number: int) -> Tensor:
        """The row, which comes back to the pool when this tensor is let go."""
        row = self.row(number)
        weakref.finalize(row, self.give_back, number).atexit = False
        return row

    def number_of(self, tensor: Tensor) -> int | None:
        """The number of the row that this tensor is, if it is one of ours."""
        for i, block in enumerate(self.blocks):
            step = block.stride(0) * block.element_size()
            row, rest = divmod(tensor.data_ptr() - block.data_ptr(), step)
            if 0 <= row < len(block) and not rest and tensor.shape == self.like.shape:
                return i * self.block + row
        return None


def write(arrays: Arrays, rows: Arrays) -> None:
    """Copy arrays into the rows of the same names; a method that makes others than at first is told so."""
    if arrays.keys() != rows.keys():
        raise ValueError(
            f"the method makes arrays {sorted(arrays)} where it made {sorted(rows)} at first: keep the names"
        )
    for name, array in arrays.items():
        if array.shape != rows[name].shape:
            was = tuple(rows[name].shape)
            raise ValueError(
                f"the method makes {name!r} of {tuple(array.shape)} where it was {was} at first: keep shapes"
            )
        rows[name].copy_(array)
