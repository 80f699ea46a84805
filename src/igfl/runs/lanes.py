"""Several runs side by side, each in a process of its own, told of as they go; what stops goes on exactly later."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

import torch.multiprocessing as mp

from igfl.engines.allocator import keep_freed_memory, large_pages_for_children
from igfl.runs.build import build
from igfl.runs.config import Config
from igfl.runs.folder import Folder
from igfl.runs.rows import Row
from igfl.runs.run import Run, identity
from igfl.screening import Diverged

LOSSES = 3  # processes lost in a row, with no round done between, before an order counts as failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Train this configuration in this folder, or go on with it where it is there."""

    key: str
    folder: Path
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A row of a run that is being trained."""

    key: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an order ended: finished, told to stop, diverged in a round, or failed, and why."""

    key: str
    round: int = 0
    finished: bool = False
    diverged: int | None = None
    failed: str = ""


@dataclass
class _Lane:
    process: Any
    pipe: Connection
    order: Order | None = None
    stopping: bool = False
    lost: int = 0  # processes in a row, with no round done between


@dataclass
class Lanes:
    """So many processes, each with one run at a time. A process that is lost is replaced, and its run goes on."""

    count: int
    _lanes: list[_Lane] = field(default_factory=list)

    @property
    def free(self) -> int:
        """How many more orders can be begun."""
        return self.count - len(self.busy)

    @property
    def busy(self) -> list[str]:
        """The orders that are being trained."""
        return [lane.order.key for lane in self._lanes if lane.order is not None]

    def begin(self, order: Order) -> None:
        """Start an order in a lane that is free."""
        lane = next((lane for lane in self._lanes if lane.order is None), None)
        if lane is None:
            lane = _hired()
            self._lanes.append(lane)
        lane.order, lane.stopping = order, False
        _send(lane, order)

    def stop(self, *keys: str) -> None:
        """Ask these orders to end after the round they are in; no key: all of them."""
        for lane in self._lanes:
            if lane.order is not None and (not keys or lane.order.key in keys) and not lane.stopping:
                lane.stopping = True
                _send(lane, "stop")

    def events(self, seconds: float | None = None) -> Iterator[Told | Ended]:
        """What the orders have to tell, as it comes, after waiting for it so long."""
        pipes = {lane.pipe: lane for lane in self._lanes if lane.order is not None}
        for ready in wait(list(pipes), seconds) if pipes else ():
            event = self._heard(pipes[ready])  # type: ignore[index]  # one of those it was given
            if event is not None:
                yield event

    def _heard(self, lane: _Lane) -> Told | Ended | None:
        assert lane.order is not None  # noqa: S101  # only those at work are listened to
        try:
            event: Told | Ended = lane.pipe.recv()
        except (EOFError, OSError):
            return self._replaced(lane, lane.order)
        lane.lost = 0
        if isinstance(event, Ended):
            lane.order = None
        return event

    def _replaced(self, lane: _Lane, order: Order) -> Ended | None:
        """A lost process's order goes on in a new one, a few times."""
        lane.process.join()
        code, new = lane.process.exitcode, _hired()
        lane.process, lane.pipe, lane.lost = new.process, new.pipe, lane.lost + 1
        if lane.lost < LOSSES:
            _send(lane, order)
            if lane.stopping:
                _send(lane, "stop")
            return None
        lane.order, lane.lost = None, 0
        return Ended(key=order.key, failed=f"its process was lost {LOSSES} times, the last with exit code {code} "
                                           "(-9: killed, often for want of memory)")  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Every run finishes its round and is kept, then the processes go; after Ctrl-C they go at once."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            for lane in self._lanes:
                lane.process.kill()
        self.stop()
        for lane in self._lanes:
            _send(lane, None)
        for lane in self._lanes:
            lane.process.join()


def _hired() -> _Lane:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,))
    with large_pages_for_children():
        process.start()
    theirs.close()
    return _Lane(process, ours)


def _send(lane: _Lane, what: Order | str | None) -> None:
    with suppress(OSError):  # it is gone: its silence is noticed next
        lane.pipe.send(what)


def _serve(pipe: Connection) -> None:
    """A lane's main: order after order, until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gives the orders decides when to stop
    keep_freed_memory()
    with suppress(EOFError, OSError):
        while (order := pipe.recv()) is not None:
            if isinstance(order, Order):  # else a stop that came too late
                pipe.send(_carried_out(order, pipe))


def _carried_out(order: Order, pipe: Connection) -> Ended:
    stop: list[object] = []

    def stopping() -> bool:
        if not stop and pipe.poll():
            stop.append(pipe.recv())
        return bool(stop)

    try:
        built = build(order.config)
        folder = _place(order, built.resolved[0])
        with built.engine() as engine:
            watch = lambda row: pipe.send(Told(key=order.key, row=row))  # noqa: E731  # a name for what follows
            outcome = Run(folder, built, watch=watch, stopping=stopping).go(engine)
    except Diverged as error:
        return Ended(key=order.key, round=error.round, diverged=error.round)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise  # nobody is there to tell
    except Exception as error:  # whatever a run raises is told, and the other runs go on
        return Ended(key=order.key, failed="".join(traceback.format_exception_only(error)).strip())
    return Ended(key=order.key, round=outcome.round, finished=outcome.finished)


def _place(order: Order, engine: str) -> Folder:
    """The order's folder: what is there where it began as this run and is no longer than it, else a new one."""
    try:
        there = Folder.open(order.folder).config()
    except ValueError:
        return Folder.at(order.folder, order.config, fresh=True)
    began = identity(there, engine if there.engine.name == "auto" else there.engine.name)
    fresh = began != identity(order.config, engine) or there.rounds > order.config.rounds
    return Folder.at(order.folder, order.config, fresh=fresh)
