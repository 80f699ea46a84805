"""The same job gives the same bits on every engine, whoever trains whom, and whatever happens to whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import igfl
from igfl.engines import ClientError, Loop, Processes, Vectorised, choose, engine
from igfl.exact import products, weighted_sum
from igfl.models import cnn
from jobs import METHODS, cohorts, fingerprint, images, of_loop, outcome, vectors

TESTS = Path(__file__).parent


@pytest.mark.parametrize("method", METHODS)
def test_processes_give_the_bits_of_the_loop(method: str) -> None:
    job = images(method)
    with Processes(job, workers=2) as engine:
        assert fingerprint(*outcome(engine)) == of_loop(job)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_bits(workers: int) -> None:
    job = images("igfl/time")
    with Processes(job, workers=workers) as engine:
        state, memories = outcome(engine)
        assert fingerprint(state, memories) == of_loop(job)
        assert engine.evaluate(state.params) == Loop(job).evaluate(state.params)


def test_evaluation_over_several_chunks_gives_the_same_figure() -> None:
    job = images("fedavg")
    test = igfl.Batch(x=job.data.x.repeat(17, 1, 1, 1), y=job.data.y.repeat(17))
    job = images("fedavg", data=igfl.Federation(x=job.data.x, y=job.data.y, index=job.data.index,
                                                offsets=job.data.offsets, test=test))  # fmt: skip
    assert len(test.x) > 1000
    with Processes(job, workers=2) as engine:
        assert engine.evaluate(igfl.start(job).params) == Loop(job).evaluate(igfl.start(job).params)


def test_a_run_changes_engines_midway() -> None:
    job, memories = images("igfl/time"), {}
    half = list(igfl.rounds(Loop(job), memories=memories, cohorts=cohorts(job, 10)))[-1][0]
    with Processes(job, workers=2) as engine:
        state = list(igfl.rounds(engine, half, memories, cohorts=cohorts(job, 20)))[-1][0]
    assert fingerprint(state, memories) == of_loop(job)


def test_a_killed_worker_is_replaced_and_its_visits_are_repeated() -> None:
    job = images("scaffold")
    with Processes(job, workers=2) as engine:
        memories: dict[int, igfl.Memory] = {}
        for state, _ in igfl.rounds(engine, memories=memories, cohorts=cohorts(job)):
            if state.round in (3, 11):
                os.kill(engine._crew.hands[state.round % 2].process.pid, signal.SIGKILL)
        assert fingerprint(state, memories) == of_loop(job)


def test_a_worker_killed_in_the_middle_of_a_visit_changes_nothing() -> None:
    job = vectors("igfl/time", task=Slow(0.02, vectors("igfl/time").task))
    with Processes(job, workers=2) as engine:
        outcome(engine, rounds=1)
        killer = threading.Timer(0.05, lambda: os.kill(engine._crew.hands[0].process.pid, signal.SIGKILL))
        killer.start()
        assert fingerprint(*outcome(engine, rounds=3)) == of_loop(job, rounds=3)
        killer.join()


@dataclass
class Slow:
    """A task that takes its time."""

    seconds: float
    task: igfl.ModuleTask

    def initial(self):
        return self.task.initial()

    def gradient(self, params, batch):
        time.sleep(self.seconds)
        return self.task.gradient(params, batch)

    def evaluate(self, params, batch):
        return self.task.evaluate(params, batch)


@dataclass
class Failing(Slow):
    """A task that fails where a client holds a certain label."""

    label: int = 3

    def gradient(self, params, batch):
        if len(batch.y) == 1 and batch.generator is not None and batch.x.shape[0] == 1:
            raise ZeroDivisionError("no gradient today")
        return self.task.gradient(params, batch)


@pytest.mark.parametrize("kind", [Loop, Processes])
def test_what_a_client_raises_names_client_and_round(kind) -> None:
    job = vectors("fedavg", task=Failing(0, vectors("fedavg").task), plan=igfl.Plan(lr=0.1))
    with (
        kind(job) as engine,
        pytest.raises(ClientError, match=r"^client 2 in round 0: ZeroDivisionError: no grad") as e,
    ):
        list(igfl.rounds(engine, cohorts=igfl.Sampled(rounds=1)))
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_no_worker_outlives_an_exception() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with Processes(images("fedavg"), workers=2) as engine:
            outcome(engine, rounds=1)
            pids.extend(hand.process.pid for hand in engine._crew.hands)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_no_worker_outlives_control_c() -> None:
    program = (
        "from igfl.engines import Processes; import igfl, jobs\n"
        "if __name__ == '__main__':\n"
        "    job = jobs.images('fedavg')\n"
        "    with Processes(job, workers=2) as engine:\n"
        "        for state, _ in igfl.rounds(engine, cohorts=jobs.cohorts(job, 10**9)):\n"
        "            if state.round == 1: print(*[h.process.pid for h in engine._crew.hands], flush=True)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program], cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pids = [int(word) for word in run.stdout.readline().split()]
    assert len(pids) == 2
    run.send_signal(signal.SIGINT)
    _, complaint = run.communicate(timeout=30)
    assert "KeyboardInterrupt" in complaint
    assert not any(alive(pid) for pid in pids)


def test_workers_end_when_their_engine_is_killed() -> None:
    program = (
        "from igfl.engines import Processes; import igfl, jobs, os, signal\n"
        "if __name__ == '__main__':\n"
        "    engine = Processes(jobs.images('fedavg'), workers=2)\n"
        "    jobs.outcome(engine, rounds=1)\n"
        "    print(*[h.process.pid for h in engine._crew.hands], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], cwd=TESTS, capture_output=True, text=True, check=False).stdout
    pids = [int(word) for word in out.split()]
    assert len(pids) == 2
    end = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_sums_over_a_cohort_do_not_depend_on_threads() -> None:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 2**17 + 77, generator=draws)
    weights = torch.rand(9, generator=draws)
    blocks = [slice(0, 2**16), slice(2**16, 2**17), slice(2**17, None)]
    torch.testing.assert_close(weighted_sum(weights, rows), weights @ rows)
    torch.testing.assert_close(products(rows), rows @ rows.T, rtol=1e-4, atol=1.0)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(products(rows), sum(rows[:, b] @ rows[:, b].T for b in blocks))
        one = weighted_sum(weights, rows)
        torch.set_num_threads(4)
        assert torch.equal(one, weighted_sum(weights, rows))
    finally:
        torch.set_num_threads(before)


def test_the_rule_of_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igfl.engines.choice.cores", lambda: 4)
    assert choose(vectors("igfl/time"))[0] == "vectorised"
    name, why = choose(images("fedavg"))
    assert name == "processes"
    assert "4 cores" in why
    assert choose(images("fedavg", task=igfl.ModuleTask(cnn())))[0] == "processes"
    monkeypatch.setattr("igfl.engines.choice.cores", lambda: 1)
    assert choose(images("fedavg"))[0] == "loop"


def test_engines_by_name() -> None:
    job = vectors("fedavg")
    assert isinstance(engine(job), Vectorised)
    assert isinstance(engine(job, "loop", workers=3), Loop)
    with engine(job, "processes", workers=3) as found:
        assert found._crew.workers == 3
    with pytest.raises(ValueError, match=r"^engine='proceses': unknown, did you mean processes\?"):
        engine(job, "proceses")
    with pytest.raises(ValueError, match=r"^workers=0: at least one process trains; None takes one a core$"):
        engine(job, "processes", workers=0)
