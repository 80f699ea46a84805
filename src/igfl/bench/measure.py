"""Contenders timed alternately in one go, and their ratios to the bare loop."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from time import perf_counter
from typing import Protocol

import torch

from igfl.bench.bare import Bare
from igfl.bench.peers import NAMES, Peer, installed
from igfl.bench.workloads import Precision, Workload
from igfl.engines import engine as engine_of
from igfl.exact import cores
from igfl.names import unknown
from igfl.parts import Method
from igfl.training import Sampled, rounds


class Contender(Protocol):
    """Whatever can do a round."""

    def round(self) -> None: ...

    def close(self) -> None: ...


class Ours:
    """One of our engines, round after round."""

    def __init__(
        self, work: Workload, engine: str, method: Method | None = None, precision: Precision = "fp32"
    ) -> None:
        job = work.job(method, precision)
        self._engine = engine_of(job, engine)
        self._rounds = rounds(self._engine, cohorts=Sampled(size=work.cohort, rounds=10**9))
        blank = job.blank(job.task.initial())
        remembers = blank.last is not None or blank.local
        self.warm = 3 * work.clients // work.cohort if remembers else 2  # until almost all remember something

    def round(self) -> None:
        next(self._rounds)

    def close(self) -> None:
        self._engine.__exit__()


def ours(work: Workload, names: Mapping[str, Method | None], precision: Precision) -> dict[str, Contender]:
    """Our engines, a method behind each."""
    return {name: Ours(work, name.partition(" ")[0], method, precision) for name, method in names.items()}


def others(work: Workload, names: Sequence[str]) -> dict[str, Contender]:
    """`bare` and `tuned`, always at fp32; and whichever peers are installed, as they come and tuned."""
    found: dict[str, Contender] = {}
    for name in names:
        if name in ("bare", "tuned"):
            found[name] = Bare(work.name, tuned=name == "tuned")
        elif name not in NAMES:
            raise unknown("against", name, ("bare", "tuned", *NAMES))
        elif installed(name):
            found[name] = Peer(name, work.name)
            found[f"{name} tuned"] = Peer(name, work.name, tuned=True)
    return found


TURN = 0.1  # seconds: what is faster does several rounds a turn, for it is not run one round at a time either


def alternate(entered: Mapping[str, Contender], seconds: float) -> dict[str, list[float]]:
    """Seconds a round of every contender, in turns, for about so long in all, after some rounds that do not count."""
    rounds_of = {}
    for name, contender in entered.items():
        _timed(contender, getattr(contender, "warm", 2))
        rounds_of[name] = max(1, int(TURN / _timed(contender, 1)))
    times: dict[str, list[float]] = {name: [] for name in entered}
    end = perf_counter() + seconds
    while perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, contender in entered.items():
            times[name].append(_timed(contender, rounds_of[name]))
    return times


def _timed(contender: Contender, rounds: int) -> float:
    """Seconds a round."""
    began = perf_counter()
    for _ in range(rounds):
        contender.round()
    return (perf_counter() - began) / rounds


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
        "cores": str(cores()),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
