"""pfl-research: FederatedAveraging on its simulated backend, two processes of one thread each as its guide says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

from protocol import LR, Over, Turns, asked, begin, clients, network

sys.path.append(sys.path.pop(0))  # files here are named as the libraries are: look for those first

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

FOREVER = 10**9


class Classifier(nn.Module):
    """A network as pfl wants it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.network(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {"loss": Weighted(self.loss(x, y).item() * len(x), len(x))}


class Between(TrainingProcessCallback):
    """The callback that makes both processes wait; the first round, which alone evaluates, comes before `ready`."""

    def __init__(self, rank: int) -> None:
        self._turns = Turns("pfl", "pfl") if rank == 0 else None

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        over = torch.zeros(1)
        if self._turns is not None:
            try:
                self._turns.wait()
            except Over:
                over.fill_(1)
        torch.distributed.broadcast(over, src=0)
        return bool(over), Metrics()


def train(rank: int) -> None:
    """What both processes run; these imports make them meet, so that they cannot stand above."""
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.model.pytorch import PyTorchModel

    work, tuned = asked()
    begin(tuned, threads=1)
    np.random.seed(0)  # noqa: NPY002  # pfl's; both processes must draw the same users
    torch.manual_seed(0)
    module = Classifier(network(work, tuned))
    torch.manual_seed(rank)
    everybody = clients(work)

    def user(client: int) -> PyTorchTensorDataset:
        x, y = everybody[client]
        order = torch.randperm(len(x))  # pfl itself does not shuffle
        return PyTorchTensorDataset((x[order], y[order]), user_id=str(client))

    data = FederatedDataset(user, MinimizeReuseUserSampler(list(range(work.clients))))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=FOREVER, evaluation_frequency=FOREVER, train_cohort_size=work.cohort,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LR, local_batch_size=work.batch),
        callbacks=[Between(rank)],
        send_metrics_to_platform=False,
    )  # fmt: skip


def main() -> None:
    if "PFL_WORKER_RANK" in os.environ:
        train(int(os.environ["PFL_WORKER_RANK"]))
        return
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("localhost", 0))
        os.environ["PFL_WORKER_ADDRESSES"] = ",".join(f"localhost:{s.getsockname()[1]}" for s in (one, other))
    second = {**os.environ, "PFL_WORKER_RANK": "1"}
    process = subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.DEVNULL, env=second)  # noqa: S603
    os.environ["PFL_WORKER_RANK"] = "0"
    train(0)
    process.wait()


if __name__ == "__main__":
    main()
