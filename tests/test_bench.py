"""`igfl bench`: it measures what it says it does, and other programs through their standard input and output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

import igfl
from igfl.bench import measure, peers
from igfl.bench.bare import Bare
from igfl.bench.profile import where_time_goes
from igfl.bench.workloads import WORKLOADS, workload
from igfl.cli.main import run
from igfl.engines import Loop, Vectorised
from igfl.training import Sampled, rounds

DRIVER = """
import sys
print("ready {name} 1.2.3", flush=True)
for line in sys.stdin:
    if {fails}: sys.exit("no more memory")
    print("done", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two peers, of which one fails in its first round."""
    for name in ("flower", "pfl"):
        (tmp_path / f"{name}.py").write_text(DRIVER.format(name=name, fails=name == "pfl"))
        python = peers.python_of(name, tmp_path)
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    return tmp_path


def test_a_peer_is_asked_for_one_round_at_a_time(folder: Path) -> None:
    peer = peers.Peer("flower", "C", folder=folder)
    assert peer.version == "flower 1.2.3"
    peer.round()
    peer.round()
    peer.close()
    assert peer._process.returncode == 0


def test_a_peer_that_fails_says_why(folder: Path) -> None:
    peer = peers.Peer("pfl", "C", folder=folder)
    with pytest.raises(RuntimeError, match=r"^pfl ended where it should say 'done': no more memory$"):
        peer.round()
    assert not peers.installed("fluke", folder)


def test_the_workloads_are_those_of_the_table() -> None:
    sizes = {name: len(w.job().task.initial()) for name, w in WORKLOADS.items()}
    assert sizes == {"A": 1_756_426, "B": 1_206_590, "C": 610}


def test_ratios_are_of_medians_to_the_base() -> None:
    table = measure.ratios({"bare": [2.0, 4.0, 6.0, 4.0], "ours": [1.0, 2.0, 3.0, 2.0]})
    assert table["ours"]["ratio"] == table["ours"]["low"] == 0.5
    assert table["bare"]["seconds"] == 4.0


def test_the_bare_loop_trains_and_both_its_processes_end() -> None:
    for tuned in (False, True):
        bare = Bare("C", tuned=tuned)
        bare.round()
        bare.close()
        assert all(process.exitcode == 0 for process in bare._processes)


def test_the_profile_trains_what_the_loop_trains() -> None:
    job = workload("C").job(igfl.method("igfl/time"))
    parts = where_time_goes(job, cohort=5, rounds=2, test_rows=100)
    assert set(parts) == {"load", "correction", "steps", "update", "memory", "screen", "reduce", "evaluate"}
    assert all(seconds > 0 for seconds in parts.values())


def test_the_vectorised_engine_trains_workload_c_as_the_loop_does() -> None:
    job = workload("C").job(igfl.method("igfl/time"))
    (a, _), (b, _) = (list(rounds(kind(job), cohorts=Sampled(rounds=3, size=100)))[-1] for kind in (Loop, Vectorised))
    torch.testing.assert_close(a.params, b.params, rtol=1e-5, atol=1e-7)


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "C", "--seconds", "0.1", "--json", "--method", "igfl/time", "--against", "bare,fluke"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"bare", "vectorised igfl/time"} <= found["table"].keys()
    assert found["parts"]["igfl/time"]["steps"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bench D", "workload='D': unknown"),
        ("bench C --against flour", "did you mean flower"),
        ("bench C --precision fp16", "precision='fp16': unknown"),
        ("bench C --engine vectorized", "did you mean vectorised"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1
