"""A Ray to work with, and a cast of actors in it: hired, given their shares, replaced when they are lost."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from logging import ERROR
from typing import Any, ClassVar

from igfl.engines.actors import Actor, PackedJob
from igfl.exact import cores

try:
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError
except ImportError as error:
    raise ImportError("engine 'ray' needs Ray, which is not installed: pip install 'igfl[ray]'") from error

LOSSES = 3  # how often the same work may be lost, or actors in a row not even begin, before the engine gives up
PATIENCE = 120.0  # seconds until a cluster must have found room for an actor where none is left


class Session:
    """A Ray of our own, shared by the engines of this process; or a place in a cluster that is there."""

    _folder: ClassVar[str] = ""
    _address: ClassVar[str | None] = None
    _users: ClassVar[int] = 0  # engines on the Ray that we started or joined

    def __init__(self, address: str | None, resources: dict[str, float]) -> None:
        if Session._users and address != Session._address:
            raise ValueError(
                f"address={address!r}: this process is with {Session._address or 'a Ray of its own'} already"
            )
        self._counts = Session._users > 0 or not ray.is_initialized()  # else it is the user's, who will end it
        self._own = address is None and self._counts
        self.resources = resources if self._own else {"num_cpus": 1, **resources}
        if self._counts:
            if not Session._users:
                self._begin(address)
            Session._users += 1

    def room(self) -> int:
        """How many actors there is room for."""
        if self._own:
            return cores()
        total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        names = {"num_cpus": "CPU", "num_gpus": "GPU"}
        wants = {names.get(name, name): amount for name, amount in self.resources.items() if amount}
        room = min(int(total.get(name, 0) // amount) for name, amount in wants.items())
        if room < 1:
            raise ValueError(
                f"resources={self.resources}: the cluster has {total}, no room for one actor; ask for less"
            )
        return room

    def put(self, value: object) -> Any:
        """The value where all actors find it."""
        return ray.put(value)

    def hire(self, packed: Any) -> Any:
        """A new actor, wherever there is room."""
        options = {"num_cpus": 0, "scheduling_strategy": "SPREAD", **_by_name(self.resources)}
        return ray.remote(Actor).options(**options).remote(packed)

    def close(self) -> None:
        """Leave; the last one out ends what we began."""
        if not self._counts:
            return
        self._counts = False
        Session._users -= 1
        if not Session._users:
            self._end()

    def _begin(self, address: str | None) -> None:
        namespace, Session._address = f"igfl-{uuid.uuid4().hex}", address
        if address is not None:
            _knock(address)
            ray.init(address, namespace=namespace, log_to_driver=False, logging_level=ERROR)
            return
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        here = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # spawned workers have it too
        Session._folder = tempfile.mkdtemp(prefix="igfl-ray-")
        try:
            ray.init(
                "local", namespace=namespace, include_dashboard=False, log_to_driver=False, logging_level=ERROR,
                _temp_dir=Session._folder, runtime_env={"env_vars": here},
            )  # fmt: skip
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        ray.shutdown()
        if Session._folder:
            shutil.rmtree(Session._folder, ignore_errors=True)
            Session._folder = ""


def _knock(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself would go on asking for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return  # `auto`, or a scheme of Ray's
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ValueError(f"address={address!r}: no Ray cluster answers there; start one with `ray start`") from error


def _by_name(resources: Mapping[str, float]) -> dict[str, Any]:
    """What Ray takes by its own name, and whatever else a cluster calls its resources."""
    own = {name: amount for name, amount in resources.items() if name in ("num_cpus", "num_gpus", "memory")}
    return {**own, "resources": {name: amount for name, amount in resources.items() if name not in own}}


class Cast:
    """So many actors for one job."""

    def __init__(self, session: Session, packed: PackedJob, workers: int) -> None:
        self._session = session
        self._packed = session.put(packed)
        self._workers = workers
        self._free: list[Any] = []
        self._busy: dict[Any, tuple[Any, list[int]]] = {}  # by what they will answer
        self._coming: dict[Any, Any] = {}  # by their promise to be ready
        self._lost = 0

    def carry_out(
        self, sizes: Sequence[float], order: Callable[[Any, list[int]], Any]
    ) -> Iterator[tuple[list[int], Any]]:
        """Share out pieces of work of these sizes; each share's numbers and answer, as they come."""
        waiting = list(range(len(sizes)))
        self._busy, self._lost, losses = {}, 0, Counter[int]()
        self._assemble()
        while waiting or self._busy:
            waiting = self._hand_out(waiting, sizes, order)
            for promise in self._wait():
                if promise in self._coming:
                    self._welcome(promise)
                    continue
                actor, places = self._busy.pop(promise)
                try:
                    answer = ray.get(promise)
                except RayTaskError:
                    raise
                except RayError as error:  # the actor, its node, or what it answered is gone
                    losses.update(places)
                    if max(losses.values()) >= LOSSES:
                        raise RuntimeError(f"the same work was lost {LOSSES} times, at last with: {error}") from error
                    waiting.extend(places)
                    self._replace(actor)
                else:
                    self._free.append(actor)
                    yield places, answer

    def close(self) -> None:
        """Send everybody home."""
        for actor in [*self._free, *(actor for actor, _ in self._busy.values()), *self._coming.values()]:
            with suppress(RayActorError, ValueError):
                ray.kill(actor)
        self._free, self._busy, self._coming = [], {}, {}

    def _assemble(self) -> None:
        """All actors, ready, before the first share is handed out."""
        missing = self._workers - len(self._free) - len(self._coming)
        for _ in range(missing):
            self._hire()
        if not self._free:
            ready, _ = ray.wait([*self._coming], num_returns=len(self._coming), timeout=PATIENCE)
            for promise in ready:
                self._welcome(promise)

    def _hire(self) -> None:
        actor = self._session.hire(self._packed)
        self._coming[actor.ready.remote()] = actor

    def _welcome(self, promise: Any) -> None:
        actor = self._coming.pop(promise)
        try:
            ray.get(promise)
        except RayTaskError:
            raise
        except RayError as error:
            self._lost += 1
            if getattr(error, "actor_init_failed", False):
                raise RuntimeError(f"an actor could not begin: {_last_line(error)}") from error
            if self._lost >= LOSSES:
                raise RuntimeError(f"{LOSSES} actors in a row could not begin, the last with: {error}") from error
            self._replace(actor)
        else:
            self._lost = 0
            self._free.append(actor)

    def _hand_out(self, waiting: list[int], sizes: Sequence[float], order: Callable[..., Any]) -> list[int]:
        """A share for everybody who is free, as large as if all others took theirs; the numbers that are left."""
        shares = balanced(waiting, sizes, len(self._free) + len(self._busy) + len(self._coming)) if waiting else []
        while self._free and shares:
            actor, share = self._free.pop(), shares.pop(0)
            if share:
                self._busy[order(actor, share)] = (actor, share)
            else:
                self._free.append(actor)
                break
        return [place for share in shares for place in share]

    def _wait(self) -> Sequence[Any]:
        ready, _ = ray.wait([*self._busy, *self._coming], num_returns=1, timeout=None if self._busy else PATIENCE)
        if not ready:
            free = ray.available_resources()  # type: ignore[no-untyped-call]
            raise RuntimeError(
                f"no actor found room within {PATIENCE:.0f} seconds: the cluster has {free} free; "
                "ask for fewer workers or smaller resources"
            )
        return ready

    def _replace(self, actor: Any) -> None:
        with suppress(RayActorError, ValueError):
            ray.kill(actor)
        self._hire()


def balanced(places: Sequence[int], sizes: Sequence[float], shares: int) -> list[list[int]]:
    """The places in so many shares, each place going, longest first, where least is; the largest share first."""
    loads = [0.0] * shares
    made: list[list[int]] = [[] for _ in range(shares)]
    for place in sorted(places, key=lambda place: sizes[place], reverse=True):
        least = loads.index(min(loads))
        loads[least] += sizes[place]
        made[least].append(place)
    return sorted(made, key=lambda share: sum(sizes[place] for place in share), reverse=True)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
