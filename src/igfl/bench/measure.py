"""Contenders timed alternately in one go, and their ratios to the bare loop."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Protocol

import torch

from igfl.bench.bare import Bare
from igfl.bench.workloads import Precision, Workload
from igfl.engines import Loop, Processes
from igfl.names import unknown
from igfl.parts import Method
from igfl.training import Sampled, rounds


class Contender(Protocol):
    """Whatever can do a round."""

    def round(self) -> None: ...

    def close(self) -> None: ...


ENGINES: dict[str, Callable[..., Any]] = {"loop": Loop, "processes": Processes}


class Ours:
    """One of our engines, round after round."""

    def __init__(
        self, work: Workload, engine: str, method: Method | None = None, precision: Precision = "fp32"
    ) -> None:
        if engine not in ENGINES:
            raise unknown("engine", engine, ENGINES)
        self._engine = ENGINES[engine](work.job(method, precision))
        self._rounds = rounds(self._engine, cohorts=Sampled(size=work.cohort, rounds=10**9))

    def round(self) -> None:
        next(self._rounds)

    def close(self) -> None:
        self._engine.__exit__()


def contenders(work: Workload, names: Mapping[str, Method | None], precision: Precision) -> dict[str, Contender]:
    """`bare` and `tuned`, and ours by engine; a method may stand behind a space."""
    found: dict[str, Contender] = {}
    for name, method in names.items():
        engine = name.partition(" ")[0]
        if engine in ("bare", "tuned"):  # bf16 is measured against the bare loop as it comes
            found[name] = Bare(work.name, tuned=engine == "tuned")
        else:
            found[name] = Ours(work, engine, method, precision)
    return found


def alternate(entered: Mapping[str, Contender], seconds: float, warm: int = 2) -> dict[str, list[float]]:
    """Seconds of every round of every contender, in turns, for about so long in all."""
    for contender in entered.values():
        for _ in range(warm):
            contender.round()
    times: dict[str, list[float]] = {name: [] for name in entered}
    end = perf_counter() + seconds
    while perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, contender in entered.items():
            began = perf_counter()
            contender.round()
            times[name].append(perf_counter() - began)
    return times


def ratios(times: Mapping[str, list[float]], base: str = "bare") -> dict[str, dict[str, float]]:
    """Each contender's median round over the base's, with the quartiles of the ratios taken turn by turn."""
    table = {}
    for name, own in times.items():
        by_turn = [a / b for a, b in zip(own, times[base], strict=True)]
        low, _, high = quantiles(by_turn, n=4)
        table[name] = {
            "seconds": median(own), "ratio": median(own) / median(times[base]), "low": low, "high": high,
            "rounds": len(own),
        }  # fmt: skip
    return table


def machine() -> dict[str, str]:
    """What it was measured on."""
    try:
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123  # no path of ours
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    return {
        "processor": model,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
