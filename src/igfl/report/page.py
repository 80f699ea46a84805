"""One self-contained page: its style, its program and its data in one file that asks nobody for anything."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import igfl


def page(title: str, content: Mapping[str, Any]) -> str:
    """The page of what was gathered."""
    parts = files("igfl.report") / "assets"
    told = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    made = (parts / "page.html").read_text()
    for mark, text in (
        ("__STYLE__", (parts / "page.css").read_text()), ("__SCRIPT__", (parts / "page.js").read_text()),
        ("__TITLE__", html.escape(title)), ("__FOOTER__", html.escape(f"igfl {igfl.__version__}")), ("__DATA__", told),
    ):  # fmt: skip
        made = made.replace(mark, text)
    return made


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are nothing there."""
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
