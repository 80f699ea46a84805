"""A method's hooks for many clients at once: mapped by torch.func where the rule allows it, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from igfl.batched import Unbatchable
from igfl.engines.loop import of_client
from igfl.exact import aligned_rows
from igfl.parts import ClientRule, Method, Weighting
from igfl.types import NOT_KEPT, Arrays, Broadcast, Memory, Visit

Hook = Callable[..., Arrays]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """The visits of several clients side by side, those of equal length next to each other."""

    broadcast: Broadcast
    clients: tuple[int, ...]
    steps: tuple[int, ...]
    local: Arrays  # each [n, ...]
    last: Tensor  # [n, d], or NOT_KEPT

    @staticmethod
    def of(
        broadcast: Broadcast, clients: Sequence[int], steps: Sequence[int], memories: Mapping[int, Memory],
        blank: Memory,
    ) -> Visits:  # fmt: skip
        """The visits of these clients, each with what it remembers."""
        kept = [memories.get(client, blank) for client in clients]
        lasts = [memory.last for memory in kept if memory.last is not None]
        return Visits(
            broadcast=broadcast, clients=tuple(clients), steps=tuple(steps),
            local={name: _stacked([memory.local[name] for memory in kept]) for name in blank.local},
            last=_stacked(lasts) if lasts else NOT_KEPT,
        )  # fmt: skip

    def runs(self) -> Iterator[tuple[slice, int]]:
        """Runs of visits with the same number of steps."""
        start = 0
        for steps, run in groupby(self.steps):
            end = start + len(list(run))
            yield slice(start, end), steps
            start = end

    def one(self, steps: int, client: Any, local: Arrays, last: Tensor) -> Visit:
        """A visit as a rule sees it."""
        heard = self.broadcast
        return Visit(
            round=heard.round, params=heard.params, shared=heard.shared, lr=heard.lr, cohort_size=heard.cohort_size,
            population=heard.population, client=client, local=local, last=last, steps=steps,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """The corrections of several visits: one number for all where they agree, else [n, 1]; full shifts [n, d]."""

    scale: float | Tensor = 1.0
    pull: float | Tensor = 0.0
    shift: float | Tensor = 0.0


class Somebody:
    """Stands for a client's number where many are asked at once: a rule that looks at it is called one by one."""

    def _refuse(self, *_: object) -> Any:
        raise TypeError("which client it is differs from visit to visit")

    __eq__ = __ne__ = __hash__ = __bool__ = __str__ = __repr__ = __format__ = _refuse  # the rest an object lacks


_SOMEBODY = Somebody()


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Refuse a rule that draws: only the engines that visit one client at a time give it that visit's stream."""
    before = torch.default_generator.get_state()
    yield
    if not torch.equal(before, torch.default_generator.get_state()):
        raise Unbatchable("the method draws random numbers, which belong to each visit's own stream")


class Hooks:
    """The hooks of one method. What torch.func cannot map (a rule that branches on its data) is called one by one."""

    def __init__(self, method: Method) -> None:
        self._method = method
        rule, weighting = type(method.client), type(method.weighting)
        self._corrects = rule.correct is not ClientRule.correct
        self._tells = rule.tell is not ClientRule.tell or weighting.tell is not Weighting.tell
        self._remembers = rule.remember is not ClientRule.remember
        self._one_by_one: set[str] = set()

    def correct(self, visits: Visits) -> Corrections:
        """The correction of every visit."""
        if not self._corrects:
            return Corrections()

        def hook(visit: Visit) -> Arrays:
            made = self._method.client.correct(visit)
            numbers = {name: torch.as_tensor(getattr(made, name), dtype=torch.float64) for name in ("scale", "pull")}
            return {**numbers, "shift": torch.as_tensor(made.shift * made.strength, dtype=visit.params.dtype)}

        made = self._call("correct", hook, visits)
        return Corrections(**{name: _plain(values, visits.broadcast.params) for name, values in made.items()})

    def tell(self, visits: Visits, deltas: Tensor) -> Arrays:
        """What every client tells, each [n, ...]."""
        return self._call("tell", self._method.tell, visits, deltas) if self._tells else {}

    def remember(self, visits: Visits, deltas: Tensor) -> Arrays:
        """What every client remembers, each [n, ...]."""
        return self._call("remember", self._method.client.remember, visits, deltas) if self._remembers else visits.local

    def _call(self, name: str, hook: Hook, visits: Visits, *deltas: Tensor) -> Arrays:
        made = [self._call_run(name, hook, visits, *run, *deltas) for run in visits.runs()]
        return made[0] if len(made) == 1 else {key: _joined([part[key] for part in made]) for key in made[0]}

    def _call_run(self, name: str, hook: Hook, visits: Visits, run: slice, steps: int, *deltas: Tensor) -> Arrays:
        """The hook on visits of equal length."""
        clients, local = visits.clients[run], {key: array[run] for key, array in visits.local.items()}
        kept = visits.last is not NOT_KEPT
        arguments = (local, visits.last[run] if kept else NOT_KEPT, *(rows[run] for rows in deltas))
        if name not in self._one_by_one:
            mapped = torch.vmap(
                lambda local, last, *delta: hook(visits.one(steps, _SOMEBODY, local, last), *delta),
                in_dims=(0, 0 if kept else None, *(0 for _ in deltas)),
                randomness="error",
            )
            try:
                together: Arrays = mapped(*arguments)
            except Exception:  # whatever a rule does that a batch of visits does not stand
                self._one_by_one.add(name)
            else:
                return together
        made: list[Arrays] = []
        for i, client in enumerate(clients):
            last = visits.last[run][i] if kept else NOT_KEPT
            with of_client(client, visits.broadcast.round), _nothing_drawn():
                one = visits.one(steps, client, {key: array[i] for key, array in local.items()}, last)
                made.append(hook(one, *(rows[run][i] for rows in deltas)))
        return {key: _joined([part[key][None] for part in made]) for key in made[0]}


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts of a cohort one after another; a number among vectors stands for a vector of it."""
    shape = max((part.shape[1:] for part in parts), key=len)
    return torch.cat([part.view(len(part), *part.shape[1:] or (1,) * len(shape)).expand(-1, *shape) for part in parts])


def _plain(values: Tensor, params: Tensor) -> float | Tensor:
    """Numbers [n] as one where they are equal, else as a column; vectors [n, d] as they are."""
    if values.ndim > 1:
        return values
    first = float(values[0])
    return first if bool((values == first).all()) else values.to(params.dtype)[:, None]


def _stacked(arrays: Sequence[Tensor]) -> Tensor:
    """Arrays of one shape side by side, rows aligned."""
    rows = aligned_rows(len(arrays), arrays[0].shape, arrays[0])
    torch._foreach_copy_(list(rows.unbind()), list(arrays))
    return rows
