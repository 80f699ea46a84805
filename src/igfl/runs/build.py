"""From a configuration to what trains: data, partition, network, method, cohorts, engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from igfl.data.partitions import Explicit, Partition, Rule, Writers, partition, rule
from igfl.data.sets import DataSet, load
from igfl.engines import choose, engine
from igfl.inputs import CIFAR_PADDED, CIFAR_TUTORIAL, Images
from igfl.methods import METHODS, method
from igfl.models import MODELS, model
from igfl.names import named
from igfl.parts import Method
from igfl.runs.config import Config, ConfigError
from igfl.schedules import Cosine, Step
from igfl.screening import Screen
from igfl.streams import stream
from igfl.task import ModuleTask
from igfl.training import Engine, Sampled
from igfl.types import Faults, Plan, Schedule
from igfl.visits import Job

INPUTS: dict[str, Images | None] = {"none": None, "tutorial": CIFAR_TUTORIAL, "padded": CIFAR_PADDED}
SIDE = {"tutorial": 24}  # of an image after augmentation, where it is not the stored one


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A run, ready to begin."""

    config: Config
    job: Job
    partition: Partition
    cohorts: Sampled
    screen: Screen

    @property
    def resolved(self) -> tuple[str, str]:
        """The engine's name, and why it is that one."""
        asked = self.config.engine
        if asked.name != "auto":
            return asked.name, "as asked"
        name, why = choose(self.job)
        return ("loop", "there is one worker") if name == "processes" and asked.workers == 1 else (name, why)

    def engine(self) -> Engine:
        """The engine."""
        name, wanted = self.resolved[0], self.config.engine
        return engine(self.job, name, workers=wanted.workers, **({"address": wanted.address} if name == "ray" else {}))


def build(config: Config) -> Built:
    """Everything made and checked, nothing trained."""
    data = _data(config)
    made = _partition(config, data)
    task = ModuleTask(_network(config, data), inputs=INPUTS[config.data.augment], precision=config.engine.precision)
    job = Job(
        method=_method(config), task=task, data=data.divided(made), plan=_plan(config), seed=config.seed,
        faults=Faults(drop=config.clients.drop, slow=config.clients.slow),
    )  # fmt: skip
    cohorts = Sampled(rounds=config.rounds, size=config.cohort)
    cohorts.check(job)
    job.check(task.initial())
    screen = Screen(policy=config.screen.policy, limit=config.screen.limit)
    return Built(config=config, job=job, partition=made, cohorts=cohorts, screen=screen)


def _data(config: Config) -> DataSet:
    data, rows = load(config.data.name, **_plain(config.data.options)), config.data.rows
    if rows is None:
        return data
    if rows > len(data.x):
        raise ConfigError(f"data.rows={rows}: {data.name} has {len(data.x)} rows to train on; take at most that many")
    return data.of_rows(stream(config.seed, "rows").sample(len(data.x), rows))


def _partition(config: Config, data: DataSet) -> Partition:
    split = config.split
    chosen: Rule
    if split.name == "writers":
        if data.writers is None:
            raise ConfigError(f"split.name='writers': {data.name} does not say who wrote what; take mnist_writers")
        chosen = Writers(data.writers.numpy())
    elif split.name == "explicit":
        if "path" not in split.options:
            raise ConfigError("split.path: an explicit split is read from a file; say which")
        chosen = Explicit(str(split.options["path"]))
    else:
        chosen = rule(split.name, **split.options)
    clients = {} if chosen.natural else {"clients": split.clients}
    seed = config.seed if split.seed is None else split.seed
    return partition(data.y.numpy(), chosen, seed=seed, share=split.share, holdout=split.holdout, **clients)


def _network(config: Config, data: DataSet) -> nn.Module:
    options = _plain(config.model.options)
    if config.model.name in MODELS:
        fitting = {"classes": len(data.classes), "seed": config.seed}
        if config.model.name in ("mlp", "logistic"):
            fitting["inputs"] = torch.Size(data.shape).numel()
        if config.model.name in ("mcmahan_cnn", "cnn"):
            fitting["input"] = SIDE.get(config.data.augment, data.shape[-1])
        if config.model.name == "cnn":
            fitting["channels"] = data.shape[0]
        options = {**fitting, **options}
    try:
        return model(config.model.name, **options)
    except TypeError as error:
        if config.model.name not in MODELS:
            raise  # somebody's own factory: its place is worth seeing
        raise ConfigError(f"model.name={config.model.name!r}: {error}") from error


def _method(config: Config) -> Method:
    if config.method.name in METHODS:
        return method(config.method.name, **config.method.options)
    made: Method = named("method", config.method.name, {})(**config.method.options)
    return made


def _plan(config: Config) -> Plan:
    train = config.train
    return Plan(
        lr=_schedule(config), epochs=train.epochs, batch=train.batch, steps=train.steps,
        weight_decay=train.weight_decay,
    )  # fmt: skip


def _schedule(config: Config) -> float | Schedule:
    lr, decay = config.train.lr, config.train.schedule
    if decay.name == "step":
        return Step(lr, decay.every, decay.factor, decay.end)
    if decay.name == "cosine":
        return Cosine(lr, decay.end, config.rounds)
    return lr


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Lists of YAML as the tuples that factories take."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
