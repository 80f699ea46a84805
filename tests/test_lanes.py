"""Runs side by side: what stops, falls or is killed goes on to the same bits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from igfl.runs.config import Config
from igfl.runs.folder import Folder
from igfl.runs.lanes import Ended, Lanes, Order, Told
from igfl.runs.reading import load

QUICK = ("rounds=12", "train.batch=50", "checkpoint=3", "engine.name=loop", "evaluate=4")


def config(*options: str) -> Config:
    return load(None, (*QUICK, *options))


def order(folder: Path, *options: str) -> Order:
    return Order(key=folder.name, folder=folder, config=config(*options))


def carried_out(lanes: Lanes) -> Iterator[Told | Ended]:
    while lanes.busy:
        yield from lanes.events(1.0)


def digest(folder: Path) -> str:
    summary = Folder.open(folder).read("summary.json")
    assert summary is not None
    return str(summary["digest"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("lanes") / "whole"
    with Lanes(1) as lanes:
        lanes.begin(order(place))
        list(carried_out(lanes))
    return digest(place)


def test_orders_run_side_by_side_and_tell(tmp_path: Path, undisturbed: str) -> None:
    with Lanes(2) as lanes:
        for name in ("a", "b"):
            lanes.begin(order(tmp_path / name))
        assert lanes.free == 0
        events = list(carried_out(lanes))
    assert {event.key for event in events if isinstance(event, Ended) and event.finished} == {"a", "b"}
    assert sum(isinstance(event, Told) for event in events) == 24
    assert digest(tmp_path / "a") == digest(tmp_path / "b") == undisturbed


def test_a_run_that_is_stopped_goes_on(tmp_path: Path, undisturbed: str) -> None:
    with Lanes(1) as lanes:
        lanes.begin(order(tmp_path / "a"))
        for event in carried_out(lanes):
            if isinstance(event, Told) and event.row["round"] == 4:
                lanes.stop("a")
        assert isinstance(event, Ended)
        assert not event.finished
        assert 4 <= event.round < 12
        lanes.begin(order(tmp_path / "a"))
        assert next(e for e in carried_out(lanes) if isinstance(e, Told)).row["round"] == event.round + 1
        list(carried_out(lanes))
    assert digest(tmp_path / "a") == undisturbed


def test_a_run_is_made_longer(tmp_path: Path, undisturbed: str) -> None:
    with Lanes(1) as lanes:
        for rounds, first in ((6, 1), (12, 7)):
            lanes.begin(order(tmp_path / "a", f"rounds={rounds}"))
            rows = [event.row["round"] for event in carried_out(lanes) if isinstance(event, Told)]
            assert rows[0] == first
    assert digest(tmp_path / "a") == undisturbed


def test_another_configuration_starts_afresh(tmp_path: Path) -> None:
    with Lanes(1) as lanes:
        for options in ((), ("seed=1",), ("seed=1", "rounds=6")):
            lanes.begin(order(tmp_path / "a", *options))
            rows = [event.row["round"] for event in carried_out(lanes) if isinstance(event, Told)]
            assert rows[0] == 1


def test_a_killed_process_is_replaced(tmp_path: Path, undisturbed: str) -> None:
    with Lanes(1) as lanes:
        lanes.begin(order(tmp_path / "a"))
        killed = False
        for event in carried_out(lanes):
            if isinstance(event, Told) and event.row["round"] == 5 and not killed:
                killed = True
                os.kill(lanes._lanes[0].process.pid, signal.SIGKILL)
    assert killed
    assert isinstance(event, Ended)
    assert event.finished
    assert digest(tmp_path / "a") == undisturbed


def test_a_stop_outlives_the_process_it_was_said_to(tmp_path: Path) -> None:
    with Lanes(1) as lanes:
        lanes.begin(order(tmp_path / "a", "rounds=100000"))
        next(lanes.events(60.0))
        os.kill(lanes._lanes[0].process.pid, signal.SIGSTOP)
        lanes.stop()
        os.kill(lanes._lanes[0].process.pid, signal.SIGKILL)
        (*_, event) = carried_out(lanes)
    assert isinstance(event, Ended)
    assert not event.finished
    assert not event.failed


def test_what_diverges_or_fails_is_told_and_the_lane_goes_on(tmp_path: Path) -> None:
    with Lanes(1) as lanes:
        lanes.begin(order(tmp_path / "a", "train.lr=1e30"))
        (*_, event) = carried_out(lanes)
        assert isinstance(event, Ended)
        assert event.diverged is not None
        lanes.begin(order(tmp_path / "b", "data.name=npz", "data.path=nowhere.npz"))
        (*_, event) = carried_out(lanes)
        assert isinstance(event, Ended)
        assert "npz: no file nowhere.npz" in event.failed
        lanes.begin(order(tmp_path / "c"))
        (*_, event) = carried_out(lanes)
        assert isinstance(event, Ended)
        assert event.finished
