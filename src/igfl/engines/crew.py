"""The workers of an engine: hired, briefed, given orders, replaced when they are lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from multiprocessing.connection import Connection, wait
from typing import Any

import torch.multiprocessing as mp
from torch import Tensor

from igfl.engines.allocator import large_pages_for_children
from igfl.engines.loop import of_client
from igfl.engines.worker import Answer, RoundOrder, ScoreOrder, VisitOrder, serve
from igfl.visits import Job

LOSSES = 3  # workers lost in a row, with no visit done between, before the engine gives up
AHEAD = 2  # bundles a worker may hold, so that it never pauses for the next
SHARE = 4  # a bundle is this part of what would be an equal share of the rest: large at first, single orders at last
LARGEST = 1000  # orders in a bundle: more, and pipes fill up in both directions
Order = VisitOrder | ScoreOrder
Bundle = Sequence[Order]


@dataclass
class Hand:
    """A worker process as the crew sees it."""

    process: Any
    orders: Connection
    told: dict[str, Tensor] = field(default_factory=dict)  # the buffers it knows
    doing: deque[Bundle] = field(default_factory=deque)


@dataclass
class Crew:
    """So many processes for one job, started when there is work."""

    job: Job
    workers: int
    hands: list[Hand] = field(default_factory=list)
    buffers: dict[str, Tensor] = field(default_factory=dict)  # shared rows by name
    round: RoundOrder | None = None

    def carry_out(self, orders: Sequence[Order], work: Mapping[int, float] | None = None) -> Mapping[int, Answer]:
        """Hand out orders, each so much work, bundle by bundle to whoever is free, until all are answered."""
        waiting, answers, lost = deque(orders), dict[int, Answer](), 0
        try:
            while len(self.hands) < self.workers:
                self.hands.append(self._hire())
            for hand in self.hands:
                self._brief(hand)
            while len(answers) < len(orders):
                for ahead in range(AHEAD):
                    for hand in self.hands:
                        if waiting and len(hand.doing) <= ahead:
                            self._hand_over(hand, self._bundle(waiting, work))
                for hand in self._answering():
                    heard = self._listen(hand)
                    if heard is None:
                        lost += 1
                        waiting.extendleft(order for bundle in reversed(hand.doing) for order in reversed(bundle))
                        self._replace(hand, lost)
                    else:
                        lost = 0
                        answers.update((answer.place, answer) for answer in heard)
        except BaseException:
            self.close()
            raise
        return answers

    def close(self) -> None:
        """Stop all workers."""
        for hand in self.hands:
            with suppress(OSError):
                hand.orders.send(None)
            hand.orders.close()
        for hand in self.hands:
            hand.process.join(timeout=2)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
        self.hands = []

    def _bundle(self, waiting: deque[Order], work: Mapping[int, float] | None) -> Bundle:
        """The first of those waiting, a part of all their work."""
        loads = [1.0 if work is None else work[order.place] for order in waiting]
        room = sum(loads) / (SHARE * self.workers)
        count = sum(1 for done in accumulate(loads) if done <= room)
        return [waiting.popleft() for _ in range(min(LARGEST, max(1, count)))]

    def _hand_over(self, hand: Hand, bundle: Bundle) -> None:
        hand.doing.append(bundle)
        with suppress(OSError):  # it is gone: its silence is noticed next
            hand.orders.send(bundle)

    def _answering(self) -> Iterable[Hand]:
        ready = wait([hand.orders for hand in self.hands if hand.doing])
        return [hand for hand in self.hands if hand.orders in ready]

    def _listen(self, hand: Hand) -> Sequence[Answer] | None:
        """A worker's answers to a bundle, or None where it is gone."""
        try:
            answers: Sequence[Answer] = hand.orders.recv()
        except (EOFError, OSError):
            return None
        for order, answer in zip(hand.doing.popleft(), answers):
            if answer.error is None:
                continue
            if isinstance(order, ScoreOrder) or self.round is None:
                raise answer.error
            with of_client(order.client, self.round.round):
                raise answer.error
        return answers

    def _hire(self) -> Hand:
        context = mp.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(self.job, theirs), daemon=True)
        with large_pages_for_children():
            process.start()
        theirs.close()
        return Hand(process, ours)

    def _brief(self, hand: Hand) -> None:
        """Tell a worker of the buffers it does not know, and of the round."""
        news = {name: rows for name, rows in self.buffers.items() if hand.told.get(name) is not rows}
        with suppress(OSError):
            if news:
                hand.orders.send(news)
            if self.round is not None:  # evaluation needs no round
                hand.orders.send(self.round)
        hand.told.update(news)

    def _replace(self, hand: Hand, lost: int) -> None:
        hand.process.join()
        hand.orders.close()
        if lost >= LOSSES:
            self.hands.remove(hand)
            raise RuntimeError(
                f"{lost} workers in a row were lost, the last with exit code {hand.process.exitcode} "
                "(-9: killed, often for want of memory): fewer workers or smaller batches need less"
            )
        self.hands[self.hands.index(hand)] = new = self._hire()
        self._brief(new)
