"""What a rule of partition is: a value that turns labels into index lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from igfl.data.partitions.passport import Floats
from igfl.streams import Ints, Stream


@dataclass(frozen=True, slots=True)
class Divided:
    """Who holds which rows, flat, and the mixtures that were drawn for it, where any were."""

    index: Ints
    offsets: Ints
    drawn: Floats | None = None


class Rule(ABC):
    """Its fields are its whole configuration; the same labels, rule and stream give the same lists."""

    natural: ClassVar[bool] = False  # True: the data says who holds what, and how many clients there are

    @abstractmethod
    def divide(self, labels: Ints, clients: int, draws: Stream) -> Divided:
        """Divide rows with these labels among so many clients."""


def one_size(rows: int, parts: int, what: str, cure: str) -> int:
    """How many rows each of so many equal parts has; refused where that is none."""
    if rows < parts:
        raise ValueError(f"{rows} rows cannot fill {parts} {what}: {cure}")
    return rows // parts
