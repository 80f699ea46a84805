"""Which engine: by name, or by a rule that looks at the model and the kind of machine, never at a clock."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from igfl.batched import Unbatchable, dense_layers
from igfl.engines.vectorised import model_of
from igfl.exact import cores
from igfl.names import unknown
from igfl.training import Engine
from igfl.visits import Job

ENGINES = {
    "loop": "igfl.engines.loop:Loop",
    "processes": "igfl.engines.processes:Processes",
    "vectorised": "igfl.engines.vectorised:Vectorised",
    "ray": "igfl.engines.ray:Ray",
}


def engine(job: Job, name: str = "auto", *, workers: int | None = None, **options: Any) -> Engine:
    """The engine of this name for the job; `workers` are processes, actors or threads, and none to the loop."""
    if name == "auto":
        name, _ = choose(job)
    if name not in ENGINES:
        raise unknown("engine", name, ("auto", *ENGINES))
    if name != "loop":
        options["threads" if name == "vectorised" else "workers"] = workers
    module, _, kind = ENGINES[name].partition(":")
    made: Engine = getattr(import_module(module), kind)(job, **options)
    return made


def choose(job: Job) -> tuple[str, str]:
    """The engine for this job, and why.

    On an accelerator all clients train at once, where the model allows it. So they do where it is a stack of dense
    layers. Anything else trains in one process a core.
    """
    kind = job.task.initial().device.type
    if kind != "cpu":
        try:
            model_of(job)
        except Unbatchable as why:
            return "loop", f"{why.args[0]}, and one accelerator trains one client after another"
        return "vectorised", f"the model is on {kind}, which trains all clients at once"
    if dense_layers(job.task, job.data.x.ndim) is not None:
        return "vectorised", "the model is a stack of dense layers, which train for all clients in one product"
    if cores() == 1:
        return "loop", "there is one core"
    return "processes", f"the model is no stack of dense layers, and there are {cores()} cores"
