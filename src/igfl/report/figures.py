"""Figures for papers: curves and matrices, readable in grey and by the colour-blind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from igfl.data.partitions.passport import Floats

KINDS = ("pdf", "svg", "png")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a5195", "#6b7280")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (7, 3)),
    (0, (2, 3)),
    (0, (10, 3, 2, 3)),
    (0, (4, 2)),
    (0, (1, 2)),
    (0, (12, 4)),
    "-.",
)
MARKS = "osD^vPX*"
Curve = tuple[Sequence[float], Sequence[float]]


def draw_curves(
    groups: Mapping[str, Sequence[Curve]], path: Path, *, along: str, of: str, title: str = ""
) -> list[Path]:
    """A line a group, the mean of its curves, with a band from the lowest to the highest."""
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.subplots()
    for i, (name, curves) in enumerate(groups.items()):
        xs = np.asarray(max(curves, key=lambda curve: (curve[0][-1], len(curve[0])))[0], float)
        ys = np.array([np.interp(xs, np.asarray(x), np.asarray(y), left=np.nan, right=np.nan) for x, y in curves])
        colour, mean = COLOURS[i % len(COLOURS)], np.nanmean(ys, 0)
        axes.plot(
            xs, mean, label=name, color=colour, linestyle=DASHES[i % len(DASHES)], linewidth=1.7,
            marker=MARKS[i % len(MARKS)], markevery=(i, max(1, len(xs) // 8)), markersize=4,
        )  # fmt: skip
        if len(curves) > 1:
            axes.fill_between(xs, np.nanmin(ys, 0), np.nanmax(ys, 0), color=colour, alpha=0.18, linewidth=0)
    axes.set(xlabel=along, ylabel=of)
    axes.set_title(fill(title, 95), fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False, ncols=2 if len(groups) > 4 else 1)
    return saved(figure, path)


def draw_matrices(matrices: Mapping[str, Floats], path: Path, *, title: str = "") -> list[Path]:
    """Attention among clients, one square a population: the darker, the more."""
    figure = Figure(figsize=(3.4 * len(matrices) + 0.6, 3.6), layout="constrained")
    figure.suptitle(fill(title, 45 * len(matrices)), fontsize=9)
    for axes, (name, matrix) in zip(np.ravel(figure.subplots(1, len(matrices), squeeze=False)), matrices.items()):
        _heat(axes, matrix, name)
    return saved(figure, path)


def _heat(axes: Axes, matrix: Floats, name: str) -> None:
    image = axes.imshow(matrix, cmap="Blues")
    axes.set_title(name, fontsize=9)
    step = max(1, len(matrix) // 10)
    axes.set_xticks(range(0, len(matrix), step))
    axes.set_yticks(range(0, len(matrix), step))
    axes.set(xlabel="key: client", ylabel="query: client")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


def saved(figure: Figure, path: Path) -> list[Path]:
    """The figure in all kinds, under a path without ending; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_name(f"{path.name}.{kind}") for kind in KINDS]
    dated: Mapping[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    with rc_context({"svg.hashsalt": "igfl"}):
        for kind, target in zip(KINDS, paths, strict=True):
            figure.savefig(target, dpi=160, metadata=dated[kind])
    return paths
