"""Bad input: one line that names the culprit and the cure, before any work, whatever the mistake."""

from __future__ import annotations

import dataclasses
import inspect
import json
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from igfl.cli.main import run
from igfl.data.partitions import RULES
from igfl.data.sets import DATASETS
from igfl.engines import ENGINES
from igfl.methods import METHODS
from igfl.models import MODELS
from igfl.runs import catalogue
from igfl.runs.config import Config, as_yaml
from igfl.runs.presets import PRESETS
from igfl.runs.reading import checked, load

BAD = {
    "rounds": ["0", "-3", "many", "1.5", "[1]"],
    "cohort": ["0", "11", "x"],
    "seed": ["-1", "a"],
    "name": ["''", "a/b", "../x"],
    "evaluate": ["0", "never"],
    "checkpoint": ["0"],
    "behaviour": ["-1"],
    "targets": ["[2]", "x"],
    "train.lr": ["0", "-1", "fast", ".inf", ".nan"],
    "train.epochs": ["0", "half"],
    "train.batch": ["0", "-5", "x"],
    "train.steps": ["0"],
    "train.weight_decay": ["-0.1", ".inf"],
    "train.schedule.name": ["cosin", "linear"],
    "train.schedule.factor": ["0", "2"],
    "train.schedule.end": ["0"],
    "engine.name": ["vectorized", "proceses", "gpu"],
    "engine.workers": ["0", "two"],
    "engine.precision": ["bf15", "fp16"],
    "engine.memory": ["disc"],
    "engine.cache": ["0"],
    "clients.drop": ["1", "-0.1", "x"],
    "clients.slow": ["1.5"],
    "clients.test": ["helt", "held"],
    "screen.policy": ["rejct"],
    "screen.limit": ["0"],
    "method.name": ["fedavgg", "igflc", "adam", "3"],
    "method.attention": ["tme", "all"],
    "method.temprature": ["1"],
    "data.name": ["cifar", "digit"],
    "data.augment": ["yes"],
    "data.pth": ["x"],
    "split.name": ["shard", "dirichelt"],
    "split.clients": ["0", "ten"],
    "split.share": ["1"],
    "split.holdout": ["-0.5"],
    "split.rho": ["1"],
    "model.name": ["mpl", "resnet"],
    "model.widths": ["[3]"],
}
ALWAYS = ["metod=fedavg", "train.lrr=0.1", "rounds", "=3", "train=3", "seed.x=1", "engine.workers.n=2", "train.lr=[",
          "method=igfl", "method=igfl/tim", "method=igfl_s", "method=vrl_sgd,cohort=3", "split=writers",
          "split=explicit", "data=npz", "data=synthetic,data.rows=3", "model.hidden=x", "method.temperature=0",
          "method.temperature=hot", "split=dirichlet,split.rho=0", "split=dirichlet,split.rho=x",
          "split=dirichlet,split.order=random", "model=nowhere:thing", "data=os:nothing",
          "train.schedule.name=cosine,train.schedule.end=1", "method=fedadam,method.tau=0"]  # fmt: skip


def bad_command_lines() -> list[list[str]]:
    draws = random.Random(5)  # noqa: S311  # typing mistakes
    lines = [[f"{key}={value}"] for key, values in BAD.items() for value in values]
    lines += [text.split(",") for text in ALWAYS]
    keys = [key for key in BAD if "." in key or key in Config.model_fields]
    while len(lines) < 300:
        key = draws.choice(keys)
        place = draws.randrange(len(key))
        typed = key[:place] + draws.choice("abcxyz_") + key[place + draws.randrange(2) :]
        section, dot, _ = key.rpartition(".")
        if (
            typed not in BAD
            and typed.partition(".")[0] != ""
            and not (dot and section in ("method", "data", "split", "model"))
        ):
            lines.append([f"{typed}=1"])
    return lines


LINES = bad_command_lines()


