"""Tuning: the same search for every method, in one SQLite file that a second start goes on with."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
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
    """The user asked for it; the trial goes on at the next start."""


class Failed(RuntimeError):  # noqa: N818  # what happened
    """What a run raised; the others go on, and it is tried again at the next start."""


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
    _lanes: SimpleQueue[Lanes] = field(default_factory=SimpleQueue)
    _at_work: dict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))  # trials of equal values share a run

    def run(self) -> list[Tuned]:
        """Search for one method after another, trials side by side."""
        self.folder.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = f"sqlite:///{self.folder / 'trials.sqlite'}"
        with ExitStack() as open_lanes:
            for _ in range(self.workers):
                self._lanes.put(open_lanes.enter_context(Lanes(1)))
            for name, base in self.bases.items():
                study = optuna.create_study(
                    storage=storage, study_name=self._study(name, base), direction="maximize", load_if_exists=True,
                    pruner=self._pruner(base),
                )  # fmt: skip
                study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # goes on, and draws nothing twice
                self._optimise(study, name, base)
                if self.stopping():
                    raise Stopped(f"stopped; the same command goes on from {self.folder}")
        return [self.found(name) for name in self.bases]

    def found(self, name: str) -> Tuned:
        """What the trials of this method say; the best one's configuration is written as a preset."""
        base = self.bases[name]
        study = optuna.load_study(
            storage=f"sqlite:///{self.folder / 'trials.sqlite'}", study_name=self._study(name, base)
        )
        tried = [_tried(trial) for trial in study.get_trials(states=DONE)]
        whole = [each for each in tried if each.accuracy is not None]
        best = max(whole, key=lambda each: each.accuracy or 0.0, default=None)
        return Tuned(
            method=name, tried=tried, best=best, edges=[] if best is None else self._edges(best, whole),
            preset=None if best is None else self._write(name, with_values(base, best.values)),
        )  # fmt: skip

    def _optimise(self, study: optuna.Study, name: str, base: Config) -> None:
        """What is missing of the grid, or of so many trials; those that were broken off go on where their runs stand.

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
        grid = len([point for point in waiting if point not in done])
        left = grid if self.sampler == "grid" else (self.trials or len(points)) - len(done)
        if left > 0:
            objective = partial(self._trial, name=name, base=base)
            study.optimize(objective, n_trials=left, n_jobs=self.workers, catch=(Stopped, Failed))

    def _trial(self, trial: Trial, name: str, base: Config) -> float:
        config = with_values(base, {**self.running, **{key: self._chosen(trial, key) for key in self.space}})
        hashed = identity(config, config.engine.name)[:12]
        order = Order(key=hashed, folder=self.folder / "runs" / f"{name.replace('/', '-')}-{hashed}", config=config)
        what = f"{name}: {words(trial.params)}"
        with self._at_work[hashed], self._lane() as lane:
            self.tell(f"begin  {what}")
            ended, pruned = self._carry_out(lane, order, trial)
            if ended.finished:
                accuracy: float = (Folder.open(order.folder).read("summary.json") or {})["accuracy_last10pct"]
                self.tell(f"end    {what}: {100 * accuracy:.2f}%")
                return accuracy
        if ended.failed:
            self.failures.append(f"{what}: {ended.failed}")
            self.tell(f"FAILED {what}: {ended.failed}")
            raise Failed(ended.failed)
        if ended.diverged is not None:
            trial.set_user_attr("diverged", ended.diverged)
        elif not pruned:
            trial.study.stop()
            raise Stopped
        self.tell(
            f"end    {what}: {f'pruned after round {ended.round}' if pruned else f'diverged in round {ended.round}'}"
        )
        raise optuna.TrialPruned

    def _carry_out(self, lane: Lanes, order: Order, trial: Trial) -> tuple[Ended, bool]:
        """Train; the pruner sees every accuracy, and the run ends where it has seen enough."""
        lane.begin(order)
        pruned = asked = False
        while True:
            for event in lane.events(1.0):
                if isinstance(event, Ended):
                    return event, pruned
                if isinstance(event, Told) and "global/accuracy" in event.row and not pruned:
                    trial.report(event.row["global/accuracy"], event.row["round"])
                    pruned = trial.should_prune()
            if (pruned or self.stopping()) and not asked:
                asked = True
                lane.stop()

    @contextmanager
    def _lane(self) -> Iterator[Lanes]:
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)

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
