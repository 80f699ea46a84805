"""Runs as people live with them: started, watched, killed, gone on with, compared."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import igfl
from igfl.cli.main import run
from igfl.models import mlp
from igfl.runs.build import build
from igfl.runs.folder import Folder
from igfl.runs.reading import load
from igfl.runs.run import Run, due, identity
from igfl.runs.sinks import Sinks, TensorBoard
from igfl.screening import Diverged

IGFL = str(Path(sys.executable).with_name("igfl"))
QUICK = ["rounds=8", "train.batch=50", "checkpoint=3", "engine.name=loop"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def start(runs: Path, *options: str) -> dict:
    """A run through the entry function, and its summary."""
    assert run(["run", "--under", str(runs), *QUICK, *options]) == 0
    newest = max(runs.iterdir(), key=lambda path: path.stat().st_ctime_ns)
    return {"run": str(newest), **json.loads((newest / "summary.json").read_text())}


def test_a_run_leaves_all_that_is_promised(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = start(runs, "targets=[0.3]", "split.holdout=0.2", "clients.test=held")
    folder = Path(summary["run"])
    assert folder.name == "run-001"
    told = capsys.readouterr()
    assert "TimeAttention" in told.err
    assert summary["digest"] in told.out
    rows = Folder(folder).rows()
    assert [row["round"] for row in rows] == list(range(1, 9))
    assert {"train/loss", "drift/norm_mean", "drift/norm_max", "drift/cosine", "attention/entropy", "attention/max",
            "comm/up_bytes", "comm/down_bytes", "time/round_s", "digest", "hashes"} <= rows[0].keys()  # fmt: skip
    assert {"global/accuracy", "global/loss", "clients/accuracy_mean", "clients/accuracy_std", "clients/accuracy_p10",
            "clients/accuracy_worst"} <= rows[-1].keys()  # fmt: skip
    assert summary["accuracy_last"] == rows[-1]["global/accuracy"]
    assert summary["rounds_to_0.3"] is not None
    assert {"python", "packages", "processor"} <= json.loads((folder / "environment.json").read_text()).keys()
    assert sorted(path.name for path in folder.rglob("*.pkl")) == []
    with np.load(folder / "behaviour" / "00000008.npz", allow_pickle=False) as snapshot:
        assert snapshot["similarity"].shape == (10, 10)
        assert snapshot["weights"].sum() == pytest.approx(1)


def test_the_model_loads_into_the_plain_module(runs: Path) -> None:
    folder = Path(start(runs)["run"])
    module = mlp(inputs=64)
    module.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
    test = build(load(folder / "config.yaml")).job.data.test
    accuracy = float(
        (module(test.x.float() / 255 if test.x.dtype == torch.uint8 else test.x).argmax(1) == test.y).double().mean()
    )
    assert accuracy == pytest.approx(json.loads((folder / "summary.json").read_text())["accuracy_last"])


def test_its_own_config_gives_the_same_digest_on_any_engine(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["method=scaffold", "cohort=4", "clients.drop=0.1", "clients.slow=0.2"]
    first = start(runs, *options)
    assert run(["run", f"{first['run']}/config.yaml", "--under", str(runs)]) == 0
    assert run(["run", f"{first['run']}/config.yaml", "engine.name=processes", "engine.workers=2", "engine.memory=disk",
                "engine.cache=2", "--under", str(runs)]) == 0  # fmt: skip
    capsys.readouterr()
    assert run(["compare", *(str(runs / f"run-00{i}") for i in (1, 2, 3)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["equal"] for each in found] == [True, True]
    assert found[1]["config"] == {"engine.cache": [1000, 2], "engine.memory": ["ram", "disk"],
                                  "engine.name": ["loop", "processes"], "engine.workers": [None, 2]}  # fmt: skip


def test_compare_names_the_first_round_and_array_that_differ(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(runs)
    start(runs, "train.lr=0.2")
    capsys.readouterr()
    assert run(["compare", str(runs / "run-001"), str(runs / "run-002")]) == 0
    out = capsys.readouterr().out
    assert "differs from" in out
    assert "from round 1 on, first in params/1.weight" in out
    assert "config train.lr: 0.1 there, 0.2 here" in out
    assert run(["compare", str(runs / "run-001")]) == 2
    assert run(["compare", str(runs / "run-001"), str(runs / "run-009")]) == 2
    assert "no run is here" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["igfl/time", "scaffold", "fedadam"])
def test_a_run_killed_six_times_ends_as_the_undisturbed_one(method: str, runs: Path) -> None:
    lives = int(os.environ.get("IGFL_KILLS", "6"))
    assert kill_and_resume(method, runs, lives)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["igfl/time", "scaffold", "fedadam"])
def test_a_run_killed_twenty_times_ends_as_the_undisturbed_one(method: str, runs: Path) -> None:
    assert kill_and_resume(method, runs, 20)


def kill_and_resume(method: str, runs: Path, kills: int) -> bool:
    rounds = 250 * max(1, kills // 6)
    options = [f"method={method}", f"rounds={rounds}", "checkpoint=2", "engine.name=loop", "cohort=5", "evaluate=20"]
    assert run(["run", "--under", str(runs / "whole"), *options]) == 0
    folder, draws = runs / "killed" / "run-001", random.Random(method)  # noqa: S311  # moments
    killed = 0
    for life in range(kills):
        command = ["resume", str(folder)] if folder.exists() else ["run", "--under", str(runs / "killed"), *options]
        done = Folder(folder).rows()[-1:] if folder.exists() else []
        process = subprocess.Popen([IGFL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        at_least = draws.randrange(1, 2 * rounds // (3 * kills)) + (done[0]["round"] if done else 0) - 2
        while process.poll() is None and not (
            folder.exists() and any(r["round"] >= at_least for r in Folder(folder).rows()[-1:])
        ):
            time.sleep(draws.uniform(0.001, 0.02))
        if process.poll() is None:
            process.kill()
            killed += 1
        process.wait()
    assert killed >= kills - 1
    assert subprocess.run([IGFL, "resume", str(folder)], capture_output=True, check=True).returncode == 0
    whole, mine = Folder(runs / "whole" / "run-001"), Folder(folder)
    assert [row["round"] for row in mine.rows()] == list(range(1, rounds + 1))
    return [row["digest"] for row in mine.rows()] == [row["digest"] for row in whole.rows()]


def test_control_c_finishes_the_round_and_says_how_to_go_on(runs: Path) -> None:
    options = ["rounds=100000", "engine.name=loop", "evaluate=1000", "checkpoint=50"]
    process = subprocess.Popen([IGFL, "run", "--under", str(runs), *options], stderr=subprocess.PIPE, text=True)
    folder = Folder(runs / "run-001")
    while not (folder.path.exists() and folder.rows()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    last = folder.rows()[-1]["round"]
    assert told.splitlines()[-1] == f"stopped after round {last}; go on with: igfl resume {folder.path}"
    assert (folder.path / "state" / f"checkpoint-{last:08}.safetensors").exists()


def test_a_second_control_c_stops_at_once_and_loses_nothing(runs: Path) -> None:
    options = ["rounds=4", "engine.name=loop", "checkpoint=1", "train.epochs=80", "method=scaffold"]
    assert run(["run", "--under", str(runs), *options]) == 0
    command = [IGFL, "run", "--under", str(runs), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    folder = Folder(runs / "run-002")
    while not (folder.path.exists() and folder.rows()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "Ctrl-C again stops at once" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.splitlines()[-1] == "igfl: stopped"
    assert len(folder.rows()) < 4
    assert run(["resume", str(folder.path)]) == 0
    digests = [json.loads((runs / name / "summary.json").read_text())["digest"] for name in ("run-001", "run-002")]
    assert digests[0] == digests[1]


def descendants(pid: int) -> list[tuple[int, str]]:
    """Processes below this one, and what they call themselves."""
    found = []
    for path in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            name = Path(f"/proc/{path}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except FileNotFoundError:
            continue
        found += [(int(path), name), *descendants(int(path))]
    return found


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(("engine", "worker"), [("processes", "spawn_main"), ("ray", "ray::Actor")])
def test_a_run_whose_worker_is_killed_ends_as_the_undisturbed_one(engine: str, worker: str, runs: Path) -> None:
    options = ["rounds=30", "train.epochs=5", "method=igfl/time"]
    assert run(["run", "--under", str(runs), *options, "engine.name=loop"]) == 0
    command = [IGFL, "run", "--under", str(runs), *options, f"engine.name={engine}", "engine.workers=2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = Folder(runs / "run-002")
    while not (folder.path.exists() and len(folder.rows()) >= 3):
        assert process.poll() is None
        time.sleep(0.05)
    workers = [pid for pid, name in descendants(process.pid) if worker in name]
    assert len(workers) >= 2
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait(timeout=120) == 0
    one, two = (Folder(runs / name).rows() for name in ("run-001", "run-002"))
    assert [row["digest"] for row in one] == [row["digest"] for row in two]


def test_diverging_is_told_and_exits_1(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--under", str(runs), *QUICK, "train.lr=1e30", "method=fedavg"]) == 1
    assert "diverged at round 0" in capsys.readouterr().err
    assert json.loads((runs / "run-001" / "summary.json").read_text())["diverged"] == 0
    assert run(["list", "runs", "--under", str(runs)]) == 0
    assert "diverged at round 0" in capsys.readouterr().out


class Exploding(torch.nn.Linear):
    """A model that fails after a while."""

    def __init__(self) -> None:
        super().__init__(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and float(self.weight.detach().std()) > 0.08:
            raise ArithmeticError("too wide")
        return super().forward(x.flatten(1))


def test_what_a_model_raises_is_told_last_with_client_and_round(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--under", str(runs), *QUICK, "model=test_runs:Exploding", "train.lr=1"]) == 1
    complaint = capsys.readouterr().err.splitlines()
    assert complaint[-1].startswith("igfl: client 0 in round ")
    assert complaint[-1].endswith("ArithmeticError: too wide")
    assert any("in forward" in line for line in complaint)


def test_a_changed_config_or_partition_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(start(runs)["run"])
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("lr: 0.1", "lr: 0.2"))
    capsys.readouterr()
    assert run(["resume", str(folder)]) == 2
    assert "is not the one this run was started with" in capsys.readouterr().err
    (folder / "config.yaml").write_text(config.replace("clients: 10", "clients: 5"))
    assert run(["resume", str(folder)]) == 2
    assert "not the partition it was started with" in capsys.readouterr().err
    (folder / "config.yaml").write_text(config.replace("rounds: 8", "rounds: 10"))
    assert run(["resume", str(folder)]) == 0
    assert Folder(folder).rows()[-1]["round"] == 10


def test_a_torn_last_line_is_cut(runs: Path) -> None:
    whole = start(runs)
    folder = Folder(Path(start(runs)["run"]))
    path = folder.path / "metrics.jsonl"
    path.write_text(path.read_text()[:-40])
    (folder.path / "state" / "checkpoint-00000008.safetensors").write_bytes(b"torn")
    assert run(["resume", str(folder.path)]) == 0
    assert [row["round"] for row in folder.rows()] == list(range(1, 9))
    assert json.loads((folder.path / "summary.json").read_text())["digest"] == whole["digest"]


def test_a_sink_that_fails_is_dropped_and_the_run_goes_on(runs: Path) -> None:
    config = load(None, QUICK)
    built, seen = build(config), []

    def failing(row) -> None:
        raise OSError("nobody home")

    engine = built.engine()
    sinks = Sinks((lambda _: failing, lambda _: seen.append))
    with pytest.warns(UserWarning, match="a sink is dropped, failing failed: OSError: nobody home"):
        outcome = Run(Folder.new(runs, config), built, sinks=sinks).go(engine)
    assert outcome.finished
    assert len(seen) == 8


def test_tensorboard_reads_what_is_written(runs: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = load(None, QUICK)
    built = build(config)
    folder = Folder.new(runs, config)
    sinks = Sinks((lambda round: TensorBoard(folder.path / "tensorboard", round),))
    Run(folder, built, sinks=sinks).go(built.engine())
    events = EventAccumulator(str(folder.path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 9))


def test_evaluation_is_dense_in_the_last_tenth() -> None:
    at = [round for round in range(1, 1001) if due(round, 1000, 100)]
    assert at[:8] == [100, 200, 300, 400, 500, 600, 700, 800]
    assert len([round for round in at if round > 900]) == 50
    assert at[-1] == 1000
    assert [round for round in range(1, 31) if due(round, 30, 10)] == [10, 20, 28, 29, 30]


def test_what_decides_the_bits_is_what_a_run_is_known_by() -> None:
    base = identity(load(None), "loop")
    for same in (
        "name=other",
        "engine.name=processes",
        "engine.workers=3",
        "evaluate=3",
        "rounds=99",
        "clients.every=3",
    ):
        assert identity(load(None, [same]), "processes") == base, same
    for other in ("seed=1", "train.lr=0.2", "engine.precision=bf16", "clients.drop=0.1"):
        assert identity(load(None, [other]), "loop") != base, other
    assert identity(load(None), "vectorised") != base


def test_the_plan_counts_and_runs_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--under", str(runs), "--plan", "--json", *QUICK]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["parameters"] == "9,610"
    assert plan["up, a round"] == "384 kB"
    assert not runs.exists()


def test_lists(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("presets", "methods", "models", "datasets", "splits", "runs"):
        assert run(["list", what, "--json", "--under", str(runs)]) == 0
        json.loads(capsys.readouterr().out)
    assert run(["list", "method"]) == 2
    assert "did you mean methods" in capsys.readouterr().err


def test_a_run_that_diverges_later_can_be_told_from_one_that_failed(runs: Path) -> None:
    config = load(None, [*QUICK, "screen.policy=stop", "screen.limit=1e-9"])
    built = build(config)
    with pytest.raises(Diverged):
        Run(Folder.new(runs, config), built).go(built.engine())
    assert igfl.Diverged is Diverged
