"""Scikit-learn's handwritten digits: 1,797 images of 8x8, small enough to come with a package (extra: igfl[digits])."""

from __future__ import annotations

import numpy as np
import torch

from igfl.data.sets import DataSet
from igfl.streams import stream
from igfl.types import Batch

TEST_ROWS = 360


def digits() -> DataSet:
    """1,437 images to train on and 360 to test, chosen once and for all; the test set has no seed to choose."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ValueError("data='digits' comes with scikit-learn: pip install 'igfl[digits]'") from error
    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((images / 16).astype(np.float32)).view(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy(stream(0, "digits test").permutation(len(x)))
    test, train = order[:TEST_ROWS].sort().values, order[TEST_ROWS:].sort().values
    return DataSet(
        name="digits", x=x[train], y=y[train], test=Batch(x=x[test], y=y[test]), classes=tuple("0123456789"),
        source="scikit-learn",
    )  # fmt: skip
