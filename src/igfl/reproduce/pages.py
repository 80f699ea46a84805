"""What a reproduction leaves beside its records: every table in three forms, the figures, and the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from igfl.paper.claims import CLAIMS
from igfl.paper.experiments import FIGURES
from igfl.paper.scales import Scale
from igfl.reproduce.layout import Layout, as_csv, as_latex, as_markdown, laid_out, verdicts_as_markdown
from igfl.reproduce.show import draw
from igfl.reproduce.verdicts import Look, Verdict, verdict_of


@dataclass(frozen=True)
class Published:
    """What was laid out and judged."""

    layouts: Sequence[Layout]
    verdicts: Sequence[Verdict]


def judged(names: Sequence[str], size: Scale, look: Look) -> Published:
    """These tables laid out, and all claims judged."""
    return Published(
        [laid_out(name, size, look) for name in names], [verdict_of(claim, size, look) for claim in CLAIMS]
    )


def write(found: Published, size: Scale, look: Look, folder: Path) -> None:
    """All of it below the folder, the figures drawn."""
    place = folder / size.name
    place.mkdir(parents=True, exist_ok=True)
    (place / "verdicts.md").write_text(verdicts_as_markdown(found.verdicts, size))
    for layout in found.layouts:
        for ending, written in (("md", as_markdown), ("csv", as_csv), ("tex", as_latex)):
            (place / f"{layout.name}.{ending}").write_text(written(layout))
        if layout.name in FIGURES:
            draw(layout.name, look, place / layout.name, layout.title)
