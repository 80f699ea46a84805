"""FedAvg and IGFL side by side: handwritten digits, sorted by label over ten clients, so that each knows two digits."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import igfl
from igfl.data import Shards, load, partition
from igfl.models import model

ROUNDS, SEED = 40, 0
METHODS = {"FedAvg": (igfl.fedavg(), 0.3), "IGFL (global attention)": (igfl.igfl("global"), 0.3)}


def main() -> None:
    digits = load("digits")
    clients = partition(digits.y.numpy(), Shards(), clients=10, seed=SEED)
    accuracies = {}
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[shown]}"),
    )
    with Progress(*columns, TimeRemainingColumn()) as progress:
        for name, (method, lr) in METHODS.items():
            bar = progress.add_task(name, total=ROUNDS, shown="")
            job = igfl.Job(
                method=method,
                task=igfl.ModuleTask(model("mlp", inputs=64, hidden=(64,), seed=SEED)),
                data=digits.divided(clients),
                plan=igfl.Plan(lr=lr, batch=20),
                seed=SEED,
            )
            engine = igfl.Loop(job)
            for state, _ in igfl.rounds(engine, cohorts=igfl.Sampled(rounds=ROUNDS)):
                accuracies[name] = engine.evaluate(state.params)["accuracy"]
                progress.update(bar, advance=1, shown=f"accuracy {accuracies[name]:.3f}")
    console = Console()
    console.print(
        f"\nTest accuracy after {ROUNDS} rounds, every client in each, each method at its best learning rate:"
    )
    console.print("   ".join(f"{name} [bold]{accuracy:.3f}[/bold]" for name, accuracy in accuracies.items()))


if __name__ == "__main__":
    main()
