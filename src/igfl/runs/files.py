"""Files that are whole or not there: written beside, flushed to the disk, then renamed; and checked when read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from igfl.exact import aligned_arrays
from igfl.types import Arrays

SEAL = "sha256"


class Broken(Exception):  # noqa: N818  # what it is
    """A file or a row that is not what was written."""


def write_whole(path: Path, content: bytes) -> None:
    """After this the file has this content, or, whatever happens meanwhile, the one it had before."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pack(arrays: Arrays, facts: Mapping[str, str] | None = None) -> bytes:
    """Arrays as one safetensors file; with facts, a hash of all that goes with them."""
    plain: dict[str, Tensor] = {}
    for name, array in arrays.items():  # safetensors refuses arrays that share memory, which a method may well return
        one = array.detach().contiguous().cpu()
        shared = any(one.data_ptr() == other.data_ptr() for other in plain.values())
        plain[name] = (
            one.clone() if shared or one.numel() < one.untyped_storage().nbytes() // one.element_size() else one
        )
    return safetensors.torch.save(plain, None if facts is None else {**facts, SEAL: _seal(plain, facts)})


def unpack(content: bytes) -> Arrays:
    """The arrays, each aligned."""
    try:
        return aligned_arrays(safetensors.torch.load(content))
    except (safetensors.SafetensorError, ValueError) as error:
        raise Broken(f"cut short or overwritten ({error})") from error


def unpack_sealed(content: bytes) -> tuple[Arrays, dict[str, str]]:
    """The arrays and the facts, refused where they are not what was packed."""
    arrays = unpack(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts: dict[str, str] = header.get("__metadata__", {})
    if facts.pop(SEAL, "") != _seal(arrays, facts):
        raise Broken("its content is not what was written")
    return arrays, facts


def _seal(arrays: Arrays, facts: Mapping[str, str]) -> str:
    digest = sha256(json.dumps(sorted(facts.items())).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}{array.dtype}{tuple(array.shape)}".encode())
        digest.update(array.numpy().data)
    return digest.hexdigest()
