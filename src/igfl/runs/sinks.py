"""Where rows go beside the run's own file. A sink is a function of a row; one that fails is dropped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from igfl.runs.rows import Row

Sink = Callable[[Row], None]


@runtime_checkable
class Closes(Protocol):
    """A sink that has something to finish."""

    def close(self) -> None: ...


@dataclass
class Sinks:
    """Several, each made when the run knows from which round on it will tell."""

    makers: tuple[Callable[[int], Sink], ...] = ()
    _open: list[Sink] = field(default_factory=list)

    def begin(self, round: int) -> None:
        """Every sink, for rows after this round."""
        for maker in self.makers:
            self._try(lambda maker=maker: self._open.append(maker(round)), "cannot begin")  # type: ignore[misc]

    def __call__(self, row: Row) -> None:
        for sink in list(self._open):
            if not self._try(lambda sink=sink: sink(row), f"{_name(sink)} failed"):  # type: ignore[misc]
                self._open.remove(sink)

    def close(self) -> None:
        """Let every one finish."""
        for sink in self._open:
            if isinstance(sink, Closes):
                self._try(sink.close, f"{_name(sink)} failed")

    def _try(self, call: Callable[[], Any], what: str) -> bool:
        try:
            call()
        except Exception as error:  # whatever somebody's sink raises
            warnings.warn(f"a sink is dropped, {what}: {type(error).__name__}: {error}", stacklevel=2)
            return False
        return True


class TensorBoard:
    """Scalars for TensorBoard, in the run's folder; rows of rounds that were cut are hidden there."""

    def __init__(self, folder: Path, round: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is not installed: pip install 'igfl[tensorboard]'") from error
        self._writer: Any = SummaryWriter(str(folder), purge_step=round + 1)

    def __call__(self, row: Row) -> None:
        for name, value in row.items():
            if "/" in name:
                self._writer.add_scalar(name, value, row["round"])

    def close(self) -> None:
        self._writer.close()


def _name(sink: Sink) -> str:
    return getattr(sink, "__name__", type(sink).__name__)
