"""A run, from where its folder stands to its end: train, tell, keep."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from time import perf_counter
from typing import Any

import safetensors.torch

from igfl.fairness import evaluate_clients
from igfl.runs.behaviour import Behaviour
from igfl.runs.build import Built
from igfl.runs.checkpoints import Checkpoint
from igfl.runs.config import Config, ConfigError
from igfl.runs.digest import Chain, named
from igfl.runs.files import write_whole
from igfl.runs.folder import Folder, Metrics, environment
from igfl.runs.rows import Row, of_clients, row_of
from igfl.runs.sinks import Sinks
from igfl.runs.store import Store
from igfl.screening import Diverged
from igfl.training import Engine, rounds, start
from igfl.types import Cohort, ServerState

DENSE = 50  # evaluations in the last tenth of a run, at most
NOT_DECIDING = {  # keys that change no bit of what is trained
    "name": ..., "rounds": ..., "evaluate": ..., "checkpoint": ..., "behaviour": ..., "targets": ...,
    "engine": {"name", "workers", "address", "memory", "cache"}, "clients": {"test", "every"},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, or where it stopped."""

    round: int
    digest: str
    finished: bool
    summary: Mapping[str, Any] = field(default_factory=dict)


def due(round: int, rounds: int, every: int) -> bool:
    """Whether to evaluate after so many rounds: every so often, at the end, and densely in the last tenth."""
    last = max(1, math.ceil(rounds / 10))
    step = max(1, math.ceil(last / DENSE))
    return round % every == 0 or round == rounds or (round > rounds - last and (rounds - round) % step == 0)


