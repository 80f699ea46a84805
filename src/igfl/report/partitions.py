"""A partition as a picture: clients by classes, as bubbles and as stacked bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from igfl.streams import Ints

SHOWN = 100  # clients in one picture; more would not be seen


def draw_partition(counts: Ints, classes: Sequence[str], title: str, path: str | Path) -> list[Path]:
    """Draw counts [clients, classes] into path.png and path.svg; of many clients, evenly spaced ones."""
    chosen = np.unique(np.linspace(0, len(counts) - 1, min(SHOWN, len(counts))).astype(int))
    note = f", {len(chosen)} of {len(counts)} clients shown" if len(chosen) < len(counts) else ""
    wide = float(np.clip(0.14 * len(chosen) + 3, 7, 16))
    tall = float(np.clip(0.22 * len(classes) + 1, 3, 12))
    figure = Figure(figsize=(wide, tall + 3.6), layout="constrained")
    bubbles, bars = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [tall, 2.6]})
    figure.suptitle(title + note, fontsize=11)
    _bubbles(bubbles, counts[chosen], classes, wide)
    _bars(bars, counts[chosen], classes)
    step = max(1, len(chosen) // 20)
    bars.set_xticks(range(0, len(chosen), step), [str(client) for client in chosen[::step]], fontsize=8)
    bars.set_xlabel("client")
    paths = [Path(f"{path}.{kind}") for kind in ("png", "svg")]
    for target in paths:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=110, metadata={"Date": None} if target.suffix == ".svg" else None)
    return paths


def _bubbles(axes: Axes, counts: Ints, classes: Sequence[str], wide: float) -> None:
    client, label = np.nonzero(counts)
    widest = min(18.0, 60 * wide / len(counts))  # points: neighbours touch at the most
    area = counts[client, label] / max(counts.max(), 1) * widest**2
    axes.scatter(client, label, s=area, color="#0072b2", alpha=0.75, linewidths=0)
    axes.set_yticks(range(len(classes)), list(classes), fontsize=8 if len(classes) <= 20 else 5)
    axes.set_ylim(len(classes) - 0.4, -0.6)
    axes.set_xlim(-0.7, len(counts) - 0.3)
    axes.set_ylabel("class")
    axes.set_title(f"area: examples, the largest bubble {counts.max()}", fontsize=8, loc="right")
    axes.grid(visible=True, color="#dddddd", linewidth=0.4)
    axes.set_axisbelow(True)


def _bars(axes: Axes, counts: Ints, classes: Sequence[str]) -> None:
    colours = colormaps["viridis"](np.linspace(0, 1, len(classes)))  # also in grey from dark to light
    ground = np.zeros(len(counts), np.int64)
    for k, name in enumerate(classes):
        axes.bar(range(len(counts)), counts[:, k], bottom=ground, color=colours[k], width=0.9, label=name)
        ground += counts[:, k]
    axes.set_ylabel("examples")
    if len(classes) <= 12:
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
