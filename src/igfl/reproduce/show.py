"""Records as the page of runs and the figures take them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from igfl.paper.experiments import EXPERIMENTS
from igfl.report.gather import dotted
from igfl.reproduce.layout import Layout
from igfl.reproduce.records import Record
from igfl.reproduce.verdicts import Look, Verdict


def page_content(
    names: Sequence[str], look: Look, layouts: Sequence[Layout], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """The tables, the verdicts, and every finished run as a curve."""
    runs: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    for cell in (cell for name in names for cell in EXPERIMENTS[name].cells()):
        records = look(cell).records
        if records:
            groups.append({
                "label": f"{cell.row} ({cell.column})", "short": cell.row, "facet": f"{cell.table}, {cell.column}",
                "hue": list(EXPERIMENTS[cell.table].rows).index(cell.row),
                "runs": list(range(len(runs), len(runs) + len(records))),
            })  # fmt: skip
            runs += [_run(seed, record, str(cell)) for seed, record in sorted(records.items())]
    return {
        "runs": runs, "groups": groups, "partitions": {},
        "tables": [
            {"title": t.title, "header": t.header, "rows": t.rows, "above": t.above, "below": t.below} for t in layouts
        ],
        "verdicts": [[v.claim.sentence, v.word, v.why] for v in verdicts],
    }  # fmt: skip


def _run(seed: int, record: Record, name: str) -> dict[str, Any]:
    rounds = [round for round, _ in record.curve]
    accuracies = [accuracy for _, accuracy in record.curve]
    a_round = record.bytes / max(1, rounds[-1]) if rounds else 0.0
    known = {"accuracy_last10pct": record.accuracy, "diverged": record.diverged, "seconds": record.seconds,
             "up_bytes": record.bytes, "accuracy_best": max(accuracies, default=None),
             "accuracy_last": accuracies[-1] if accuracies else None}  # fmt: skip
    curve = {"round": rounds, "bytes": [a_round * r for r in rounds], "value": accuracies}
    return {
        "name": f"{name} {record.trial}", "label": name, "seed": seed, "rounds": record.rounds,
        "done": rounds[-1] if rounds else 0, "digest": record.digest, "steps": record.steps or None,
        "summary": {key: value for key, value in known.items() if value is not None},
        "config": dotted(record.config), "environment": dotted(record.environment), "partition": None,
        "series": {"global/accuracy": curve} if rounds else {}, "behaviour": None,
    }  # fmt: skip


def draw(name: str, look: Look, path: Path, title: str) -> list[Path]:
    """The figure of this experiment: curves of its cells, or matrices of attention."""
    try:
        from igfl.report.figures import draw_curves, draw_matrices
    except ImportError as error:
        raise ImportError("figures need matplotlib, which is not installed: pip install 'igfl[plots]'") from error

    table = EXPERIMENTS[name]
    if table.populations:
        shown = {}
        for cell in table.cells():
            first = next((r for _, r in sorted(look(cell).records.items()) if r.attention is not None), None)
            if first is not None:
                shown[cell.column] = np.array(first.attention)
        return draw_matrices(shown, path, title=title) if shown else []
    curves = {
        cell.row if len(table.columns) == 1 else f"{cell.row} ({cell.column})": [
            ([r for r, _ in record.curve], [100 * a for _, a in record.curve])
            for record in look(cell).records.values() if record.curve
        ]
        for cell in table.cells()
    }  # fmt: skip
    curves = {label: found for label, found in curves.items() if found}
    return draw_curves(curves, path, along="rounds", of="test accuracy %", title=title) if curves else []
