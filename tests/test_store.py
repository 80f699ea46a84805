"""What a run leaves on disk: whole or not there, never written over, and enough to go on bit for bit."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import igfl
from igfl.engines import Loop, Processes
from igfl.runs.digest import Chain, first_difference, short_hashes
from igfl.runs.memories import Memories
from igfl.runs.store import Store, StoreError
from jobs import METHODS, cohorts, fingerprint, images, of_loop, vectors

TESTS = Path(__file__).parent


def train(job: igfl.Job, folder: Path, rounds: int, *, every: int = 3, limit: int | None = None, engine=Loop) -> Chain:
    """Go on from where the folder is, checkpoint every so often, stop after so many rounds in all."""
    with Store(folder, limit=limit) as store, engine(job) as here:
        found = store.load()
        start, chain = (found.state, found.chain) if found else (None, Chain())
        for state, _ in igfl.rounds(here, start, store.memories, cohorts=cohorts(job, rounds)):
            chain = chain.after(state, job.task)
            store.round = state.round
            if state.round % every == 0:
                store.save(state, chain)
        return chain


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoint*"))


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_is_the_undisturbed_one(method: str, limit: int | None, tmp_path: Path) -> None:
    job = images(method)
    whole = train(job, tmp_path / "whole", 12)
    for stop in (4, 7, 11, 12):  # each goes back to the checkpoint before it
        chain = train(job, tmp_path / "parts", stop, limit=limit)
    assert chain == whole
    assert len(files(tmp_path / "parts")) == 2


def test_a_run_goes_on_with_another_engine_and_another_cache(tmp_path: Path) -> None:
    job = images("igfl/time")
    whole = train(job, tmp_path / "whole", 12)
    train(job, tmp_path / "parts", 5, limit=3)
    assert train(job, tmp_path / "parts", 12, engine=lambda job: Processes(job, workers=2)) == whole


def test_memories_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    job = images("scaffold")
    with Store(tmp_path, limit=2) as store:
        for state, _ in igfl.rounds(Loop(job), memories=store.memories, cohorts=cohorts(job)):
            store.round = state.round
            assert len(store.memories._here) <= 2
            if state.round in (5, 6, 13):
                store.save(state, Chain())
        found = {client: store.memories[client] for client in store.memories}
    assert fingerprint(state, found) == of_loop(job)


KILLED = """
import sys, pathlib, threading, os, signal, random
import test_store, jobs
seconds = float(sys.argv[3])
threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
job = jobs.images(sys.argv[2])
test_store.train(job, pathlib.Path(sys.argv[1]), 10**6, every=2, limit=2)
"""


@pytest.mark.parametrize("method", ["igfl/time", "scaffold", "fedadam"])
def test_a_killed_process_loses_nothing_that_was_checkpointed(method: str, tmp_path: Path) -> None:
    job = images(method)
    for i in range(3):
        run = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), method, str(0.5 + 0.13 * i)], cwd=TESTS, check=False
        )
        assert run.returncode == -signal.SIGKILL
    with Store(tmp_path) as store:
        found = store.load()
    assert found is not None
    rounds = found.state.round
    assert rounds > 2
    whole = list(igfl.rounds(Loop(job), cohorts=cohorts(job, rounds)))[-1][0]
    assert torch.equal(found.state.params, whole.params)
    chain = train(job, tmp_path, rounds + 3)
    assert chain == train(job, tmp_path / "whole", rounds + 3)


def test_no_row_outlives_the_checkpoints_that_name_it(tmp_path: Path) -> None:
    job = vectors("igfl/time")
    train(job, tmp_path, 30, every=1)
    with sqlite3.connect(tmp_path / "memories.sqlite") as database:
        rows = database.execute("SELECT client, count(*) FROM memories GROUP BY client").fetchall()
    database.close()
    assert len(rows) == 7
    assert sum(count for _, count in rows) <= 7 + 4  # each newest, and what the checkpoint before named of a cohort


def test_the_file_stays_within_three_times_the_memories(tmp_path: Path) -> None:
    job = vectors("igfl/time", task=igfl.ModuleTask(torch.nn.Linear(12, 5000)))
    train(job, tmp_path, 30, every=2)
    size = (tmp_path / "memories.sqlite").stat().st_size
    assert size <= 3 * 7 * 4 * len(job.task.initial())


def corrupt(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [corrupt, cut, empty])
def test_a_harmed_checkpoint_is_told_and_the_one_before_is_used(harm, tmp_path: Path) -> None:
    job = images("igfl/time")
    train(job, tmp_path, 6)
    harm(tmp_path / "checkpoint-00000006.safetensors")
    with Store(tmp_path) as store:
        found = store.load()
    assert found is not None
    assert found.state.round == 3
    assert found.skipped[0].startswith("checkpoint of round 6: ")
    assert train(job, tmp_path, 12) == train(job, tmp_path / "whole", 12)


def test_a_harmed_row_is_told_and_the_checkpoint_before_is_used(tmp_path: Path) -> None:
    job = images("igfl/time")
    train(job, tmp_path, 6)
    database = sqlite3.connect(tmp_path / "memories.sqlite")
    client, round = database.execute("SELECT client, round FROM memories WHERE round = 6").fetchone()
    database.execute("UPDATE memories SET data = zeroblob(40) WHERE client = ? AND round = ?", (client, round))
    database.commit()
    with Store(tmp_path) as store:
        found = store.load()
    assert found is not None
    assert found.state.round == 3
    assert found.skipped == (f"checkpoint of round 6: memory of client {client} from round 6 is corrupt",)
    database.execute("DELETE FROM memories")
    database.commit()
    database.close()
    with Store(tmp_path) as store, pytest.raises(StoreError, match=r"no checkpoint can be used: .*memory of client \d"):
        store.load()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    program = "import sys, pathlib; from igfl.runs.store import Store; Store(pathlib.Path(sys.argv[1]))"
    with Store(tmp_path / "state"):
        run = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "state")], capture_output=True, text=True, check=False
        )
    assert run.stderr.splitlines()[-1].endswith(f"{tmp_path}: another process is working on this run")
    with Store(tmp_path / "state"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, where every write finds the disk full")
def test_a_full_disk_stops_the_run_and_leaves_the_last_good_checkpoint(tmp_path: Path, monkeypatch) -> None:
    job = images("igfl/time")
    train(job, tmp_path, 3)
    monkeypatch.setattr("igfl.runs.store.write_whole", lambda path, content: Path("/dev/full").write_bytes(content))
    with pytest.raises(StoreError, match=r"No space left on device; the last good checkpoint is of round 3$"):
        train(job, tmp_path, 6)
    monkeypatch.undo()
    assert train(job, tmp_path, 6) == train(job, tmp_path / "whole", 6)


def test_the_chain_tells_rounds_and_arrays_apart() -> None:
    job = images("scaffold")
    rows = []
    for seed in (3, 3, 4):
        chain, mine = Chain(), []
        for state, _ in igfl.rounds(Loop(images("scaffold", seed=seed)), cohorts=cohorts(job, 3)):
            chain = chain.after(state, job.task)
            mine.append({"round": state.round, "digest": chain.head, "hashes": short_hashes(state, job.task)})
        rows.append(mine)
    assert first_difference(rows[0], rows[1]) is None
    difference = first_difference(rows[0], rows[2])
    assert difference is not None
    assert (difference.round, difference.array) == (1, "params/convolution.weight")


def test_the_digest_does_not_see_how_a_task_lays_its_kernels_out() -> None:
    job = images("fedavg")
    other = igfl.ModuleTask(job.task.module, inputs=job.task.inputs, channels_last=False)
    assert not torch.equal(job.task.initial(), other.initial())
    state = igfl.start(job)
    again = igfl.ServerState(round=0, params=other.initial(), shared={}, optimizer={})
    assert Chain().after(state, job.task) == Chain().after(again, other)


class Twice(igfl.ClientRule):
    """Keeps one array under two names, one of which the library uses itself."""

    def init_local(self, params: torch.Tensor) -> igfl.Arrays:
        zero = torch.zeros_like(params)
        return {"last": zero, "other": zero}

    def correct(self, visit: igfl.Visit) -> igfl.Correction:
        return igfl.Correction(shift=0.1 * visit.local["last"])

    def remember(self, visit: igfl.Visit, delta: torch.Tensor) -> igfl.Arrays:
        return {"last": delta.clone(), "other": delta.clone()}


def test_arrays_that_share_memory_and_any_name_are_kept(tmp_path: Path) -> None:
    method = igfl.Method(client=Twice(), weighting=igfl.fedavg().weighting, server=igfl.fedavgm().server)
    job = replace(images("fedavg"), method=method)
    whole = train(job, tmp_path / "whole", 8)
    train(job, tmp_path / "parts", 4, limit=2)
    assert train(job, tmp_path / "parts", 8, engine=lambda job: Processes(job, workers=2)) == whole


def test_a_database_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "memories.sqlite").write_bytes(b"no database, but long enough to look like a file of some kind" * 30)
    with pytest.raises(StoreError, match=r"memories.sqlite: file is not a database"):
        Store(tmp_path)


def test_a_cache_of_memories_is_a_mapping_like_any_other() -> None:
    written: dict[int, igfl.Memory] = {}
    cache = Memories(limit=8, write=written.update, read=written.__getitem__)
    made = {client: igfl.Memory(local={}, last=torch.full((1,), float(client))) for client in range(30)}
    cache.update(made)
    assert len(cache._here) <= 8
    assert dict(cache) == made
    assert len(cache) == 30
    assert 31 not in cache
    assert set(cache.take_changed()) <= set(made)
    assert not cache.changed
