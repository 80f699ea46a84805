"""CIFAR-10 (Krizhevsky 2009), from its binary archive or its python one, as they unpack."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from igfl.data.files import DataError, Known, find_folder, read_known
from igfl.data.sets import DataSet
from igfl.types import Batch

RECORD = 1 + 3 * 32 * 32  # a label, then the pixels, channel by channel
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY, PICKLED = "cifar-10-batches-bin", "cifar-10-batches-py"

_SHA256 = {  # of each batch's 10,000 records
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
KNOWN = {batch: Known(name=f"{batch}.bin", size=10_000 * RECORD, sha256=digest) for batch, digest in _SHA256.items()}


def cifar10(path: str | Path | None = None, known: dict[str, Known] = KNOWN) -> DataSet:
    """50,000 and 10,000 colour images of 32x32, in ten classes."""
    try:
        folder = find_folder("cifar10", "data_batch_1.bin", [BINARY], path)
    except DataError as refusal:
        try:
            folder = find_folder("cifar10", "data_batch_1", [PICKLED], path)
        except DataError:
            raise refusal from None
    pickled = not (folder / "data_batch_1.bin").is_file()
    rows = sum((batch.size or 0) // RECORD for batch in known.values())
    x, y = np.empty((rows, 3, 32, 32), np.uint8), np.empty(rows, np.int64)
    end = 0
    for name, batch in known.items():
        content = _records_of_pickle(folder / name, batch) if pickled else read_known(folder, batch, "cifar10")
        records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
        start, end = end, end + len(records)
        y[start:end] = records[:, 0]
        x[start:end] = records[:, 1:].reshape(-1, 3, 32, 32)
    if y.max(initial=0) > 9:
        raise DataError(f"{folder}: label {y.max()} among the records, CIFAR-10 has 0 to 9; `igfl data fetch cifar10`")
    train = rows - (known["test_batch"].size or 0) // RECORD
    test = Batch(x=torch.from_numpy(x[train:]), y=torch.from_numpy(y[train:]))
    return DataSet(
        name="cifar10", x=torch.from_numpy(x[:train]), y=torch.from_numpy(y[:train]), test=test, classes=CLASSES,
        source=str(folder),
    )  # fmt: skip


def _records_of_pickle(path: Path, known: Known) -> bytes:
    """The python archive's batch as the binary archive's records, and held to the same hash."""
    cure = "mend it with `igfl data fetch cifar10`"
    if not path.is_file():
        raise DataError(f"{path}: missing; {cure}")
    try:
        batch = _Arrays(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        labels, pixels = np.asarray(batch[b"labels"], np.uint8), np.asarray(batch[b"data"], np.uint8)
        content = np.concatenate([labels[:, None], pixels.reshape(len(labels), RECORD - 1)], axis=1).tobytes()
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"{path}: truncated, corrupt or not a CIFAR-10 batch ({error}); {cure}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != known.sha256:
        raise DataError(
            f"{path}: corrupt or not the official batch: records of sha256 {found}, expected {known.sha256}; {cure}"
        )
    return content


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _Arrays(pickle.Unpickler):
    """Reads pickles of plain values and numpy arrays, and runs nothing else that they name."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core")
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a CIFAR-10 batch has no use for")
        return _reconstruct if name == "_reconstruct" else super().find_class(module, name)


def _reconstruct(_kind: type, shape: tuple[int, ...], dtype: bytes) -> Any:
    return np.ndarray(shape, np.dtype(dtype.decode()))  # numpy's own has moved from module to module
