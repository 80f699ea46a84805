"""What stands in for EMNIST where its files are not at hand: another set of 62 handwritten classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from igfl.data.files import DataError, find_folder
from igfl.data.sets import DataSet, npz
from igfl.types import Batch

FILE = "handwritten62_28x28.npz"


def handwritten62(path: str | Path | None = None) -> DataSet:
    """Characters of 28x28 in 62 classes, a tenth of them for testing. It is not EMNIST."""
    folder = find_folder("handwritten62", FILE, ["handwritten62"], path)
    found = npz(folder / FILE)
    return replace(
        found, name="handwritten62", x=found.x[:, None], test=Batch(x=found.test.x[:, None], y=found.test.y),
        source=str(folder),
    )  # fmt: skip


def at_hand() -> str:
    """`emnist` where its files are there, else the stand-in's place among factories."""
    from igfl.data.emnist import FOLDERS, known_files

    try:
        find_folder("emnist", known_files("byclass")["train-images"].name, FOLDERS, None)
    except DataError:
        return "igfl.paper.stand_in:handwritten62"
    return "emnist"
