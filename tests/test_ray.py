"""Ray's actors give the bits of the loop: on this machine, on a cluster of several nodes, and when some are lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import igfl
from igfl.engines import ClientError, Loop, engine
from igfl.engines.cluster import Session, balanced
from igfl.engines.ray import Ray
from jobs import METHODS, fingerprint, images, of_loop, outcome, vectors
from test_engines import Failing, Slow, alive

pytestmark = [
    pytest.mark.xdist_group("ray"),  # one Ray for all tests of this file
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's own open files
    pytest.mark.filterwarnings("ignore:Tip. In future versions of Ray:FutureWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def ray_of_our_own() -> Iterator[None]:
    """Keeps one Ray up while this file's engines come and go."""
    session = Session(None, {})
    yield
    session.close()


@pytest.mark.parametrize("method", METHODS)
def test_ray_gives_the_bits_of_the_loop(method: str) -> None:
    job = images(method)
    with Ray(job, workers=2) as engine:
        state, memories = outcome(engine)
        assert fingerprint(state, memories) == of_loop(job)
        assert engine.evaluate(state.params) == Loop(job).evaluate(state.params)


def test_a_killed_actor_is_replaced_and_its_visits_are_repeated() -> None:
    import ray

    job = vectors("igfl/time", task=Slow(0.02, vectors("igfl/time").task))
    with Ray(job, workers=2) as engine:
        outcome(engine, rounds=1)
        pid = ray.get(engine._cast._free[0].__ray_call__.remote(lambda _: os.getpid()))
        killer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
        killer.start()
        assert fingerprint(*outcome(engine, rounds=3)) == of_loop(job, rounds=3)
        killer.join()


def test_what_a_client_raises_names_client_and_round() -> None:
    job = vectors("fedavg", task=Failing(0, vectors("fedavg").task), plan=igfl.Plan(lr=0.1))
    with Ray(job) as engine, pytest.raises(ClientError, match=r"^client 2 in round 0: ZeroDivisionError: no grad") as e:
        list(igfl.rounds(engine, cohorts=igfl.Sampled(rounds=1)))
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_a_module_of_odd_size_keeps_its_rows_aligned() -> None:
    job = images("igfl/time")
    assert job.task.initial().numel() % 2
    with engine(job, "ray", workers=2) as found:
        assert fingerprint(*outcome(found, rounds=2, size=7)) == of_loop(job, rounds=2, size=7)


def test_shares_are_balanced_longest_first() -> None:
    sizes = [7, 1, 5, 3, 2, 2]
    shares = balanced(range(6), sizes, 2)
    assert sorted(place for share in shares for place in share) == list(range(6))
    assert [sum(sizes[place] for place in share) for share in shares] == [10, 10]
    assert balanced([], sizes, 2) == [[], []]


def test_no_process_outlives_the_engine_and_nothing_is_reported() -> None:
    program = (
        "import igfl, jobs, os, subprocess\n"
        "from igfl.engines.ray import Ray\n"
        "import ray\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        with Ray(jobs.images('fedavg'), workers=2) as engine:\n"
        "            jobs.outcome(engine, rounds=1)\n"
        "            print(ray._private.worker.global_worker.node.get_session_dir_path(), flush=True)\n"
        "            print(ray.get(engine._cast._free[0].__ray_call__.remote(lambda _: os.getpid())))\n"
        "            servants = ray._private.worker._global_node.all_processes.values()\n"
        "            print(*[servant.process.pid for kind in servants for servant in kind])\n"
        "            print(os.environ['RAY_USAGE_STATS_ENABLED'])\n"
        "            raise KeyError\n"
        "    except KeyError: print('left')\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folder, actor, servants, usage, last = out
    assert (usage, last) == ("0", "left")
    assert not Path(folder).exists()
    pids = [int(actor), *map(int, servants.split())]
    assert len(pids) >= 3
    assert not wait_until(lambda: any(alive(pid) for pid in pids), False)


def wait_until(question, wanted: bool, seconds: float = 20):
    end = time.monotonic() + seconds
    while bool(question()) is not wanted and time.monotonic() < end:
        time.sleep(0.1)
    return question()


def test_an_address_where_nobody_answers_is_refused() -> None:
    program = "import jobs; from igfl.engines.ray import Ray; Ray(jobs.images('fedavg'), address='127.0.0.1:1')"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert "ValueError: address='127.0.0.1:1': no Ray cluster answers there" in run.stderr.splitlines()[-1]


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_below_one_are_refused(workers: int) -> None:
    with pytest.raises(ValueError, match=rf"^workers={workers}: at least one actor trains; None takes one a core$"):
        Ray(vectors("fedavg"), workers=workers)


CLUSTER = """
import sys, time, threading, os, signal
import igfl, jobs
from igfl.engines.ray import Ray
from test_engines import Slow
import ray
if __name__ == "__main__":
    address, victim = sys.argv[1:]
    job = jobs.vectors("igfl/time", task=Slow(0.03, jobs.vectors("igfl/time").task))
    with Ray(job, address=address) as engine:
        memories, nodes = {}, set()
        for state, cohort in igfl.rounds(engine, memories=memories, cohorts=jobs.cohorts(job, 6, 7)):
            actors = list(engine._cast._free)
            nodes |= {ray.get(a.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())) for a in actors}
            if state.round == 2:
                print("nodes", len(nodes), "actors", len(actors), flush=True)
                threading.Timer(0.05, os.killpg, (int(victim), signal.SIGKILL)).start()
        print(jobs.fingerprint(state, memories), len(actors), flush=True)
"""


def test_a_cluster_of_three_nodes_loses_one_in_the_middle_of_a_round() -> None:
    job = vectors("igfl/time", task=Slow(0.03, vectors("igfl/time").task))
    tests = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="igfl-nodes-", ignore_cleanup_errors=True) as folder:
        address, nodes = start_nodes(Path(folder), 3)
        try:
            run = subprocess.run(
                [sys.executable, "-c", CLUSTER, address, str(nodes[-1].process.pid)],
                cwd=tests, env=environment(), capture_output=True, text=True, check=False, timeout=300,
            )  # fmt: skip
        finally:
            for node in nodes:
                node.stop()
    assert run.returncode == 0, run.stderr
    seen, digest = run.stdout.splitlines()
    assert seen == "nodes 3 actors 3"
    assert digest.split()[0] == of_loop(job, rounds=6, size=7)


class Node:
    """`ray start`, as it is typed on each machine of a cluster, with all it has started."""

    def __init__(self, log: Path, *arguments: str) -> None:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1", *arguments]
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "--object-store-memory=100000000"], stdout=out, stderr=subprocess.STDOUT,
                env=environment(), start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """All of it at once, as when a machine loses its power."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_nodes(folder: Path, count: int) -> tuple[str, list[Node]]:
    """The address of a cluster, and its nodes, the head first."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    port = address.partition(":")[2]
    head = ("--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false")
    nodes = []
    for i in range(count):  # one after another: on one machine they would take each other's ports
        log = folder / f"{i}.log"
        nodes.append(Node(log, *(head if not i else [f"--address={address}"])))
        assert wait_until(lambda: "Ray runtime started" in log.read_text(), True, 60), log.read_text()
    return address, nodes


def environment() -> dict[str, str]:
    """The same secret on all machines; nothing is reported from any."""
    ours = {
        "PYTHONPATH": str(Path(__file__).parent),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "of-the-tests-" * 4,
    }
    return {**os.environ, **ours}
