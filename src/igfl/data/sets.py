"""Data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from igfl.data.federation import Federation
from igfl.data.partitions.passport import Partition
from igfl.names import named
from igfl.streams import Ints
from igfl.types import Batch


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Rows for training, rows for testing, and what the labels mean."""

    name: str
    x: Tensor
    y: Tensor
    test: Batch
    classes: tuple[str, ...]
    writers: Tensor | None = None  # [rows] who wrote each training row, where that is known
    source: str = ""  # where it was read from

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        return tuple(self.x.shape[1:])

    def of_rows(self, rows: Ints) -> DataSet:
        """These training rows alone."""
        chosen = torch.from_numpy(rows)
        return replace(
            self, x=self.x[chosen], y=self.y[chosen], writers=None if self.writers is None else self.writers[chosen]
        )

    def divided(self, partition: Partition) -> Federation:
        """The same rows, in the hands of a partition's clients."""
        held = partition.held_offsets is not None
        return Federation(
            x=self.x, y=self.y, index=torch.from_numpy(partition.index), offsets=torch.from_numpy(partition.offsets),
            test=self.test, held_index=torch.from_numpy(partition.held_index) if held else None,
            held_offsets=torch.from_numpy(partition.held_offsets) if held else None,
        )  # fmt: skip


DATASETS = {
    "digits": "igfl.data.digits:digits",
    "cifar10": "igfl.data.cifar10:cifar10",
    "mnist": "igfl.data.mnist:mnist",
    "mnist_writers": "igfl.data.mnist:mnist_writers",
    "emnist": "igfl.data.emnist:emnist",
    "synthetic": "igfl.data.sets:synthetic",
    "npz": "igfl.data.sets:npz",
}


def load(name: str, **options: object) -> DataSet:
    """The data set of this name, or of any importable `package.module:factory`."""
    factory: Callable[..., DataSet] = named("data", name, DATASETS)
    try:
        return factory(**options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise ValueError(f"data={name!r}: {error}") from error


def arrays(
    x: Tensor | np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    y: Tensor | np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    test: Batch | tuple[object, object],
    *,
    name: str = "arrays",
) -> DataSet:
    """A user's own arrays."""
    x, y = torch.as_tensor(x), _labels(y)
    held = test if isinstance(test, Batch) else Batch(x=torch.as_tensor(test[0]), y=_labels(test[1]))
    if held.x.shape[1:] != x.shape[1:]:
        raise ValueError(
            f"{name}: training rows are {tuple(x.shape[1:])}, test rows {tuple(held.x.shape[1:])}: give both one shape"
        )
    count = 0 if y.is_floating_point() else 1 + max(int(y.max()), int(held.y.max()))
    return DataSet(name=name, x=x, y=y, test=held, classes=tuple(map(str, range(count))))


def npz(path: str | Path, test: float = 0.1, seed: int = 0) -> DataSet:
    """A .npz file with `x` and `y`, and `x_test` and `y_test` or else a share of the rows, by seed, for testing."""
    from igfl.data.files import DataError
    from igfl.streams import stream

    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(f"npz: no file {place}: give path= a .npz file with arrays x and y")
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            missing = [name for name in ("x", "y") if name not in stored]
            if missing:
                raise DataError(f"{place}: no array {missing[0]!r}, it has {', '.join(stored) or 'none'}: save x and y")
            x, y = stored["x"], stored["y"]
            own_test = (stored["x_test"], stored["y_test"]) if "x_test" in stored and "y_test" in stored else None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{place}: not a whole .npz file of plain arrays: {error}") from error
    if own_test is not None:
        return arrays(x, y, own_test, name=place.stem)
    if not 0 < test < 1:
        raise ValueError(f"test={test}: the share of rows kept for testing lies between 0 and 1")
    order = stream(seed, "npz test").permutation(len(x))
    held, rest = np.sort(order[: round(test * len(x))]), np.sort(order[round(test * len(x)) :])
    return arrays(x[rest], y[rest], (x[held], y[held]), name=place.stem)


def synthetic(
    shape: tuple[int, ...] = (60,), classes: int = 10, rows: int = 20_000, test_rows: int = 1_000, seed: int = 0
) -> DataSet:
    """Gaussian clouds, one a class: learnable, of any shape, for benchmarks."""
    from igfl.streams import stream

    draws = stream(seed, "synthetic").torch()
    centres = torch.randn(classes, *shape, generator=draws)
    y = torch.randint(classes, (rows + test_rows,), generator=draws)
    x = torch.randn(rows + test_rows, *shape, generator=draws).add_(centres[y])
    return arrays(x[:rows], y[:rows], Batch(x=x[rows:], y=y[rows:]), name="synthetic")


def _labels(y: object) -> Tensor:
    labels = torch.as_tensor(y)
    return labels if labels.is_floating_point() else labels.long()