def identity(config: Config, engine: str) -> str:
    """A hash of all that decides a run's bits, and nothing else; `engine` is the one that trains.

    Keys at their default are left out, so that a later version, with more keys, knows the runs of this one.
    """
    content = config.model_dump(exclude_defaults=True)
    for key, part in NOT_DECIDING.items():
        if part is ...:
            content.pop(key, None)
        else:
            inner = {k: v for k, v in content.pop(key, {}).items() if k not in part}  # type: ignore[operator]  # a set
            content |= {key: inner} if inner else {}
    if config.train.schedule.name == "cosine":
        content["rounds"] = config.rounds
    if engine == "vectorised":
        content["bits"] = engine
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass
class Run:
    """One training in one folder. `watch` is told of every row, `stopping` asked after every round."""

    folder: Folder
    built: Built
    watch: Callable[[Row], None] = lambda _row: None
    stopping: Callable[[], bool] = lambda: False
    sinks: Sinks = field(default_factory=Sinks)

    def go(self, engine: Engine) -> Outcome:
        """From the newest checkpoint that is whole to the end, or until it is told to stop."""
        config = self.built.config
        self._keep_partition()
        (self.folder.path / "summary.json").unlink(missing_ok=True)
        with Store(self.folder.state, limit=config.engine.cache if config.engine.memory == "disk" else None) as store:
            found = self._checkpoint(store)
            state = found.state if found else start(self.built.job)
            rows = self.folder.cut(state.round)
            behaviour = Behaviour(self.folder.path / "behaviour", config, len(state.params))
            behaviour.cut(state.round)
            self.sinks.begin(state.round)
            metrics = Metrics(self.folder)
            try:
                return self._go(engine, store, state, found.chain if found else Chain(), rows, metrics, behaviour)
            except Diverged as error:
                self.folder.write("summary.json", json.dumps({"diverged": error.round, "why": str(error)}, indent=1))
                raise
            finally:
                metrics.close()
                self.sinks.close()

    def _go(
        self, engine: Engine, store: Store, state: ServerState, chain: Chain, rows: list[dict[str, Any]],
        metrics: Metrics, behaviour: Behaviour,
    ) -> Outcome:  # fmt: skip
        config, facts = self.built.config, {"config": self._identity()}
        before, began = state, perf_counter()
        trained = rounds(engine, state, store.memories, cohorts=self.built.cohorts, screen=self.built.screen)
        for state, cohort in trained:
            chain = chain.after(state, self.built.job.task)
            store.round = state.round
            row = self._row(engine, state, before, cohort, chain)
            row["time/round_s"] = perf_counter() - began
            for tell in (rows.append, metrics, self.sinks, self.watch):
                tell(row)
            behaviour(state.round, cohort)
            stopping = self.stopping()
            if stopping or state.round % config.checkpoint == 0 or state.round == config.rounds:
                metrics.settle()
                store.save(state, chain, facts)
            if stopping and state.round < config.rounds:
                return Outcome(round=state.round, digest=chain.head, finished=False)
            before, began = state, perf_counter()
        store.wait()
        return self._finish(state, chain, rows)

    def _row(
        self, engine: Engine, state: ServerState, before: ServerState, cohort: Cohort, chain: Chain
    ) -> dict[str, Any]:
        config, job = self.built.config, self.built.job
        row = row_of(state, before, cohort, chain, job.task, config.cohort or len(job.data.with_data))
        if due(state.round, config.rounds, config.evaluate):
            row |= {f"global/{name}": value for name, value in engine.evaluate(state.params).items()}
        if config.clients.test != "none" and (state.round % config.clients.every == 0 or state.round == config.rounds):
            row |= of_clients(evaluate_clients(job, state.params, config.clients.test))
        return row

    def _checkpoint(self, store: Store) -> Checkpoint | None:
        found = store.load()
        if found is None:
            return None
        for skipped in found.skipped:
            self.watch({"note": f"{skipped}; going on from round {found.state.round}"})
        if found.facts["config"] != self._identity():
            raise ConfigError(
                f"{self.folder.path}: config.yaml is not the one this run was started with: give back what it was, or "
                "start another run"
            )
        was, now = self.folder.read("environment.json") or {}, environment()
        for key, old, new in (("torch", was.get("packages", {}).get("torch"), now["packages"]["torch"]),
                              ("processor", was.get("processor"), now["processor"])):  # fmt: skip
            if old != new:
                self.watch(
                    {"note": f"this run began with {key} {old}, here it is {new}: its bits may differ from here on"}
                )
        return found

    def _identity(self) -> str:
        return identity(self.built.config, self.built.resolved[0])

    def _keep_partition(self) -> None:
        """The partition a run began with is the one it goes on with."""
        made, path = self.built.partition, self.folder.path / "partition.json"
        kept = self.folder.read("partition.json")
        if kept is None:
            made.save(path, self.built.job.data.y.numpy())
        else:
            made.require(kept["passport"]["sha256"], str(path))

    def _finish(self, state: ServerState, chain: Chain, rows: Sequence[Row]) -> Outcome:
        tensors = {name: tensor.contiguous() for name, tensor in named(self.built.job.task, state.params).items()}
        write_whole(self.folder.path / "model.safetensors", safetensors.torch.save(tensors))
        summary = summarised(rows, self.built.config, chain)
        self.folder.write("summary.json", json.dumps(summary, indent=1))
        return Outcome(round=state.round, digest=chain.head, finished=True, summary=summary)


def summarised(rows: Sequence[Row], config: Config, chain: Chain) -> dict[str, Any]:
    """A run in a few figures; accuracy_last10pct is the paper's measure."""
    scored = [(row["round"], row["global/accuracy"]) for row in rows if "global/accuracy" in row]
    summary: dict[str, Any] = {"rounds": config.rounds, "digest": chain.head}
    if scored:
        late = [accuracy for round, accuracy in scored if round > config.rounds - max(1, math.ceil(config.rounds / 10))]
        summary |= {
            "accuracy_last10pct": mean(late), "accuracy_best": max(accuracy for _, accuracy in scored),
            "accuracy_last": scored[-1][1],
        }  # fmt: skip
    for target in config.targets:
        reached = (round for round, accuracy in scored if accuracy >= target)
        summary[f"rounds_to_{target:g}"] = next(reached, None)
    summary["rejected"] = sum(row["rejected"] for row in rows)
    summary["seconds"] = sum(row["time/round_s"] for row in rows)
    summary["down_bytes"], summary["up_bytes"] = (
        sum(row[f"comm/{way}_bytes"] for row in rows) for way in ("down", "up")
    )
    return summary
