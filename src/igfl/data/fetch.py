"""Downloads of the official archives (extra: igfl[data]): checked, resumed where they broke off, from mirrors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from igfl.data.files import DataError, cache_folder
from igfl.data.sets import DataSet, load
from igfl.names import unknown

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all where known


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file to download: its mirrors, the hash of what arrives, how it is unpacked, into which folder."""

    urls: tuple[str, ...]
    folder: str = ""
    hash: str | None = None  # None: held to the hash of its unpacked content when it is read
    unpack: Literal["tar", "zip"] | None = None

    @property
    def file(self) -> str:
        """The name of what is downloaded."""
        return self.urls[0].rpartition("/")[2]


def _mnist(name: str, md5: str) -> Source:
    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    return Source(urls=tuple(mirror + name for mirror in mirrors), folder="mnist", hash=f"md5:{md5}")


_MNIST = (
    _mnist("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    _mnist("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    _mnist("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    _mnist("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
)
_QMNIST = Source(
    urls=("https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",),
    folder="mnist",
)
SOURCES: dict[str, tuple[Source, ...]] = {
    "cifar10": (
        Source(
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            hash="md5:c32a1d4ab5d03f1284b67883e8d87530",
            unpack="tar",
        ),
    ),
    "mnist": _MNIST,
    "mnist_writers": (*_MNIST, _QMNIST),
    "emnist": (
        Source(
            urls=("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
            folder="emnist",
            hash="md5:58c8d27c78d21e728a6bc7b3cc06412e",
            unpack="zip",
        ),
    ),
}


def fetch(
    name: str,
    folder: str | Path | None = None,
    *,
    sources: Sequence[Source] | None = None,
    progress: Progress | None = None,
    read: Callable[..., DataSet] | None = None,
) -> DataSet:
    """Download what is not there yet, unpack it, and read the whole set once: it is what it should be, or refused."""
    if sources is None:
        if name not in SOURCES:
            raise unknown("data", name, SOURCES)
        sources = SOURCES[name]
    root = Path(folder) if folder else cache_folder()
    for source in sources:
        _download(source, root / source.folder, progress)
    return read(path=root) if read else load(name, path=root)


def _download(source: Source, folder: Path, progress: Progress | None) -> None:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise ValueError("downloads need pooch: pip install 'igfl[data]'") from error
    pooch.get_logger().setLevel("WARNING")
    unpackers: dict[str | None, Any] = {"tar": pooch.Untar, "zip": pooch.Unzip}
    unpack = unpackers[source.unpack](extract_dir=".") if source.unpack else None
    failures = []
    for url in source.urls:
        try:
            pooch.retrieve(
                url, source.hash, fname=source.file, path=folder, processor=unpack,
                downloader=_Resuming(folder / f"{source.file}.part", progress),
            )  # fmt: skip
            return
        except (requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{url}: {' '.join(str(error).split())[:200]}")
    raise DataError(f"cannot download {source.file}; run the same command again to go on. {'; '.join(failures)}")


@dataclass(frozen=True)
class _Resuming:
    """A downloader for pooch that keeps what has arrived, and asks only for the rest next time."""

    part: Path
    progress: Progress | None

    def __call__(self, url: str, output_file: Any, _pooch: Any) -> None:
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with requests.get(url, headers=headers, stream=True, timeout=30) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()  # longer than the file: begun from another one
                return self(url, output_file, _pooch)
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            with self.part.open("ab" if have else "wb") as file:
                for chunk in response.iter_content(chunk_size=1 << 16):
                    file.write(chunk)
                    have += len(chunk)
                    if self.progress:
                        self.progress(self.part.stem, have, total)
        return self._hand_over(output_file)

    def _hand_over(self, output_file: Any) -> None:
        shutil.move(self.part, output_file)
