"""Data sets: official files as they unpack, real copies complete, and every wrong file refused by name."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from igfl.data import DataError, arrays, cifar10 as cifar, emnist as em, load, mnist as mn, npz, synthetic
from igfl.data.files import Known, read_idx


def idx(values: np.ndarray) -> bytes:
    """LeCun's format, typed out."""
    kind = {1: 0x08, 4: 0x0C}[values.dtype.itemsize]
    header = struct.pack(">BBBB", 0, 0, kind, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(values.dtype.newbyteorder(">")).tobytes()


def test_cifar10_is_complete(real_data: Path) -> None:
    found = load("cifar10", path=real_data)
    assert found.x.shape == (50_000, 3, 32, 32)
    assert found.x.dtype == torch.uint8
    assert found.test.x.shape == (10_000, 3, 32, 32)
    assert found.y.bincount().tolist() == [5_000] * 10
    assert found.test.y.bincount().tolist() == [1_000] * 10
    assert found.classes == tuple((real_data / "cifar-10-batches-bin" / "batches.meta.txt").read_text().split())
    pixels = found.x.to(torch.float64).div_(255)
    mean, spread = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3), correction=0)
    torch.testing.assert_close(
        mean, torch.tensor([0.49139968, 0.48215841, 0.44653091], dtype=torch.float64), atol=5e-9, rtol=0
    )
    torch.testing.assert_close(
        spread, torch.tensor([0.24703223, 0.24348513, 0.26158784], dtype=torch.float64), atol=5e-9, rtol=0
    )


def test_mnist_and_its_writers_are_complete(real_data: Path) -> None:
    found = load("mnist_writers", path=real_data)
    assert found.x.shape == (60_000, 1, 28, 28)
    assert found.test.x.shape == (10_000, 1, 28, 28)
    counts = found.writers.bincount()
    counts = counts[counts > 0]
    assert (len(counts), int(counts.min()), int(counts.max()), int(counts.median())) == (539, 19, 131, 116)
    test_table = read_idx(real_data / "mnist", Known(name="qmnist-test-labels-idx2-int", shape=(60_000, 8)), "mnist")
    others = set(test_table[:10_000, mn.WRITER_COLUMN].tolist())
    assert len(others) == 297
    assert not others & set(found.writers.tolist())
    np.testing.assert_array_equal(test_table[:10_000, 0], found.test.y)


def test_handwritten62_reads_as_anybodys_npz(real_data: Path) -> None:
    found = load("npz", path=real_data / "handwritten62" / "handwritten62_28x28.npz", test=0.2)
    assert len(found.x) + len(found.test.x) == 5_738
    assert len(found.test.x) == round(0.2 * 5_738)
    assert len(found.classes) == 62
    assert found.shape == (28, 28)


def small_mnist(folder: Path, packed: bool) -> dict[str, Known]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    known = {}
    for part, name, shape in (
        ("train-images", "train-images-idx3-ubyte", (7, 28, 28)), ("train-labels", "train-labels-idx1-ubyte", (7,)),
        ("test-images", "t10k-images-idx3-ubyte", (3, 28, 28)), ("test-labels", "t10k-labels-idx1-ubyte", (3,)),
    ):  # fmt: skip
        content = idx(rng.integers(0, 10, shape, dtype=np.uint8))
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
        known[part] = Known(name=name, shape=shape, sha256=hashlib.sha256(content).hexdigest())
    return known


@pytest.mark.parametrize("packed", [True, False], ids=["gzipped", "plain"])
@pytest.mark.parametrize("folder", ["mnist", ""], ids=["in_its_folder", "given_itself"])
def test_mnist_reads_idx(tmp_path: Path, packed: bool, folder: str) -> None:
    known = small_mnist(tmp_path / "data" / folder, packed)
    found = mn.mnist(tmp_path / "data", known)
    assert found.x.shape == (7, 1, 28, 28)
    assert found.test.y.shape == (3,)


def test_emnist_turns_its_images(tmp_path: Path) -> None:
    """Byte for byte: pixel (row, column) of a character is stored at (column, row)."""
    rng = np.random.default_rng(1)
    images = {
        "train": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "test": rng.integers(0, 256, (2, 28, 28), dtype=np.uint8),
    }
    labels = {"train": np.array([0, 61, 10, 35, 36], np.uint8), "test": np.array([1, 2], np.uint8)}
    folder = tmp_path / "emnist" / "gzip"
    folder.mkdir(parents=True)
    known = {}
    for part in ("train", "test"):
        for kind, values, suffix in (("images", images[part].swapaxes(1, 2), "idx3"), ("labels", labels[part], "idx1")):
            name = f"emnist-byclass-{part}-{kind}-{suffix}-ubyte"
            content = gzip.compress(idx(np.ascontiguousarray(values)))
            (folder / f"{name}.gz").write_bytes(content)
            known[f"{part}-{kind}"] = Known(
                name=name, shape=values.shape, packed_sha256=hashlib.sha256(content).hexdigest()
            )
    found = em.emnist(tmp_path, known=known)
    np.testing.assert_array_equal(found.x[:, 0], images["train"])
    np.testing.assert_array_equal(found.test.x[:, 0], images["test"])
    assert [found.classes[k] for k in found.y] == ["0", "z", "A", "Z", "a"]
    with pytest.raises(DataError, match="corrupt or not the official file"):
        em.emnist(tmp_path)  # held to the official hashes


