"""Files of data: where they are found, how they are read, and how a wrong one is refused."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ENVIRONMENT = "IGFL_DATA_DIR"
_IDX_TYPES = {0x08: ">u1", 0x0C: ">i4"}


class DataError(ValueError):
    """A data file that is missing, truncated, corrupt or another one: which, what was expected, and the cure."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a file of an official data set; hashes and sizes are of the unpacked bytes unless named so."""

    name: str
    size: int | None = None
    sha256: str | None = None
    shape: tuple[int, ...] | None = None  # of an idx file
    packed_sha256: str | None = None


def cache_folder() -> Path:
    """Where `igfl data fetch` puts data sets."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "igfl"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "igfl" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME", home / ".cache")) / "igfl"


def find_folder(set_name: str, file: str, subfolders: Sequence[str], path: str | Path | None) -> Path:
    """The folder that holds `file`, packed or not: the path given, or IGFL_DATA_DIR, or the cache folder."""
    if path is not None:
        roots = [Path(path)]
    else:
        roots = [Path(os.environ[ENVIRONMENT])] if os.environ.get(ENVIRONMENT) else []
        roots.append(cache_folder())
    for root in roots:
        for folder in (root, *(root / sub for sub in subfolders)):
            if (folder / file).is_file() or (folder / f"{file}.gz").is_file():
                return folder
    looked = ", ".join(map(str, roots))
    raise DataError(
        f"{set_name}: no {file} in {looked} (or {subfolders[0]}/ there): get it with `igfl data fetch {set_name}`, "
        f"or set {ENVIRONMENT} to the folder that has it"
    )


def read_known(folder: Path, known: Known, set_name: str) -> bytes:
    """The whole unpacked file, or a refusal."""
    plain, packed = folder / known.name, folder / f"{known.name}.gz"
    path = plain if plain.is_file() else packed
    cure = f"mend it with `igfl data fetch {set_name}`"
    if not path.is_file():
        raise DataError(f"{plain}: missing; {cure}")
    content = path.read_bytes()
    if path is packed:
        if known.packed_sha256:
            _check_hash(path, content, known.packed_sha256, cure)
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: truncated or corrupt ({error}); {cure}") from error
    if known.size is not None and len(content) != known.size:
        what = "truncated" if len(content) < known.size else "not the official file"
        raise DataError(f"{path}: {what}: expected {known.size:,} bytes, found {len(content):,}; {cure}")
    if known.sha256:
        _check_hash(path, content, known.sha256, cure)
    return content


def read_idx(folder: Path, known: Known, set_name: str) -> NDArray[np.generic]:
    """An idx file (LeCun's format: 0, 0, type, dimensions, sizes, values), gzipped or not."""
    content = read_known(folder, known, set_name)
    path, cure = folder / known.name, f"mend it with `igfl data fetch {set_name}`"
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise DataError(f"{path}: not an idx file: begins with {content[:4].hex() or 'nothing'}; {cure}")
    start, kind = 4 + 4 * content[3], np.dtype(_IDX_TYPES[content[2]])
    if len(content) < start or (len(content) - start) % kind.itemsize:
        raise DataError(f"{path}: truncated: it ends within a number; {cure}")
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    values = np.frombuffer(content, kind, offset=start)
    if values.size != np.prod(shape, dtype=np.int64):
        raise DataError(f"{path}: truncated: its header says {shape}, {values.size:,} values follow; {cure}")
    if known.shape is not None and shape != known.shape:
        raise DataError(f"{path}: not the official file: expected shape {known.shape}, found {shape}; {cure}")
    return values.reshape(shape)


def _check_hash(path: Path, content: bytes, expected: str, cure: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(f"{path}: corrupt or not the official file: expected sha256 {expected}, found {found}; {cure}")
