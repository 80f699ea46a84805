"""What makes two runs equal: a chain of hashes over their rounds, and hashes that tell what differs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from igfl.types import ServerState, Task, Vec

SHORT = 12  # hexadecimal digits of a hash that only has to tell one array from another


@dataclass(frozen=True, slots=True)
class Chain:
    """head <- SHA-256(head, round, parameters): equal where and only where all rounds so far were."""

    head: str = ""

    def after(self, state: ServerState, task: Task) -> Chain:
        """The chain, one round longer."""
        digest = hashlib.sha256(self.head.encode() + state.round.to_bytes(8, "little"))
        for name, tensor in named(task, state.params).items():
            digest.update(name.encode())
            digest.update(content(tensor))
        return Chain(digest.hexdigest())


def named(task: Task, params: Vec) -> Mapping[str, Tensor]:
    """The parameters as the model's tensors, in their own order of dimensions; or as the one vector they are."""
    names = getattr(task, "named", None)
    return {"params": params} if names is None else names(params)


def content(tensor: Tensor) -> memoryview:
    """A tensor's bytes, in its logical order."""
    return tensor.detach().contiguous().cpu().numpy().data


def short_hashes(state: ServerState, task: Task) -> dict[str, str]:
    """A short hash of each tensor and each of the server's arrays, by name."""
    arrays = {f"params/{name}": tensor for name, tensor in named(task, state.params).items()}
    for kind, group in (("shared", state.shared), ("optimizer", state.optimizer)):
        arrays |= {f"{kind}/{name}": array for name, array in group.items()}
    return {name: hashlib.sha256(content(array)).hexdigest()[:SHORT] for name, array in arrays.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs part: the first round, and the first array of it that differs, where rows say so."""

    round: int
    array: str | None


def first_difference(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> Difference | None:
    """The first row, of those that both have, whose chain or hashes differ."""
    for a, b in zip(one, other, strict=False):
        if a["digest"] != b["digest"]:
            hashes, others = a.get("hashes", {}), b.get("hashes", {})
            names = [name for name in hashes if hashes[name] != others.get(name)]
            return Difference(int(a["round"]), names[0] if names else None)
    return None
