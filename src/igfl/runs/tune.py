"""Tuning: the same search for every method, in one SQLite file that a second start goes on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml

from igfl.runs.config import Config, as_yaml
from igfl.runs.folder import Folder
from igfl.runs.lanes import Ended, Lanes, Order, Told
from igfl.runs.reading import checked, put
from igfl.runs.run import identity

try:
    import optuna
    from optuna.trial import FrozenTrial, Trial, TrialState
except ImportError as error:
    raise ImportError("tuning needs Optuna, which is not installed: pip install 'igfl[tune]'") from error

Sampler = Literal["grid", "tpe"]
Pruner = Literal["median", "none"]
DONE = (TrialState.COMPLETE, TrialState.PRUNED)
Space = Mapping[str, Sequence[Any]]  # key of a configuration -> the values to try; tpe: numbers between the outermost


class Stopped(RuntimeError):  # noqa: N818  # what happened
    """The user asked for it; the trials under way go on at the next start."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A trial: what was chosen, and what came of it."""

    values: Mapping[str, Any]
    accuracy: float | None  # mean over the last tenth of the rounds
    how: str = ""  # where there is none: diverged or pruned, and how far it had come


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The trials of one method; `best` is the one with the highest accuracy."""

    method: str
    tried: Sequence[Tried]
    best: Tried | None
    edges: Sequence[str]  # keys whose best value is the lowest or highest tried
    preset: Path | None


@dataclass
class Search:
    """One search space for several methods, each with as many trials; `bases` are their configurations by name."""

    bases: Mapping[str, Config]
    space: Space
    folder: Path
    sampler: Sampler = "grid"
    trials: int | None = None  # of each method; None: the whole grid, or as many
    pruner: Pruner = "median"
    workers: int = 1
    running: Mapping[str, Any] = field(default_factory=dict)  # keys of a trial's run that no preset needs
    stopping: Callable[[], bool] = lambda: False
    tell: Callable[[str], None] = lambda _: None
    failures: list[str] = field(default_factory=list)

    def run(self) -> list[Tuned]:
        """Search for one method after another, trials side by side."""
        self.folder.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with Lanes(self.workers) as lanes:
            for name, base in self.bases.items():
                study = optuna.create_study(
                    storage=self._storage, study_name=self._study(name, base), direction="maximize",
                    load_if_exists=True, pruner=self._pruner(base),
                )  # fmt: skip
                study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # goes on, and draws nothing twice
                self._search(study, lanes, name, base)
                if self.stopping():
                    raise Stopped(f"stopped; the same command goes on from {self.folder}")
        return [self.found(name) for name in self.bases]

    def found(self, name: str) -> Tuned:
        """What the trials of this method say; the best one's configuration is written as a preset."""
        base = self.bases[name]
        study = optuna.load_study(storage=self._storage, study_name=self._study(name, base))
        tried = [_tried(trial) for trial in study.get_trials(states=DONE)]
        whole = [each for each in tried if each.accuracy is not None]
        best = max(whole, key=lambda each: each.accuracy or 0.0, default=None)
        return Tuned(
            method=name, tried=tried, best=best, edges=[] if best is None else self._edges(best, whole),
            preset=None if best is None else self._write(name, with_values(base, best.values)),
        )  # fmt: skip

    @property
    def _storage(self) -> str:
        return f"sqlite:///{self.folder / 'trials.sqlite'}"

    def _search(self, study: optuna.Study, lanes: Lanes, name: str, base: Config) -> None:
        """Ask for trials, train them, tell what came of them; equal ones are trained once."""
        left, at_work = self._prepared(study), dict[str, list[Trial]]()
        while True:
            while left > 0 and lanes.free and not self.stopping():
                trial, left = study.ask(), left - 1
                order = self._order(trial, name, base)
                at_work.setdefault(order.key, []).append(trial)
                if len(at_work[order.key]) == 1:
                    self.tell(f"begin  {name}: {words(trial.params)}")
                    lanes.begin(order)
            if not lanes.busy:
                return
            for event in lanes.events(1.0):
                if isinstance(event, Told):
                    self._report(event, at_work[event.key], lanes)
                else:
                    self._tell(study, event, at_work.pop(event.key), name)
            if self.stopping():
                lanes.stop()

    def _prepared(self, study: optuna.Study) -> int:
        """How many trials are missing. Those that were broken off wait to go on where their runs stand.

        A grid's points are handed to Optuna one by one: its own GridSampler knows no way to try a point once more.
        """
        for trial in study.get_trials(states=(TrialState.RUNNING,)):  # of a process that is gone
            study.tell(trial.number, state=TrialState.FAIL)
        done = [dict(t.params) for t in study.get_trials(states=DONE)]
        waiting = [_values(t) for t in study.get_trials(states=(TrialState.WAITING,))]
        broken = [_values(t) for t in study.get_trials(states=(TrialState.FAIL,))]
        points = [dict(zip(self.space, values, strict=True)) for values in product(*self.space.values())]
        wanted = points[: self.trials] if self.sampler == "grid" else []
        for point in [*(b for b in broken if b.keys() == self.space.keys()), *wanted]:
            if point not in (*done, *waiting):
                waiting.append(point)
                study.enqueue_trial(point)
        if self.sampler == "grid":
            return len([point for point in waiting if point not in done])
        return max(0, (self.trials or len(points)) - len(done))

    def _order(self, trial: Trial, name: str, base: Config) -> Order:
        config = with_values(base, {**self.running, **{key: self._chosen(trial, key) for key in self.space}})
        key = identity(config, config.engine.name)[:12]
        return Order(key=key, folder=self._folder_of(name, key), config=config)

    def _folder_of(self, name: str, key: str) -> Path:
        return self.folder / "runs" / f"{name.replace('/', '-')}-{key}"

    def _report(self, event: Told, trials: Sequence[Trial], lanes: Lanes) -> None:
        """The pruner sees every accuracy, and the run ends where it has seen enough."""
        if "global/accuracy" not in event.row:
            return
        for trial in trials:
            trial.report(event.row["global/accuracy"], event.row["round"])
        if trials[0].should_prune():
            lanes.stop(event.key)

    def _tell(self, study: optuna.Study, ended: Ended, trials: Sequence[Trial], name: str) -> None:
        """What came of a run, to Optuna and to whoever watches."""
        what, accuracy, state = f"{name}: {words(trials[0].params)}", None, TrialState.PRUNED
        if ended.finished:
            summary = Folder.open(self._folder_of(name, ended.key)).read("summary.json") or {}
            accuracy, state = float(summary["accuracy_last10pct"]), TrialState.COMPLETE
            self.tell(f"end    {what}: {100 * accuracy:.2f}%")
        elif ended.failed:
            state = TrialState.FAIL
            self.failures.append(f"{what}: {ended.failed}")
            self.tell(f"FAILED {what}: {ended.failed}")
        elif ended.diverged is not None:
            self.tell(f"end    {what}: diverged in round {ended.diverged}")
        elif self.stopping() and not trials[0].should_prune():
            state = TrialState.FAIL  # to be taken up again
            self.tell(f"stopped {what} after round {ended.round}")
        else:
            self.tell(f"end    {what}: pruned after round {ended.round}")
        for trial in trials:
            if ended.diverged is not None:
                trial.set_user_attr("diverged", ended.diverged)
            study.tell(trial, accuracy, state=state)

    def _study(self, name: str, base: Config) -> str:
        """A name that says what is searched: another space, sampler, length or base is another study."""
        what = [
            identity(base, base.engine.name),
            base.rounds,
            base.evaluate,
            dict(self.space),
            self.sampler,
            self.pruner,
        ]
        return f"{name} {sha256(json.dumps(what).encode()).hexdigest()[:12]}"

    def _pruner(self, base: Config) -> optuna.pruners.BasePruner:
        """Below the median of the others, once a third of the rounds is done."""
        if self.pruner == "none":
            return optuna.pruners.NopPruner()
        return optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=base.rounds // 3)

    def _chosen(self, trial: Trial, key: str) -> Any:
        """One of the values; with tpe and numbers, anything between the outermost."""
        values = self.space[key]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if self.sampler == "grid" or len(numbers) < max(2, len(values)):
            return trial.suggest_categorical(key, list(values))
        low, high = min(numbers), max(numbers)
        if all(isinstance(v, int) for v in numbers):
            return trial.suggest_int(key, int(low), int(high), log=low > 0)
        return trial.suggest_float(key, low, high, log=low > 0)

    def _edges(self, best: Tried, tried: Sequence[Tried]) -> list[str]:
        """The keys of a grid of which the outermost number that was tried is the best, and not the only one."""
        found = []
        for key in self.space if self.sampler == "grid" else ():
            numbers = {t.values[key] for t in tried if isinstance(t.values[key], int | float)} - {True, False}
            if len(numbers) > 1 and best.values[key] in (min(numbers), max(numbers)):
                found.append(key)
        return found

    def _write(self, name: str, config: Config) -> Path:
        path = self.folder / f"{name.replace('/', '-')}.yaml"
        path.write_text(yaml.safe_dump(as_yaml(config), sort_keys=False))
        return path


def with_values(base: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with these keys changed."""
    content = as_yaml(base)
    for key, value in values.items():
        put(content, key, value)
    return checked(content)


def _values(trial: FrozenTrial) -> dict[str, Any]:
    """What a trial was to be, or as much of it as was said before it was broken off."""
    return dict(trial.system_attrs.get("fixed_params", trial.params))


def _tried(trial: FrozenTrial) -> Tried:
    if trial.state is TrialState.COMPLETE:
        return Tried(values=trial.params, accuracy=trial.value)
    if "diverged" in trial.user_attrs:
        return Tried(values=trial.params, accuracy=None, how=f"diverged in round {trial.user_attrs['diverged']}")
    seen = f"{100 * trial.intermediate_values[trial.last_step]:.2f}% " if trial.last_step is not None else ""
    return Tried(values=trial.params, accuracy=None, how=f"{seen}pruned after round {trial.last_step}")


def words(values: Mapping[str, Any]) -> str:
    """Keys and values, as on a command line."""
    return ", ".join(f"{key}={v:g}" if isinstance(v, float) else f"{key}={v}" for key, v in values.items())
