"""fedjax: its federated averaging with its jit backend, the networks in haiku with images NHWC.

XLA spreads a step over both cores. Its older runtime and this backend are the fastest of those fedjax can run on.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from protocol import LR, asked, begin, clients, serve

sys.path.append(sys.path.pop(0))  # files here are named as the libraries are: look for those first
os.environ["XLA_FLAGS"] = "--xla_cpu_use_thunk_runtime=false"

import fedjax
import haiku as hk
import jax
import numpy as np
from fedjax.algorithms import fed_avg
from torch import Tensor


def _pool() -> hk.MaxPool:
    return hk.MaxPool((1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _layers(name: str) -> list[Any]:
    """The same networks as those of igfl.bench.workloads."""
    relu = jax.nn.relu
    if name == "A":
        return [
            hk.Conv2D(64, 5, padding="SAME"), relu, _pool(), hk.Conv2D(64, 5, padding="SAME"), relu, _pool(),
            hk.Flatten(), hk.Linear(384), relu, hk.Linear(192), relu, hk.Linear(10),
        ]  # fmt: skip
    if name == "B":
        return [
            hk.Conv2D(32, 3, padding="VALID"), relu, hk.Conv2D(64, 3, padding="VALID"), relu, _pool(),
            hk.Flatten(), hk.Linear(128), relu, hk.Linear(62),
        ]  # fmt: skip
    return [hk.Linear(10, w_init=hk.initializers.Constant(0.0))]


def _examples(x: Tensor, y: Tensor) -> dict[str, Any]:
    images = np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy()) if x.ndim == 4 else x.numpy()
    return {"x": images, "y": y.numpy().astype(np.int32)}


def main() -> None:
    work, tuned = asked()
    begin(tuned)
    data = fedjax.InMemoryFederatedData({f"{k:04}": _examples(x, y) for k, (x, y) in enumerate(clients(work))})
    sample = {name: rows[:1] for name, rows in data.get_client("0000").all_examples().items()}
    model = fedjax.create_model_from_haiku(
        hk.transform(lambda batch: hk.Sequential(_layers(work.name))(batch["x"])),
        sample_batch=sample,
        train_loss=lambda batch, scores: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], scores),
    )
    fedjax.set_for_each_client_backend("jit")
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.sgd(LR),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=1),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, num_clients=work.cohort, seed=0)
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))

    def round() -> None:
        nonlocal state
        state, diagnostics = algorithm.apply(state, sampler.sample())
        jax.block_until_ready((state.params, diagnostics))

    round()  # compiles
    serve("fedjax", "fedjax", round)


if __name__ == "__main__":
    main()
