"""What behaviour analysis needs of a run: who was there, how alike they moved, how they were weighed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from igfl.exact import one_thread, products
from igfl.runs.config import Config
from igfl.types import Cohort

SNAPSHOTS = 200  # of a run, where nothing else is said
LARGEST = 5 * 10**7  # numbers in a cohort's updates; above it nothing is kept


class Behaviour:
    """One small .npz file a snapshot: clients, weights, and the dot products of all updates."""

    def __init__(self, folder: Path, config: Config, d: int) -> None:
        self._folder = folder
        self._every = -(-config.rounds // SNAPSHOTS) if config.behaviour is None else config.behaviour
        self._d = d

    def __call__(self, round: int, cohort: Cohort) -> None:
        """A snapshot, where one is due."""
        n = len(cohort.clients)
        if not self._every or round % self._every or not n or n * self._d > LARGEST or cohort.weights is None:
            return
        with one_thread():
            similarity = products(cohort.deltas)
        self._folder.mkdir(exist_ok=True)
        with self._path(round).open("wb") as file:
            np.savez(
                file, round=round, clients=np.array(cohort.clients), weights=cohort.weights.cpu().numpy(),
                similarity=similarity.cpu().numpy(),
            )  # fmt: skip

    def cut(self, round: int) -> None:
        """Away with what came after this round."""
        for path in self._folder.glob("*.npz"):
            if int(path.stem) > round:
                path.unlink()

    def _path(self, round: int) -> Path:
        return self._folder / f"{round:08}.npz"
