"""`igfl reproduce`: the paper's tables and figures from one command, and a verdict on every claim."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from igfl.paper.experiments import Cell
    from igfl.paper.scales import Scale
    from igfl.reproduce.layout import Layout
    from igfl.reproduce.records import Ledger
    from igfl.reproduce.verdicts import Verdict

RESULTS, UNDER = Path("reproduction"), Path("runs/reproduce")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def reproduce(
    what: Annotated[
        list[str], typer.Argument(help="table1 to table5, figure1, figure2, or all; several may be named.")
    ],
    scale: Annotated[str, typer.Option(help="full, reduced or smoke.")] = "reduced",
    budget: Annotated[
        str | None, typer.Option(help="Stop cleanly after so long: 90m, 4h. The same command goes on.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Runs side by side; else one a core.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of every tuned run; else the scale's.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Only this column; may be given more than once.")] = None,
    row: Annotated[list[str] | None, typer.Option(help="Only this row; may be given more than once.")] = None,
    results: Annotated[Path, typer.Option(help="Where results are kept: small, for a repository.")] = RESULTS,
    under: Annotated[Path, typer.Option(help="Where run folders are: large, for this machine.")] = UNDER,
    show: Annotated[bool, typer.Option("--show", help="Run nothing: lay out what there is.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print cells and verdicts as JSON.")] = False,
) -> None:
    """Run the paper's experiments, lay our numbers out beside the paper's, and judge its claims."""
    cells = _cells(what, column, row)
    for kind, number in (("workers", workers), ("seeds", seeds)):
        if number is not None and number < 1:
            raise ValueError(f"{kind}={number}: at least one")
    until = None if budget is None else monotonic() + _seconds(budget)
    from igfl.paper.scales import scale as scale_of
    from igfl.reproduce.pages import judged, write
    from igfl.reproduce.records import Ledger
    from igfl.reproduce.search import looking

    size = scale_of(scale)
    size = size if seeds is None else replace(size, seeds=seeds)
    ledger = Ledger(results / f"{scale}.jsonl")
    complaints = [] if show else _run(cells, size, ledger, under / scale, workers, until)
    look = looking(size, ledger)
    found = judged(sorted({cell.table for cell in cells}), size, look)
    write(found, size, look, results)
    if as_json:
        verdicts = [{"claim": v.claim.sentence, "verdict": v.word, "why": v.why} for v in found.verdicts]
        typer.echo(json.dumps({"tables": [asdict(layout) for layout in found.layouts], "verdicts": verdicts}))
    else:
        _print(found.layouts, found.verdicts)
    for complaint in complaints:
        _tell(complaint)
    if complaints:
        raise typer.Exit(1)


def _run(
    cells: list[Cell], size: Scale, ledger: Ledger, work: Path, workers: int | None, until: float | None
) -> list[str]:
    """Run what is missing; what is to be said where not all of it was."""
    from igfl.cli.run import interruptible
    from igfl.exact import cores
    from igfl.reproduce.campaign import Campaign

    with interruptible() as asked:
        campaign = Campaign(
            cells=cells, size=size, ledger=ledger, work=work, workers=workers or cores(), deadline=until,
            stopping=lambda: bool(asked), tell=_tell,
        )  # fmt: skip
        campaign.run()
    left = len(campaign.missing())
    more = [f"stopped with runs left ({left} could be begun now); the same command goes on"] if left else []
    return [*(f"a run failed: {why}" for why in campaign.failures.values()), *more]


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(layouts: Sequence[Layout], verdicts: Sequence[Verdict]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # what stands in square brackets is no markup of ours

    console = Console()
    for layout in layouts:
        for line in layout.above:
            console.print(Text(line, style="dim"))
        table = Table(title=Text(layout.title), title_justify="left")
        table.caption, table.caption_justify = Text("\n".join(layout.below)), "left"
        _fill(table, layout.header, layout.rows)
        console.print(table)
    table = Table(title="Claims", title_justify="left")
    _fill(table, ("claim", "verdict", "why"), [(v.claim.sentence, v.word, v.why) for v in verdicts])
    console.print(table)


def _fill(table: Table, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.text import Text

    for i, name in enumerate(header):
        table.add_column(Text(name), overflow="fold", no_wrap=not i and len(header) > 3)
    for words in rows:
        table.add_row(*map(Text, words))


def _cells(what: list[str], columns: list[str] | None, rows: list[str] | None) -> list[Cell]:
    from igfl.names import unknown
    from igfl.paper.experiments import EXPERIMENTS

    names = list(EXPERIMENTS) if "all" in what else what
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, ("all", *EXPERIMENTS))
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells()]
    for kind, chosen in (("column", columns), ("row", rows)):
        for name in chosen or []:
            if name not in (known := list(dict.fromkeys(getattr(cell, kind) for cell in cells))):
                raise unknown(kind, name, known)
    found = [c for c in cells if (not columns or c.column in columns) and (not rows or c.row in rows)]
    if not found:
        raise ValueError(f"row={rows}, column={columns}: no cell has both")
    return found


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if found is None:
        raise ValueError(f"budget={text!r}: say how long as 90m, 4h, 30s or 2d")
    return float(found[1]) * UNITS[found[2]]
