"""`igfl bench`: our engines against a bare loop, alternately, in one go."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def bench(
    workload: Annotated[str, typer.Argument(help="A, B or C.")] = "A",
    engine: Annotated[list[str] | None, typer.Option(help="loop, processes; may be given more than once.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="fedavg, igfl/time, ...; may be given more than once.")
    ] = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16; the bare loop stays at fp32.")] = "fp32",
    seconds: Annotated[float, typer.Option(help="For how long, about.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time rounds of our engines, of a bare PyTorch loop and of a tuned one, in turns, and print the ratios."""
    from igfl.bench import measure, workloads
    from igfl.methods import method as by_name

    work = workloads.workload(workload)
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision={precision!r}: choose fp32 or bf16")
    names = {"bare": None, "tuned": None} | {
        f"{e} {m}": by_name(m) for e in engine or ["processes"] for m in method or ["fedavg"]
    }
    entered = measure.contenders(work, names, precision)  # type: ignore[arg-type]  # just compared
    try:
        times = measure.alternate(entered, seconds)
    finally:
        for contender in entered.values():
            contender.close()
    table, where = measure.ratios(times), measure.machine()
    if as_json:
        typer.echo(json.dumps({"workload": workload, "precision": precision, "machine": where, "table": table}))
        return
    typer.echo(
        f"workload {workload}, {precision}; {where['processor']}, torch {where['torch']}, Python {where['python']}"
    )
    typer.echo(f"{'':<24}{'s/round':>9}{'/ bare':>8}{'/ tuned':>9}   quartiles of the ratio to bare")
    for name, row in table.items():
        to_tuned = row["seconds"] / table["tuned"]["seconds"]
        spread = f"{row['low']:.3f} to {row['high']:.3f} over {row['rounds']:.0f} turns"
        typer.echo(f"{name:<24}{row['seconds']:>9.4f}{row['ratio']:>8.3f}{to_tuned:>9.3f}   {spread}")
