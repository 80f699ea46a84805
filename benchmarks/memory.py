"""What a run takes of memory, how a round's time grows with the population, and how busy unequal clients keep workers.

python benchmarks/memory.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from scaling import dense

import igfl
from igfl.bench.workloads import workload
from igfl.data.federation import Federation
from igfl.engines import Processes, Vectorised
from igfl.streams import stream


def proportional(pids: list[int]) -> float:
    """GiB that these processes take, what they share counted once (proportional set size)."""
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1]) for text in rollups) / 2**20  # type: ignore[index]


def seconds_of(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workloads() -> None:
    for name, method in (("A", "fedavg"), ("A", "igfl/time"), ("B", "fedavg"), ("B", "igfl/time")):
        work = workload(name)
        job = work.job(igfl.method(method))
        with Processes(job, workers=2) as engine:
            states = igfl.rounds(engine, cohorts=igfl.Sampled(rounds=10**9, size=work.cohort))
            for _ in range(3):
                next(states)
            pids = [os.getpid(), *(hand.process.pid for hand in engine._crew.hands)]
            kept = work.clients * len(job.task.initial()) * 4 / 2**30 if job.method.uses_last else 0
            print(
                f"{name} {method:<10}{proportional(pids):>6.2f} GiB in 3 processes (all memories: {kept:.2f})",
                flush=True,
            )


def populations() -> None:
    for population in (1_000, 100_000, 1_000_000):
        job = dense(population)
        job = igfl.Job(
            method=igfl.method("igfl/time"), task=job.task, data=job.data, plan=igfl.Plan(lr=0.01, batch=10, epochs=10)
        )
        began = perf_counter()
        memories: dict[int, igfl.Memory] = {}
        with Vectorised(job) as engine:
            states = igfl.rounds(engine, memories=memories, cohorts=igfl.Sampled(rounds=10**9, size=100))
            next(states)
            started, times = perf_counter() - began, []
            for _ in range(100):
                began = perf_counter()
                next(states)
                times.append(perf_counter() - began)
        peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 2**20  # type: ignore[index]
        times_told = f"first round after {started:.2f} s, then {1e3 * median(times):.2f} ms a round"
        print(f"{population:>9,} clients: {times_told}, {len(memories):,} memories, peak {peak:.2f} GiB", flush=True)


def busy() -> None:
    """A cohort of 100 with log-normal sizes (sigma 1) and workload B's network."""
    work = workload("B")
    sizes = (torch.from_numpy(stream(0, "sizes").numpy().lognormal(3, 1, 100)).long() + 1).tolist()
    whole = work.data()
    index = torch.arange(sum(sizes)) % len(whole.x)
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    job = igfl.Job(
        method=igfl.fedavg(), task=work.job().task, plan=igfl.Plan(lr=0.01, batch=20),
        data=Federation(x=whole.x, y=whole.y, index=index, offsets=offsets),
    )  # fmt: skip
    with Processes(job, workers=2) as engine:
        states = igfl.rounds(engine, cohorts=igfl.Sampled(rounds=10**9))
        next(states)
        pids = [hand.process.pid for hand in engine._crew.hands]
        before, began = [seconds_of(pid) for pid in pids], perf_counter()
        for _ in range(10):
            next(states)
        wall = perf_counter() - began
        shares = [(seconds_of(pid) - start) / wall for pid, start in zip(pids, before)]
    print(f"sizes {min(sizes)} to {max(sizes)}: workers busy {', '.join(f'{100 * share:.0f}%' for share in shares)}")


def main() -> None:
    populations()
    workloads()
    busy()


if __name__ == "__main__":
    main()