def test_emnist_knows_the_official_files(real_data: Path) -> None:
    lines = (real_data / "emnist" / "OFFICIAL-CHECKSUMS.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    official = {name.removeprefix("gzip/"): digest for digest, _, name in rows if name.startswith("gzip/")}
    ours = {f"{known.name}.gz": known.packed_sha256 for split in em.CLASSES for known in em.known_files(split).values()}
    assert ours == official
    mapping = [
        int(line.split()[1]) for line in (real_data / "emnist" / "emnist-byclass-mapping.txt").read_text().splitlines()
    ]
    assert [ord(c) for c in em.CLASSES["byclass"]] == mapping


def small_cifar(folder: Path, pickled: bool, rows: int = 4) -> tuple[dict[str, Known], np.ndarray]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    known, everything = {}, []
    for name in cifar.KNOWN:
        records = np.concatenate([rng.integers(0, 10, (rows, 1)), rng.integers(0, 256, (rows, 3072))], axis=1).astype(
            np.uint8
        )
        everything.append(records)
        known[name] = Known(name=f"{name}.bin", size=records.size, sha256=hashlib.sha256(records.tobytes()).hexdigest())
        if pickled:
            batch = {
                b"batch_label": b"some",
                b"labels": records[:, 0].tolist(),
                b"data": records[:, 1:],
                b"filenames": [b"a.png"],
            }
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            (folder / f"{name}.bin").write_bytes(records.tobytes())
    return known, np.concatenate(everything)


@pytest.mark.parametrize("pickled", [True, False])
def test_both_archives_of_cifar10_read_alike(tmp_path: Path, pickled: bool) -> None:
    known, records = small_cifar(tmp_path / (cifar.PICKLED if pickled else cifar.BINARY), pickled)
    found = cifar.cifar10(tmp_path, known)
    np.testing.assert_array_equal(torch.cat([found.y, found.test.y]), records[:, 0])
    np.testing.assert_array_equal(torch.cat([found.x, found.test.x]).flatten(1), records[:, 1:])


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_pickle_is_read_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, _ = small_cifar(tmp_path / cifar.PICKLED, pickled=True)
    (tmp_path / cifar.PICKLED / "data_batch_2").write_bytes(pickle.dumps({b"labels": Evil()}))
    with pytest.raises(DataError, match=r"data_batch_2: .*asks for .*print.*igfl data fetch cifar10"):
        cifar.cifar10(tmp_path, known)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", list(cifar.KNOWN))
def test_a_damaged_cifar10_is_refused(tmp_path: Path, real_data: Path, name: str) -> None:
    folder = tmp_path / cifar.BINARY
    folder.mkdir()
    for other in cifar.KNOWN:
        (folder / f"{other}.bin").symlink_to(real_data / cifar.BINARY / f"{other}.bin")
    victim = folder / f"{name}.bin"
    content = victim.read_bytes()
    victim.unlink()
    with pytest.raises(DataError, match="fetch cifar10"):
        load("cifar10", path=tmp_path)
    victim.write_bytes(content[:-1])
    with pytest.raises(
        DataError,
        match=rf"{name}.bin: truncated: expected 30,730,000 bytes, found 30,729,999; mend",
    ):
        load("cifar10", path=tmp_path)
    victim.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    with pytest.raises(DataError, match=rf"{name}.bin: corrupt or not the official file: expected sha256"):
        load("cifar10", path=tmp_path)
    victim.write_bytes(content + b"\0")
    with pytest.raises(DataError, match="not the official file"):
        load("cifar10", path=tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
        "qmnist-train-labels-idx2-int",
    ],
)
def test_a_damaged_mnist_is_refused(tmp_path: Path, real_data: Path, name: str) -> None:
    shutil.copytree(real_data / "mnist", tmp_path / "mnist")
    victim = tmp_path / "mnist" / f"{name}.gz"
    victim.chmod(0o644)
    victim.parent.chmod(0o755)
    content = victim.read_bytes()
    victim.write_bytes(content[:-10])
    with pytest.raises(DataError, match=rf"{name}.gz: truncated or corrupt"):
        load("mnist_writers", path=tmp_path)
    unpacked = bytearray(gzip.decompress(content))
    victim.unlink()
    plain = tmp_path / "mnist" / name
    plain.write_bytes(bytes(unpacked[:-4]))
    with pytest.raises(DataError, match=rf"{name}: corrupt or not the official file"):
        load("mnist_writers", path=tmp_path)
    unpacked[-1] ^= 1
    plain.write_bytes(bytes(unpacked))
    with pytest.raises(DataError, match=rf"{name}: corrupt or not the official file"):
        load("mnist_writers", path=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file: begins with nothing"),
        (b"\x89PNG....", "not an idx file: begins with 89504e47"),
        (idx(np.zeros((3, 4), np.uint8))[:-1], r"truncated: its header says \(3, 4\), 11 values follow"),
        (idx(np.zeros((3, 4), np.uint8))[:7], "truncated"),
        (idx(np.zeros((4, 3), np.uint8)), r"expected shape \(3, 4\), found \(4, 3\)"),
    ],
)
def test_what_is_not_an_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path, Known(name="file", shape=(3, 4)), "mnist")


