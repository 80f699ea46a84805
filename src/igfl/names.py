"""Names of things: those we know, and any importable `package.module:factory`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """The one-line refusal of a name, with the nearest known one."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
    return ValueError(f"{kind}={name!r}: unknown, {hint}")


def named(kind: str, name: str, homes: Mapping[str, str]) -> Any:
    """What a name stands for: one of `homes`, name -> `package.module:factory`, or such a place itself."""
    place = homes.get(name, name)
    module, colon, factory = place.partition(":")
    if not colon:
        raise unknown(kind, name, homes)
    try:
        found = import_module(module)
    except ImportError as error:
        raise ValueError(f"{kind}={name!r}: cannot import {module}: {error}") from error
    if not hasattr(found, factory):
        raise ValueError(f"{kind}={name!r}: {module} has no {factory!r}")
    return getattr(found, factory)
