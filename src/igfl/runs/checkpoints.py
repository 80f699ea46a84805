"""A checkpoint as one small file: the server's state, the digest, and where every client's memory is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from igfl.runs.digest import Chain
from igfl.runs.files import pack, unpack_sealed
from igfl.types import Arrays, ServerState

Row: TypeAlias = tuple[int, bytes]  # the round of a client's row, and the SHA-256 of its data


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All there is to go on from."""

    state: ServerState
    chain: Chain
    facts: Mapping[str, str]
    skipped: tuple[str, ...] = ()  # newer checkpoints that could not be used, and why


def packed(state: ServerState, chain: Chain, facts: Mapping[str, str], named: Mapping[int, Row]) -> bytes:
    """The file's content; `named` are the rows of the clients' memories."""
    clients = sorted(named)
    arrays = {"params": state.params}
    for kind, group in (("shared", state.shared), ("optimizer", state.optimizer)):
        arrays |= {f"{kind}/{name}": array for name, array in group.items()}
    arrays["memories/clients"] = torch.tensor(clients, dtype=torch.int64)
    arrays["memories/rounds"] = torch.tensor([named[client][0] for client in clients], dtype=torch.int64)
    hashes = np.frombuffer(b"".join(named[client][1] for client in clients), np.uint8).reshape(-1, 32)
    arrays["memories/sha256"] = torch.from_numpy(hashes.copy())
    return pack(arrays, {**facts, "round": str(state.round), "digest": chain.head})


def read(path: Path) -> tuple[Checkpoint, dict[int, Row]]:
    """What was packed; refused as broken where it is not that."""
    arrays, facts = unpack_sealed(path.read_bytes())
    state = ServerState(
        round=int(facts["round"]), params=arrays["params"], shared=_group(arrays, "shared"),
        optimizer=_group(arrays, "optimizer"),
    )  # fmt: skip
    clients, rounds = arrays["memories/clients"].tolist(), arrays["memories/rounds"].tolist()
    hashes = arrays["memories/sha256"].numpy()
    named = {client: (r, hashes[i].tobytes()) for i, (client, r) in enumerate(zip(clients, rounds, strict=True))}
    return Checkpoint(state=state, chain=Chain(facts["digest"]), facts=facts), named


def _group(arrays: Arrays, kind: str) -> Arrays:
    return {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{kind}/")}
