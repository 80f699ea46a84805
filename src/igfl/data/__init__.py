"""Data: what there is, who holds which rows of it."""

from igfl.data.federation import Federation
from igfl.data.files import DataError
from igfl.data.partitions import (
    IID,
    Dirichlet,
    Explicit,
    Partition,
    Proportions,
    Quantity,
    Shards,
    Writers,
    partition,
)
from igfl.data.sets import DATASETS, DataSet, arrays, load, npz, synthetic

__all__ = [
    "DATASETS", "IID", "DataError", "DataSet", "Dirichlet", "Explicit", "Federation", "Partition", "Proportions",
    "Quantity", "Shards", "Writers", "arrays", "load", "npz", "partition", "synthetic",
]  # fmt: skip
