"""fluke: its FedAVG, which trains one client after another in one process (its parallel one needs two GPUs)."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from protocol import LR, Over, Turns, asked, begin, clients, network

sys.path.append(sys.path.pop(0))  # files here are named as the libraries are: look for those first

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import FederationObserver
from torch.nn import CrossEntropyLoss

FOREVER = 10**9


class Between(FederationObserver):
    """The observer that makes the algorithm wait."""

    def __init__(self) -> None:
        self._turns = Turns("fluke", "fluke-fl")

    def start_round(self, round: int, global_model: Any) -> None:
        self._turns.wait()


def main() -> None:
    work, tuned = asked()
    begin(tuned)
    FlukeENV().set_device("cpu")
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    loaders = [
        FastDataLoader(x, y, num_labels=work.classes, batch_size=work.batch, shuffle=True) for x, y in clients(work)
    ]
    container = DummyDataContainer(loaders, [None] * work.clients, None, num_classes=work.classes)
    client = DDict(
        batch_size=work.batch,
        local_epochs=1,
        loss=CrossEntropyLoss,
        optimizer=DDict(name="SGD", lr=LR),
        scheduler=DDict(name="StepLR", step_size=1, gamma=1),
        persistency=False,  # FedAvg's clients keep nothing; True would hold a model for each of them
    )
    settings = DDict(model=network(work, tuned), client=client, server=DDict(weighted=False))
    algorithm = FedAVG(work.clients, DataSplitter(container), settings)
    algorithm.set_callbacks([Between()])
    with suppress(Over):
        algorithm.run(FOREVER, work.cohort / work.clients)


if __name__ == "__main__":
    main()
