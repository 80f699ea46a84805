"""FedLab: its standalone pipeline with the serial FedAvg trainer, one client after another in one process."""

from __future__ import annotations

import sys
from contextlib import suppress

from protocol import LR, Over, Turns, asked, begin, clients, network

sys.path.append(sys.path.pop(0))  # files here are named as the libraries are: look for those first

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler
from fedlab.contrib.dataset.basic_dataset import BaseDataset, FedDataset
from fedlab.core.standalone import StandalonePipeline
from torch import Tensor
from torch.utils.data import DataLoader

FOREVER = 10**9


class Clients(FedDataset):
    """Everybody's rows, in memory, through torch's loader as in FedLab's own data sets."""

    def __init__(self, everybody: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.num = len(everybody)
        self._sets = [BaseDataset(x, y) for x, y in everybody]

    def get_dataset(self, id: int, type: str = "train") -> BaseDataset:
        return self._sets[id]

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> DataLoader[tuple[Tensor, Tensor]]:
        return DataLoader(self._sets[id], batch_size=batch_size, shuffle=True)


class Stepped(StandalonePipeline):
    """The pipeline that waits where it would evaluate."""

    def __init__(self, handler: FedAvgServerHandler, trainer: FedAvgSerialClientTrainer, turns: Turns) -> None:
        super().__init__(handler, trainer)
        self._turns = turns

    def evaluate(self) -> None:
        self._turns.wait()


def main() -> None:
    work, tuned = asked()
    begin(tuned)
    model = network(work, tuned, weights=False)  # FedLab flattens weights with view(-1)
    trainer = FedAvgSerialClientTrainer(model, num_clients=work.clients)
    trainer.setup_dataset(Clients(clients(work)))
    trainer.setup_optim(epochs=1, batch_size=work.batch, lr=LR)
    handler = FedAvgServerHandler(model, global_round=FOREVER, sample_ratio=work.cohort / work.clients)
    turns = Turns("fedlab", "fedlab")
    with suppress(Over):
        turns.wait()
        Stepped(handler, trainer, turns).main()


if __name__ == "__main__":
    main()
