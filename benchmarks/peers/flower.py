"""Flower: its simulation runtime with the Ray backend, two actors of one CPU each, and its FedAvg strategy."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from protocol import LR, Over, Turns, asked, begin, clients, network

sys.path.append(sys.path.pop(0))  # files here are named as the libraries are: look for those first

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from igfl.bench.workloads import workload

FOREVER = 10**9
client_app = ClientApp()


@cache
def _actor(name: str, tuned: bool) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """What an actor keeps between the clients it is given."""
    begin(tuned, threads=1)
    work = workload(name)
    return network(work, tuned), clients(work)


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """One client's epoch."""
    config: Any = message.content["config"]
    arrays: Any = message.content["arrays"]
    model, everybody = _actor(config["workload"], config["tuned"])
    x, y = everybody[int(context.node_config["partition-id"])]
    model.load_state_dict(arrays.to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for chosen in torch.randperm(len(x)).split(workload(config["workload"]).batch):
        optimizer.zero_grad()
        cross_entropy(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


class Stepped(FedAvg):
    """FedAvg that waits for its turn; its first round comes before `ready`, and fills the actors."""

    def __init__(self, turns: Turns, cohort: int, population: int) -> None:
        super().__init__(
            fraction_train=cohort / population, fraction_evaluate=0.0, min_train_nodes=cohort,
            min_available_nodes=population,
        )  # fmt: skip
        self._turns = turns

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if server_round > 1:
            self._turns.wait()
        return super().configure_train(server_round, arrays, config, grid)


def main() -> None:
    work, tuned = asked()
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, _context: Context) -> None:
        Stepped(Turns("flower", "flwr"), work.cohort, work.clients).start(
            grid=grid,
            initial_arrays=ArrayRecord(work.network().state_dict()),
            num_rounds=FOREVER,
            train_config=ConfigRecord({"workload": work.name, "tuned": tuned}),
        )

    with suppress(Over):
        run_simulation(
            server_app, client_app, num_supernodes=work.clients,
            backend_config={"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )  # fmt: skip


if __name__ == "__main__":
    import flower  # what is in __main__ would travel to the actors with every client, by value

    flower.main()
