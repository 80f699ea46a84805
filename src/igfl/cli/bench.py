"""`igfl bench`: our engines against a bare loop and against other libraries, alternately, in one go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, get_args

import typer


def bench(
    workload: Annotated[str, typer.Argument(help="A, B or C.")] = "A",
    engine: Annotated[
        list[str] | None, typer.Option(help="auto, loop, processes, vectorised, ray; may be given more than once.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="fedavg, igfl/time, ...; may be given more than once.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="bare, tuned, flower, pfl, fluke, fedlab, fedjax or all; between commas.")
    ] = "bare,tuned",
    precision: Annotated[str, typer.Option(help="fp32 or bf16; the bare loop and the peers stay at fp32.")] = "fp32",
    seconds: Annotated[float, typer.Option(help="For how long, about.")] = 60,
    parts: Annotated[bool, typer.Option("--parts/--no-parts", help="Show where a round's time goes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time rounds of our engines, of a bare PyTorch loop and of peers, in turns, and print the ratios."""
    from igfl.bench import measure, peers, profile, workloads
    from igfl.engines import choose
    from igfl.methods import method as by_name
    from igfl.names import unknown

    work = workloads.workload(workload)
    if precision not in get_args(workloads.Precision):
        raise unknown("precision", precision, get_args(workloads.Precision))
    methods = {name: by_name(name) for name in method or ["fedavg"]}
    chosen = [choose(work.job())[0] if name == "auto" else name for name in engine or ["auto"]]
    asked = ["bare", "tuned", *peers.NAMES] if against == "all" else list(filter(None, against.split(",")))
    names = asked if "bare" in asked else ["bare", *asked]
    entered = measure.others(work, names)
    try:
        entered |= measure.ours(work, {f"{e} {m}": made for e in chosen for m, made in methods.items()}, precision)  # type: ignore[arg-type]  # just compared
        times = measure.alternate(entered, seconds)
    finally:
        for contender in entered.values():
            contender.close()
    found: dict[str, Any] = {
        "workload": workload, "precision": precision, "machine": measure.machine(), "table": measure.ratios(times),
        "versions": {name: peer.version for name, peer in entered.items() if isinstance(peer, peers.Peer)},
        "missing": [name for name in names if name in peers.NAMES and not peers.installed(name)],
    }  # fmt: skip
    if parts:
        found["parts"] = {
            name: profile.where_time_goes(work.job(made, precision), work.cohort, rounds=3, test_rows=10_000)  # type: ignore[arg-type]  # just compared
            for name, made in methods.items()
        }
    typer.echo(json.dumps(found) if as_json else _told(found))


def _told(found: Mapping[str, Any]) -> str:
    """The ratios as a table, and the parts of a round below it."""
    where = found["machine"]
    lines = [
        f"workload {found['workload']}, {found['precision']}; {where['processor']}, {where['cores']} cores, "
        f"torch {where['torch']}, Python {where['python']}",
        f"{'':<24}{'s/round':>9}{'/ bare':>8}{'/ tuned':>9}   quartiles of the ratio to bare",
    ]
    tuned = found["table"].get("tuned")
    for name, row in found["table"].items():
        to_tuned = f"{row['seconds'] / tuned['seconds']:.3f}" if tuned else "-"
        spread = f"{row['low']:.3f} to {row['high']:.3f} over {row['rounds']:.0f} turns"
        lines.append(f"{name:<24}{row['seconds']:>9.4f}{row['ratio']:>8.3f}{to_tuned:>9}   {spread}")
    lines += [f"{name}: {version}" for name, version in found["versions"].items() if "tuned" not in name]
    lines += [f"{name}: not installed; benchmarks/peers/install.sh {name}" for name in found["missing"]]
    for name, parts in found.get("parts", {}).items():
        whole = sum(seconds for part, seconds in parts.items() if part != "evaluate")
        shares = ", ".join(f"{part} {100 * seconds / whole:.1f}%" for part, seconds in parts.items())
        lines.append(f"{name}, one client after another, {whole:.4f} s of one core a round: {shares}")
    return "\n".join(lines)
