"""FedAvg against IGFL on scikit-learn's digits, sorted by label over ten clients, each at its best rate.

    python benchmarks/digits.py

For every method and rate of the paper's grid: 5 seeds (partition, initialisation and batches), the same rounds for all,
accuracy on the test set averaged over the last tenth of them. The best rate is that of the best mean over those seeds.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from statistics import mean, stdev

import igfl
from igfl.data import Shards, load, partition
from igfl.models import model

METHODS = ["fedavg", "fedavgm", "igfl_c", "igfl/self", "igfl/global", "igfl/time"]
RATES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
SEEDS = range(5)
ROUNDS = 40


def accuracy(case: tuple[str, float, int]) -> float:
    name, lr, seed = case
    digits = load("digits")
    job = igfl.Job(
        method=igfl.method(name),
        task=igfl.ModuleTask(model("mlp", inputs=64, hidden=(64,), seed=seed)),
        data=digits.divided(partition(digits.y.numpy(), Shards(), 10, seed=seed)),
        plan=igfl.Plan(lr=lr, batch=20, epochs=1),
        seed=seed,
    )
    engine = igfl.Loop(job)
    tail = []
    for state, _ in igfl.rounds(engine, cohorts=igfl.Sampled(rounds=ROUNDS)):
        if state.round > ROUNDS - ROUNDS // 10:
            tail.append(engine.evaluate(state.params)["accuracy"])
    return mean(tail)


def main() -> None:
    cases = list(product(METHODS, RATES, SEEDS))
    with ProcessPoolExecutor() as pool:
        found = dict(zip(cases, pool.map(accuracy, cases, chunksize=5), strict=True))
    print(f"accuracy, mean ± spread over {len(SEEDS)} seeds, {ROUNDS} rounds; * the method's best rate")
    print("method".ljust(12), *(f"{rate:>16}" for rate in RATES))
    for name in METHODS:
        cells = {rate: [found[name, rate, seed] for seed in SEEDS] for rate in RATES}
        best = max(RATES, key=lambda rate: mean(cells[rate]))
        marks = [f"{mean(c):.3f} ± {stdev(c):.3f}{'*' if rate == best else ' '}" for rate, c in cells.items()]
        print(name.ljust(12), *(f"{mark:>16}" for mark in marks))


if __name__ == "__main__":
    main()
