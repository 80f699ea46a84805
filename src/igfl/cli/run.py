"""`igfl run` and `igfl resume`: a training in a folder of its own, told as it goes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from igfl.runs.build import Built
    from igfl.runs.config import Config
    from igfl.runs.folder import Folder
    from igfl.runs.run import Outcome

RUNS = Path("runs")
EVERY = 5.0  # seconds between lines, where nobody looks at a terminal


def run(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="A preset or FILE.yaml, then section.key=value, in any number.")
    ] = None,
    under: Annotated[Path, typer.Option(help="Where run folders are made.")] = RUNS,
    plan: Annotated[bool, typer.Option("--plan", help="Say what it would take, and run nothing.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write for TensorBoard.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train: the embedded default, a preset or a file, with any key changed on the command line."""
    config = configured(arguments or [])
    from igfl.runs.build import build
    from igfl.runs.folder import Folder

    built = build(config)
    if plan:
        from igfl.runs.plan import planned

        found = planned(built)
        typer.echo(json.dumps(found) if as_json else "\n".join(f"{key:<28}{value}" for key, value in found.items()))
        return
    _go(lambda: Folder.new(under, config), built, tensorboard, as_json)


def resume(
    folder: Annotated[Path, typer.Argument(help="A run's folder.")],
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write for TensorBoard.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Go on with a run from its last checkpoint, to the same bits as if nothing had happened."""
    from igfl.runs.build import build
    from igfl.runs.folder import Folder

    found = Folder.open(folder)
    _go(lambda: found, build(found.config()), tensorboard, as_json)


def configured(arguments: list[str]) -> Config:
    """What a command line asks for: the defaults, a preset or a file, and keys changed."""
    from igfl.names import unknown
    from igfl.runs.presets import PRESETS
    from igfl.runs.reading import load

    first = arguments[0] if arguments and "=" not in arguments[0] else None
    overrides = arguments[first is not None :]
    if first is None or first.endswith((".yaml", ".yml")):
        return load(Path(first) if first else None, overrides)
    if first not in PRESETS:
        raise unknown("preset", first, PRESETS)
    return load(None, overrides, PRESETS[first][1])


def _go(place: Callable[[], Folder], built: Built, tensorboard: bool, as_json: bool) -> None:
    from igfl.runs.run import Run
    from igfl.runs.sinks import Sinks, TensorBoard

    with built.engine() as engine, interruptible() as asked, telling(built.config.rounds) as watch:
        folder = place()  # only now: what was refused before leaves none
        makers = (partial(TensorBoard, folder.path / "tensorboard"),) if tensorboard else ()
        _tell(header(folder, built))
        training = Run(folder, built, watch=watch, stopping=lambda: bool(asked), sinks=Sinks(makers))
        outcome = training.go(engine)
    _end(folder, outcome, as_json)


def header(folder: Folder, built: Built) -> str:
    """What is being run."""
    config, method = built.config, built.job.method
    return "\n".join(
        f"{name:<12}{value}"
        for name, value in {
            "run": folder.path,
            "method": f"{config.method.name}: {method.client}, {method.weighting}, {method.server}",
            "data": f"{config.data.name}, {built.partition.rule} over {built.partition.clients} clients, "
            f"{config.cohort or 'all'} a round",
            "partition": built.partition.sha256[:16],
            "model": f"{config.model.name}, {len(built.job.task.initial()):,} parameters",
            "engine": f"{built.resolved[0]} ({built.resolved[1]})",
            "seed": config.seed,
        }.items()
    )


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Ctrl-C asks to stop after the round; a second one stops at once."""
    asked: list[int] = []

    def note(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        _tell("stopping after this round; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def telling(rounds: int) -> Iterator[Any]:
    """A bar where somebody looks at a terminal, else a plain line every few seconds."""
    if not sys.stderr.isatty():
        yield _Lines(rounds)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=rounds, told="")
        seen: dict[str, Any] = {}

        def watch(row: Mapping[str, Any]) -> None:
            if "note" in row:
                progress.console.print(row["note"])
                return
            seen.update(row)
            progress.update(task, completed=row["round"], told=_figures(seen))

        yield watch


class _Lines:
    """Plain lines, not too many."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._next, self._seen = rounds, 0.0, dict[str, Any]()

    def __call__(self, row: Mapping[str, Any]) -> None:
        if "note" in row:
            _tell(row["note"])
            return
        self._seen.update(row)
        if monotonic() >= self._next or row["round"] == self._rounds:
            self._next = monotonic() + EVERY
            _tell(f"round {row['round']}/{self._rounds}  {_figures(self._seen)}")


def _figures(row: Mapping[str, Any]) -> str:
    told = [f"loss {row['train/loss']:.4f}"] if "train/loss" in row else []
    if "global/accuracy" in row:
        told.append(f"accuracy {100 * row['global/accuracy']:.2f}%")
    if row.get("rejected"):
        told.append(f"rejected {row['rejected']}")
    seconds = max(row["time/round_s"], 1e-9)
    return "  ".join([*told, f"{seconds:.1f} s/round" if seconds > 1 else f"{1 / seconds:.1f} rounds/s"])


def _end(folder: Folder, outcome: Outcome, as_json: bool) -> None:
    if not outcome.finished:
        _tell(f"stopped after round {outcome.round}; go on with: igfl resume {folder.path}")
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps({"run": str(folder.path), **outcome.summary}))
        return
    for key, value in outcome.summary.items():
        typer.echo(f"{key:<20}{value:.4f}" if isinstance(value, float) else f"{key:<20}{value}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
