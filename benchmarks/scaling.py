"""Rounds per second against workers, cohort, model size and population; a table, and a picture of it.

python benchmarks/scaling.py [--seconds 5] [--draw scaling.png]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

import igfl
from igfl.bench.workloads import workload
from igfl.data.federation import Federation
from igfl.engines import engine
from igfl.models import logistic, mlp

COLOURS = {"loop": "tab:orange", "processes": "tab:blue", "vectorised": "tab:green"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement: what was varied, its value, on which engine, and how many rounds a second it gave."""

    axis: str
    value: int
    engine: str
    rate: float


def dense(population: int, rows: int = 20, d: int = 610) -> igfl.Job:
    """Softmax regression on 60 features, or a hidden layer as wide as makes about d parameters."""
    draws = torch.Generator().manual_seed(0)
    module = logistic(inputs=60) if d <= 610 else mlp(inputs=60, hidden=(max(1, (d - 10) // 71),))
    base = torch.randn(2000, 60, generator=draws)
    data = Federation(
        x=base, y=torch.randint(10, (2000,), generator=draws),
        index=torch.arange(population * rows) % 2000, offsets=torch.arange(population + 1) * rows,
    )  # fmt: skip
    return igfl.Job(method=igfl.fedavg(), task=igfl.ModuleTask(module), data=data, plan=igfl.Plan(lr=0.01, batch=10))


def rate(job: igfl.Job, name: str, cohort: int, seconds: float, workers: int | None = None) -> float:
    times: list[float] = []
    with engine(job, name, workers=workers) as here:
        states = igfl.rounds(here, cohorts=igfl.Sampled(rounds=10**9, size=cohort))
        for _ in range(2):
            next(states)
        end = perf_counter() + seconds
        while perf_counter() < end or len(times) < 3:
            began = perf_counter()
            next(states)
            times.append(perf_counter() - began)
    return 1 / median(times)


def measure(seconds: float) -> list[Point]:
    found = []

    def add(axis: str, value: int, name: str, got: float) -> None:
        found.append(Point(axis=axis, value=value, engine=name, rate=got))
        print(f"{axis:<12}{value:>12,}  {name:<12}{got:>10.2f} rounds/s", flush=True)

    b = workload("B")
    for workers in (1, 2):
        add("workers", workers, "processes", rate(b.job(), "processes", b.cohort, 2 * seconds, workers))
    for cohort in (10, 100, 1000):
        for name in ("loop", "vectorised"):
            add("cohort", cohort, name, rate(dense(1000), name, cohort, seconds))
    for d in (10**3, 10**4, 10**5, 10**6, 10**7):
        for name in ("loop", "processes", "vectorised"):
            add("parameters", d, name, rate(dense(100, d=d), name, 10, seconds))
    for population in (10**3, 10**4, 10**5, 10**6):
        add("population", population, "vectorised", rate(dense(population), "vectorised", 100, seconds))
    return found


def draw(points: list[Point], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    axes = list(dict.fromkeys(point.axis for point in points))
    figure, plots = plt.subplots(1, len(axes), figsize=(4 * len(axes), 3.4), layout="constrained")
    for axis, plot in zip(axes, plots, strict=True):
        for name in dict.fromkeys(point.engine for point in points):
            mine = [(p.value, p.rate) for p in points if (p.axis, p.engine) == (axis, name)]
            if mine:
                plot.loglog(*zip(*mine, strict=True), marker="o", label=name, color=COLOURS[name])
        rates = [p.rate for p in points if p.axis == axis]
        whole = 10.0 ** floor(log10(min(rates))), 10.0 ** ceil(log10(max(rates)))  # decades: flat looks flat
        plot.set(xlabel=axis, ylabel="rounds per second", ylim=whole)
        plot.grid(visible=True, which="major", alpha=0.3)
        plot.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    points = measure(options.seconds)
    if options.draw:
        draw(points, options.draw)


if __name__ == "__main__":
    main()
