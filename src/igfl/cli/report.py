"""`igfl report`: one page of runs, or of a table, that needs no network; or a figure for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

FIGURES = {"accuracy": "global/accuracy", "loss": "global/loss", "drift": "drift/norm_mean", "attention": ""}


def report(
    what: Annotated[list[str], typer.Argument(help="Run folders; or table1 to table5, figure1, figure2.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    scale: Annotated[str, typer.Option(help="Of a table: full, reduced or smoke.")] = "reduced",
    results: Annotated[Path, typer.Option(help="Where a table's results are kept.")] = Path("reproduction"),
    draw: Annotated[Path | None, typer.Option(help="Draw a figure into this path, .pdf, .svg and .png added.")] = None,
    figure: Annotated[str, typer.Option(help=f"Of runs: {', '.join(FIGURES)}.")] = "accuracy",
) -> None:
    """Make a self-contained HTML page of runs or of the paper's tables; with --draw, a figure."""
    from igfl.names import unknown
    from igfl.paper.experiments import EXPERIMENTS

    tables = [name for name in what if name in EXPERIMENTS]
    if tables and len(tables) < len(what):
        strange = next(name for name in what if name not in EXPERIMENTS)
        raise ValueError(f"{strange!r}: name run folders, or experiments ({', '.join(EXPERIMENTS)}), not both")
    if not tables and len(what) == 1 and not Path(what[0]).exists() and "/" not in what[0]:
        raise unknown("report", what[0], EXPERIMENTS)
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    folders = [Path(name) for name in what]
    for path in _of_tables(tables, scale, results, out, draw) if tables else _of_runs(folders, out, draw, figure):
        typer.echo(path)


def _of_tables(names: list[str], scale: str, results: Path, out: Path, draw: Path | None) -> list[Path]:
    from igfl.paper.scales import scale as scale_of
    from igfl.report.page import page
    from igfl.reproduce.pages import judged
    from igfl.reproduce.records import Ledger
    from igfl.reproduce.search import looking
    from igfl.reproduce.show import draw as draw_experiment, page_content

    size = scale_of(scale)
    look = looking(size, Ledger(results / f"{scale}.jsonl"))
    found = judged(names, size, look)
    if draw is not None:
        return [
            path
            for name, t in zip(names, found.layouts)
            for path in draw_experiment(name, look, _named(draw, name, names), t.title)
        ]
    return _written(out, page(f"igfl: {', '.join(names)}", page_content(names, look, found.layouts, found.verdicts)))


def _named(path: Path, name: str, names: list[str]) -> Path:
    return path if len(names) == 1 else path.with_name(f"{path.name}-{name}")


def _of_runs(folders: list[Path], out: Path, draw: Path | None, figure: str) -> list[Path]:
    from igfl.report.gather import gathered

    content = gathered(folders)
    if draw is not None:
        return _drawn(content, folders, draw, figure)
    from igfl.report.page import page

    title = folders[0].name if len(folders) == 1 else f"{len(folders)} runs"
    return _written(out, page(f"igfl: {title}", content))


def _drawn(content: dict[str, Any], folders: list[Path], draw: Path, figure: str) -> list[Path]:
    from igfl.report.behaviour import mean_attention
    from igfl.report.figures import draw_curves, draw_matrices

    if figure == "attention":
        return draw_matrices({path.name: mean_attention(path / "behaviour") for path in folders}, draw)
    name, factor = FIGURES[figure], 100 if figure == "accuracy" else 1
    curves = {
        group["label"]: [
            (series["round"], [factor * value for value in series["value"]])
            for i in group["runs"] if (series := content["runs"][i]["series"].get(name))
        ]
        for group in content["groups"]
    }  # fmt: skip
    curves = {label: found for label, found in curves.items() if found}
    if not curves:
        raise ValueError(f"figure={figure!r}: none of these runs has {name}")
    return draw_curves(curves, draw, along="rounds", of="test accuracy %" if figure == "accuracy" else name)


def _written(out: Path, text: str) -> list[Path]:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return [out]