def test_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        place: small_mnist(tmp_path / place / "mnist", packed=True) for place in ("given", "environment", "cache/igfl")
    }["given"]
    monkeypatch.setenv("IGFL_DATA_DIR", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert mn.mnist(tmp_path / "given", known).source == str(tmp_path / "given" / "mnist")
    assert mn.mnist(known=known).source == str(tmp_path / "environment" / "mnist")
    monkeypatch.delenv("IGFL_DATA_DIR")
    assert mn.mnist(known=known).source == str(tmp_path / "cache" / "igfl" / "mnist")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(
        DataError, match="mnist: no train-images-idx3-ubyte in .*nowhere.*igfl data fetch mnist.*IGFL_DATA_DIR"
    ):
        mn.mnist(known=known)


def test_digits_come_with_scikit_learn() -> None:
    found = load("digits")
    assert (len(found.x), len(found.test.x), found.shape) == (1_437, 360, (1, 8, 8))
    assert float(found.x.max()) == 1
    assert set(found.y.tolist()) == set(range(10))


def test_ones_own_arrays(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20, dtype=np.uint8) % 4
    found = arrays(x, y, (x[:5], y[:5]))
    assert found.y.dtype == torch.int64
    assert found.classes == ("0", "1", "2", "3")
    np.savez(tmp_path / "own.npz", x=x, y=y, x_test=x[:5], y_test=y[:5])
    np.testing.assert_array_equal(npz(tmp_path / "own.npz").test.x, x[:5])
    np.savez(tmp_path / "whole.npz", x=x, y=y)
    whole = npz(tmp_path / "whole.npz", test=0.25, seed=1)
    rows = torch.cat([whole.x, whole.test.x])
    assert len(whole.test.x) == 5
    assert sorted(rows[:, 0].tolist()) == sorted(x[:, 0].tolist())
    with pytest.raises(ValueError, match="training rows are"):
        arrays(x, y, (x[:5, :2], y[:5]))
    with pytest.raises(DataError, match="no file"):
        npz(tmp_path / "absent.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    with pytest.raises(DataError, match=r"cut.npz: not a whole .npz"):
        npz(tmp_path / "cut.npz")
    np.savez(tmp_path / "odd.npz", images=x)
    with pytest.raises(DataError, match="no array 'x', it has images"):
        npz(tmp_path / "odd.npz")
    buffer = io.BytesIO()
    np.savez(buffer, x=np.array([{}], dtype=object), y=y)
    (tmp_path / "objects.npz").write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match="plain arrays"):
        npz(tmp_path / "objects.npz")


def test_synthetic_is_by_argument_and_learnable() -> None:
    found = synthetic((1, 28, 28), classes=62, rows=500, test_rows=50, seed=3)
    assert (found.x.shape, found.test.x.shape, len(found.classes)) == ((500, 1, 28, 28), (50, 1, 28, 28), 62)
    assert torch.equal(found.x, synthetic((1, 28, 28), classes=62, rows=500, test_rows=50, seed=3).x)
    centres = torch.stack([found.x[found.y == k].mean(0) for k in range(62)]).flatten(1)
    nearest = torch.cdist(found.test.x.flatten(1), centres).argmin(1)
    assert (nearest == found.test.y).double().mean() > 0.9


def test_names() -> None:
    with pytest.raises(ValueError, match="data='cifr10': unknown, did you mean cifar10"):
        load("cifr10")
    with pytest.raises(ValueError, match="cannot import nowhere"):
        load("nowhere:at_all")
    with pytest.raises(ValueError, match="has no 'nothing'"):
        load("igfl.data.sets:nothing")
    with pytest.raises(ValueError, match="data='synthetic'.*colour"):
        load("synthetic", colour=1)
    assert load("igfl.data.sets:synthetic", rows=10).name == "synthetic"