@pytest.mark.parametrize("part", range(10))
def test_bad_command_lines(part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in LINES[part::10]:
        assert run(["run", "--under", str(tmp_path / "runs"), *line]) == 2, line
        out, complaint = capsys.readouterr()
        assert not out, line
        assert complaint.startswith("igfl: "), line
        assert complaint.count("\n") == 1, line
        assert len(complaint) < 400, line
        assert not (tmp_path / "runs").exists(), line


def test_there_are_three_hundred_of_them() -> None:
    assert len({tuple(line) for line in LINES}) >= 290
    assert len(LINES) >= 300


@pytest.mark.parametrize("line", [LINES[i] for i in range(0, 300, 30)])
def test_ten_of_them_as_processes(line: list[str], tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("igfl")), "run", *line]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("igfl: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("metod=fedavg", "metod: unknown key, did you mean method?"),
        ("train.lrr=1", "train.lrr: unknown key, did you mean lr?"),
        ("engine.name=vectorized", "engine.name='vectorized': did you mean vectorised?"),
        ("method=igfl/tme", "method.attention='tme': did you mean time?"),
        ("rounds=0", "rounds=0: input should be greater than or equal to 1"),
        ("cohort=11", "cohort=11: there are 10 clients; choose 1 to that many"),
        ("method=fedprox method.mü=1", "method.mü: fedprox has no such option, choose one of mu, lr"),
        ("model=mpl", "model.name='mpl': did you mean mlp?"),
    ],
)
def test_it_names_key_value_and_cure(line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", *line.split()]) == 2
    assert capsys.readouterr().err == f"igfl: {complaint}\n"


@pytest.mark.parametrize("content", ["[1, 2]", "a: [", "rounds: 3\nrounds", "\xff\xfe"])
def test_bad_files(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content, encoding="latin-1")
    assert run(["run", str(path)]) == 2
    assert run(["run", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_validation_and_help_do_not_load_torch() -> None:
    program = (
        "import sys; from igfl.cli.main import run\n"
        "assert run(['run', 'metod=1']) == 2 and run(['run', 'train.lr=0']) == 2 and run(['--help']) == 0\n"
        "assert run(['run', '--help']) == 0 and run(['list', 'methods']) == 0 and run(['config', 'schema']) == 0\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_every_verb_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (
        "run",
        "resume",
        "compare",
        "list",
        "bench",
        "config schema",
        "split show",
        "data fetch",
        "data check",
    ):
        assert run([*verb.split(), "--help"]) == 0
        assert f"Example: igfl {verb}" in " ".join(capsys.readouterr().out.split())


def test_the_catalogue_is_what_there_is() -> None:
    def options(place: str) -> set[str]:
        module, _, name = place.partition(":")
        return set(inspect.signature(getattr(import_module(module), name)).parameters) - {"known", "writers"}

    assert {name: set(known) for name, known in catalogue.METHODS.items()} == {
        name: set(inspect.signature(factory).parameters) for name, factory in METHODS.items()
    }
    assert {name: set(known) for name, known in catalogue.DATASETS.items()} == {
        n: options(p) for n, p in DATASETS.items()
    }
    assert {name: set(known) for name, known in catalogue.MODELS.items()} == {n: options(p) for n, p in MODELS.items()}
    assert {name: set(known) for name, known in catalogue.RULES.items()} == {
        name: {f.name for f in dataclasses.fields(kind)} - {"ids"} for name, kind in RULES.items()
    }
    assert ("auto", *ENGINES) == catalogue.ENGINES
    assert set(catalogue.ENGINES) == set(
        Config.model_fields["engine"].annotation.model_fields["name"].annotation.__args__
    )


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    for _, content in PRESETS.values():
        config = checked(content)
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(as_yaml(config)))
        assert load(path) == config


def test_numbers_are_numbers_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("method: {name: igfl, attention: time, temperature: 1e-2}\nsplit: {name: dirichlet, rho: 1e3}\n")
    config = load(path)
    assert (config.method.options["temperature"], config.split.options["rho"]) == (0.01, 1000)
    config = load(None, ["method.temperature=inf"])
    assert config.method.options == {"attention": "time", "temperature": float("inf")}
    path.write_text(yaml.safe_dump(as_yaml(config)))
    assert load(path) == config


def test_overrides_go_on_top_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("method: fedprox\ntrain: {lr: 0.5, epochs: 3}\n")
    config = load(path, ["train.lr=1e-3", "method.mu=0.1", "split.name=dirichlet", "split.rho=0.1"])
    assert (config.train.lr, config.train.epochs) == (0.001, 3)
    assert config.method.options == {"mu": 0.1}
    assert config.split.options == {"rho": 0.1}


def test_the_schema_is_json_and_knows_the_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "schema"]) == 0
    assert {"method", "train", "split"} <= json.loads(capsys.readouterr().out)["properties"].keys()
