"""Tuning: the same search for every method, resumed, and honest about the edge of its grid."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from igfl.cli.main import run
from igfl.runs.reading import load
from igfl.runs.tune import Search, Stopped, Tried, with_values

QUICK = ["rounds=4", "evaluate=1", "train.batch=50", "engine.name=loop"]


def tune(place: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["tune", *QUICK, "--under", str(place), "--json", *options]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_every_method_gets_the_whole_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = "train.lr=0.001,0.1,0.3"
    options = ["--method", "fedavg", "--method", "igfl/time", "--over", rates, "--pruner", "none"]
    found = tune(tmp_path, *options, capsys=capsys)
    assert [tuned["method"] for tuned in found] == ["fedavg", "igfl/time"]
    for tuned in found:
        assert sorted(t["values"]["train.lr"] for t in tuned["tried"]) == [0.001, 0.1, 0.3]
        scores = {t["values"]["train.lr"]: t["accuracy"] for t in tuned["tried"]}
        assert tuned["best"]["accuracy"] == max(scores.values())
        assert scores[0.001] < scores[0.3]
        preset = load(Path(tuned["preset"]))
        assert preset.train.lr == tuned["best"]["values"]["train.lr"]
        assert preset.method.title == tuned["method"]
        assert preset.engine.workers is None
        assert tuned["edges"] == (["train.lr"] if preset.train.lr in (0.001, 0.3) else [])

    assert tune(tmp_path, *options, capsys=capsys) == found  # nothing is left to try
    assert run(["tune", *QUICK, "--under", str(tmp_path), *options]) == 0
    told = capsys.readouterr()
    assert "begin" not in told.err
    assert "0.001" in told.out
    assert ("on the edge of what was searched" in told.out) == any(tuned["edges"] for tuned in found)


def test_a_preset_runs_to_the_accuracy_that_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tuned,) = tune(tmp_path, "method=fedavgm", "--over", "method.beta=0.5,0.9", capsys=capsys)
    assert run(["run", tuned["preset"], "--under", str(tmp_path / "runs"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy_last10pct"] == tuned["best"]["accuracy"]


def test_tpe_looks_between_the_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["method=fedavg", "--sampler", "tpe", "--trials", "4", "--over", "train.lr=0.01,0.5"]
    (tuned,) = tune(tmp_path, *options, capsys=capsys)
    rates = [t["values"]["train.lr"] for t in tuned["tried"]]
    assert len(set(rates)) == 4
    assert all(0.01 <= rate <= 0.5 for rate in rates)


def test_what_diverges_is_told_with_its_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tuned,) = tune(tmp_path, "method=fedavg", "--over", "train.lr=0.1,1e30", capsys=capsys)
    (fell,) = (t for t in tuned["tried"] if t["values"]["train.lr"] == 1e30)
    assert fell["accuracy"] is None
    assert fell["how"].startswith("diverged in round ")


def search(place: Path, **options: Any) -> Search:
    base = load(None, [*QUICK, "method=fedavg"])
    return Search(bases={"fedavg": base}, space={"train.lr": [0.03, 0.1, 0.3]}, folder=place, pruner="none", **options)


def test_a_stopped_search_goes_on_to_the_same_result(tmp_path: Path) -> None:
    (whole,) = search(tmp_path / "whole").run()
    ended: list[str] = []

    def tell(text: str) -> None:
        ended.extend([text] * text.startswith("end"))

    with pytest.raises(Stopped):
        search(tmp_path / "parts", stopping=lambda: len(ended) >= 1, tell=tell).run()
    assert len(ended) < 3
    (parts,) = search(tmp_path / "parts").run()

    def by_rate(tried: Any) -> list[Tried]:
        return sorted(tried, key=lambda t: t.values["train.lr"])

    assert by_rate(parts.tried) == by_rate(whole.tried)
    assert parts.best == whole.best


def test_a_killed_searchs_trial_is_taken_up_again(tmp_path: Path) -> None:
    """A trial that is on record as running belongs to a process that is gone."""
    import optuna

    first = search(tmp_path)
    tmp_path.mkdir(exist_ok=True)
    storage = f"sqlite:///{tmp_path / 'trials.sqlite'}"
    name = first._study("fedavg", first.bases["fedavg"])
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    trial = study.ask()
    trial.suggest_categorical("train.lr", [0.03, 0.1, 0.3])
    (tuned,) = search(tmp_path).run()
    assert sorted(t.values["train.lr"] for t in tuned.tried) == [0.03, 0.1, 0.3]


def test_a_trial_that_was_killed_before_it_chose_costs_no_point(tmp_path: Path) -> None:
    import optuna

    first = search(tmp_path)
    storage = f"sqlite:///{tmp_path / 'trials.sqlite'}"
    name = first._study("fedavg", first.bases["fedavg"])
    optuna.create_study(storage=storage, study_name=name, direction="maximize").ask()
    (tuned,) = search(tmp_path).run()
    assert sorted(t.values["train.lr"] for t in tuned.tried) == [0.03, 0.1, 0.3]


def test_control_c_is_one_line_and_exit_1(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("igfl")),
        "tune",
        "rounds=100000",
        "evaluate=1000",
        "engine.name=loop",
    ]
    options = ["--over", "train.lr=0.1,0.3", "--under", str(tmp_path)]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        while "begin" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1
    assert told.splitlines()[-1] == f"igfl: stopped; the same command goes on from {tmp_path}"
    assert "Traceback" not in told


def test_another_precision_is_another_search(tmp_path: Path) -> None:
    halves = search(tmp_path)
    halves.bases = {"fedavg": with_values(halves.bases["fedavg"], {"engine.precision": "bf16"})}
    more = search(tmp_path)
    more.bases = {"fedavg": with_values(more.bases["fedavg"], {"engine.workers": 2, "engine.memory": "disk"})}
    names = [each._study("fedavg", each.bases["fedavg"]) for each in (search(tmp_path), halves, more)]
    assert names[0] != names[1]
    assert names[0] == names[2]


def test_tpe_takes_whole_numbers_words_and_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = ["--over", "train.epochs=1,4", "--over", "train.batch=null,20", "--over", "train.lr=0.1,1"]
    options = ["method=fedavg", "--sampler", "tpe", "--trials", "4", "--workers", "2", *over]
    (one,) = tune(tmp_path, *options, capsys=capsys)
    assert {t["values"]["train.epochs"] for t in one["tried"]} <= {1, 2, 3, 4}
    assert {t["values"]["train.batch"] for t in one["tried"]} <= {None, 20}
    assert any(t["values"]["train.lr"] not in (0.1, 1) for t in one["tried"])
    options[options.index("4")] = "7"
    (more,) = tune(tmp_path, *options, capsys=capsys)
    assert more["tried"][:4] == one["tried"]
    assert len({t["values"]["train.lr"] for t in more["tried"]}) == 7  # nothing is drawn twice
    assert run(["tune", *QUICK, "--under", str(tmp_path), *options]) == 0
    assert "None" in capsys.readouterr().out


def test_equal_trials_do_not_meet_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "method=fedavg",
        "--sampler",
        "tpe",
        "--trials",
        "4",
        "--workers",
        "2",
        "--over",
        "model.name=mlp,logistic",
    ]
    (tuned,) = tune(tmp_path, *options, capsys=capsys)
    assert len(tuned["tried"]) == 4


def test_a_trial_that_fails_does_not_end_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["method=fedavg", "--over", "data.rows=100000,500", "--pruner", "none"]
    assert run(["tune", *QUICK, "--under", str(tmp_path), *options]) == 1
    told = capsys.readouterr()
    assert "igfl: a trial failed: fedavg: data.rows=100000" in told.err
    assert "data.rows=500" in told.out


def test_the_pruner_ends_what_lies_below_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["rounds=12", "method=fedavg", "--workers", "1", "--over", "train.lr=0.3,0.2,0.1,0.0001,0.0002,0.0003"]
    (tuned,) = tune(tmp_path, *options, capsys=capsys)
    pruned = [t for t in tuned["tried"] if "pruned after round" in t["how"]]
    assert len(tuned["tried"]) == 6
    assert pruned
    assert tuned["best"]["values"]["train.lr"] >= 0.1


def test_values_go_where_their_keys_say() -> None:
    base = load(None, ["method=fedavg"])
    assert with_values(base, {"method": "igfl/self", "train.lr": 0.5}).method.title == "igfl/self"
    assert with_values(base, {"split.clients": 5}).split.clients == 5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--over", "train.lr"], "over='train.lr': say what is searched as key=value,value"),
        (["--over", "train.epoch=1,2"], "train.epoch: unknown key, did you mean epochs?"),
        (["--over", "train.lr=0.1,-1"], "train.lr=-1"),
        (["--sampler", "random"], "sampler='random': unknown, choose one of grid, tpe"),
        (["--pruner", "mean"], "pruner='mean': unknown, did you mean median?"),
        (["--method", "fedavgg"], "did you mean fedavg"),
        (["--workers", "0"], "workers=0: at least one"),
        (["--over", "targets=[0.1],[0.2]"], "values are numbers, words or null"),
    ],
)
def test_mistypings_are_one_line(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", "--under", str(tmp_path / "t"), *options]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "t").exists()
