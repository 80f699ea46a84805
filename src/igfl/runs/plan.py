"""What a run would take: counted where it can be, from a short probe where it cannot."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from igfl.runs.build import Built
from igfl.training import rounds, start

ROW = 3000  # bytes of metrics, about
PROBE = 3  # rounds trained to tell the time, of which the first does not count


def planned(built: Built) -> dict[str, Any]:
    """Rounds, steps, bytes, memory, disk and time."""
    job, config = built.job, built.config
    params = job.task.initial()
    size = params.numel() * params.element_size()
    everybody = job.data.with_data
    cohort = config.cohort or len(everybody)
    steps = np.array([job.plan.steps_of(client, int(job.data.sizes[client])) for client in everybody.tolist()])
    blank = job.blank(params)
    kept = sum(
        a.numel() * a.element_size() for a in (*blank.local.values(), *([] if blank.last is None else [blank.last]))
    )
    state = start(job)
    down = sum(a.numel() * a.element_size() for a in (state.params, *state.shared.values()))
    up = size + sum(note.numel() * note.element_size() for note in job.notes(params).values())
    memories = kept * len(everybody)
    server = (state.params, *state.shared.values(), *state.optimizer.values())
    kept_by_server = sum(a.numel() * a.element_size() for a in server)
    return {
        "rounds": config.rounds,
        "clients a round": f"{cohort} of {len(everybody)}",
        "local steps a visit": f"{steps.min()} to {steps.max()}, {steps.mean():.1f} on average",
        "parameters": f"{params.numel():,}",
        "down, a round": told(cohort * down),
        "up, a round": told(cohort * up),
        "down and up, in all": told(config.rounds * cohort * (down + up)),
        "memory: data": told(job.data.x.numel() * job.data.x.element_size()),
        "memory: updates of a cohort": told(cohort * size),
        "memory: kept for clients": told(memories if config.engine.memory == "ram" else kept * config.engine.cache),
        "disk, at most": told(3 * memories + 3 * kept_by_server + size + config.rounds * ROW),
        "time": _time(built),
    }


def told(size: float) -> str:
    """Bytes, as people say them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _time(built: Built) -> str:
    times = []
    with built.engine() as engine:
        states = rounds(engine, cohorts=replace(built.cohorts, rounds=PROBE), screen=built.screen)
        for _ in range(PROBE):
            began = perf_counter()
            next(states)
            times.append(perf_counter() - began)
    seconds = built.config.rounds * min(times[1:])
    return f"about {seconds:.0f} s without evaluation, from {PROBE} rounds on {built.resolved[0]}"
