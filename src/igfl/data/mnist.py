"""MNIST (LeCun et al. 1998), and who wrote each of its digits (QMNIST: Yadav and Bottou 2019)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from igfl.data.files import DataError, Known, find_folder, read_idx
from igfl.data.sets import DataSet
from igfl.types import Batch

FOLDER = "mnist"
KNOWN = {
    "train-images": Known(
        name="train-images-idx3-ubyte", shape=(60_000, 28, 28),
        sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels": Known(
        name="train-labels-idx1-ubyte", shape=(60_000,),
        sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "test-images": Known(
        name="t10k-images-idx3-ubyte", shape=(10_000, 28, 28),
        sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "test-labels": Known(
        name="t10k-labels-idx1-ubyte", shape=(10_000,),
        sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}  # fmt: skip
WRITERS = Known(
    name="qmnist-train-labels-idx2-int", shape=(60_000, 8),
    sha256="bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
)  # fmt: skip
WRITER_COLUMN = 2  # of QMNIST's tables, whose rows stand in MNIST's order


def mnist(path: str | Path | None = None, known: dict[str, Known] = KNOWN) -> DataSet:
    """60,000 and 10,000 handwritten digits of 28x28."""
    folder = find_folder("mnist", known["train-images"].name, [FOLDER], path)
    parts = {part: read_idx(folder, file, "mnist") for part, file in known.items()}
    return images_and_labels("mnist", parts, tuple("0123456789"), folder)


def mnist_writers(path: str | Path | None = None, known: dict[str, Known] = KNOWN, writers: Known = WRITERS) -> DataSet:
    """MNIST with the writer of each training digit: natural clients."""
    digits = mnist(path, known)
    table = read_idx(find_folder("mnist_writers", writers.name, [FOLDER], path), writers, "mnist_writers")
    if not np.array_equal(table[:, 0], digits.y.numpy()):
        raise DataError(
            f"{writers.name}: its labels are not those of MNIST's training digits, in order; fetch both anew"
        )
    return replace(digits, name="mnist_writers", writers=torch.from_numpy(table[:, WRITER_COLUMN].astype(np.int64)))


def images_and_labels(name: str, parts: dict[str, np.ndarray], classes: tuple[str, ...], folder: Path) -> DataSet:
    """A set of grey images from its four idx files."""
    for part in ("train", "test"):
        images, labels = parts[f"{part}-images"], parts[f"{part}-labels"]
        if images.ndim != 3 or len(images) != len(labels):
            raise DataError(f"{name}: {len(images)} {part} images and {len(labels)} labels in {folder}: not one set")
        if labels.max(initial=0) >= len(classes):
            raise DataError(
                f"{name}: label {labels.max()} among the {part} labels in {folder}, expected 0 to {len(classes) - 1}"
            )
    x, test_x = (torch.from_numpy(parts[f"{p}-images"][:, None].copy()) for p in ("train", "test"))
    y, test_y = (torch.from_numpy(parts[f"{p}-labels"].astype(np.int64)) for p in ("train", "test"))
    return DataSet(name=name, x=x, y=y, test=Batch(x=test_x, y=test_y), classes=classes, source=str(folder))
