"""igfl: federated learning for clients whose data differ.

Names are imported when first used, so that the command line answers without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from igfl.data.federation import Federation as Federation
    from igfl.engines.choice import engine as engine
    from igfl.engines.loop import ClientError as ClientError, Loop as Loop
    from igfl.methods import (
        METHODS as METHODS,
        fedadagrad as fedadagrad,
        fedadam as fedadam,
        fedavg as fedavg,
        fedavgm as fedavgm,
        fedprox as fedprox,
        fedyogi as fedyogi,
        igfl as igfl,
        igfl_c as igfl_c,
        igfl_s as igfl_s,
        method as method,
        scaffold as scaffold,
        vrl_sgd as vrl_sgd,
    )
    from igfl.parts import (
        ClientRule as ClientRule,
        Method as Method,
        ServerOptimizer as ServerOptimizer,
        Weighting as Weighting,
    )
    from igfl.schedules import Cosine as Cosine, Step as Step
    from igfl.screening import Diverged as Diverged, Screen as Screen
    from igfl.task import ModuleTask as ModuleTask
    from igfl.training import (
        Cohorts as Cohorts,
        Engine as Engine,
        Given as Given,
        Sampled as Sampled,
        rounds as rounds,
        start as start,
    )
    from igfl.types import (
        Arrays as Arrays,
        Batch as Batch,
        Broadcast as Broadcast,
        Cohort as Cohort,
        Correction as Correction,
        Faults as Faults,
        Memory as Memory,
        Metrics as Metrics,
        Plan as Plan,
        Report as Report,
        ServerState as ServerState,
        Task as Task,
        Vec as Vec,
        Visit as Visit,
    )
    from igfl.visits import Job as Job, visit_client as visit_client

__version__ = "0.1.0"

_HOMES = {
    "data.federation": "Federation",
    "engines.choice": "engine",
    "engines.loop": "ClientError Loop",
    "methods": "METHODS fedadagrad fedadam fedavg fedavgm fedprox fedyogi igfl igfl_c igfl_s method scaffold vrl_sgd",
    "parts": "ClientRule Method ServerOptimizer Weighting",
    "schedules": "Cosine Step",
    "screening": "Diverged Screen",
    "task": "ModuleTask",
    "training": "Cohorts Engine Given Sampled rounds start",
    "types": "Arrays Batch Broadcast Cohort Correction Faults Memory Metrics Plan Report ServerState Task Vec Visit",
    "visits": "Job visit_client",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = [*_HOME_OF]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'igfl' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"igfl.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
