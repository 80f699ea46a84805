"""The command line through its entry function: what it prints, and what a typing mistake gets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from igfl.cli.main import run


def test_data_check(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", "mnist_writers", "--folder", str(real_data), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["train"], facts["test"], facts["writers"]) == (60_000, 10_000, 539)
    assert run(["data", "check", "digits"]) == 0
    assert "1,437 + 360 of 1x8x8, 10 classes" in capsys.readouterr().out


def test_split_show_prints_draws_and_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, picture = tmp_path / "p.json", tmp_path / "pictures" / "p"
    command = ["split", "show", "digits", "dirichlet", "clients=12", "rho=0.1", "seed=3"]
    assert run([*command, "--json", "--save", str(saved), "--draw", str(picture)]) == 0
    passport = json.loads(capsys.readouterr().out)
    assert (passport["clients"], passport["seed"], passport["parameters"]["rho"]) == (12, 3, 0.1)
    assert json.loads(saved.read_text())["passport"]["sha256"] == passport["sha256"]
    assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "airplane" not in picture.with_suffix(".svg").read_text()
    assert run(["split", "show", "digits", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == passport["sha256"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("data check cifr10", "did you mean cifar10"),
        ("data fetch emnst", "did you mean emnist"),
        ("data check cifar10 --folder /nowhere/at/all", "cifar10: no data_batch_1.bin in /nowhere/at/all"),
        ("split show digits dirichlt", "did you mean dirichlet"),
        ("split show digits dirichlet roh=1", "did you mean rho"),
        ("split show digits dirichlet rho=a", "rho='a': give a number"),
        ("split show digits shards clients=x", "clients=x: give a whole number"),
        ("split show digits shards clients", "give options as key=value"),
        ("split show digits writers", "does not say who wrote what"),
        ("split show digits absent.json", "absent.json: no such partition file"),
        ("split show digits", "Missing argument"),
        ("slpit show", "No such command 'slpit'"),
        ("data check digits --jsn", "No such option"),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == 2
    told = capsys.readouterr().err.strip()
    assert message in told
    assert "\n" not in told
    assert "Traceback" not in told


def test_help_has_an_example_and_loads_no_torch() -> None:
    program = "import sys; from igfl.cli.main import run; run(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    for verb in (["--help"], ["data", "--help"], ["split", "show", "--help"], ["data", "fetch", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *verb], capture_output=True, text=True, check=True)
        assert (len(verb) < 3 and "Usage" in done.stdout) or "Example: igfl" in done.stdout
