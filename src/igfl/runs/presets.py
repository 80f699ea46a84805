"""Configurations worth starting from, by name."""

from __future__ import annotations

from typing import Any

_CIFAR: dict[str, Any] = {
    "data": {"name": "cifar10", "augment": "tutorial"},
    "model": "mcmahan_cnn",
    "train": {"lr": 0.03, "batch": 100, "epochs": 1},
    "rounds": 500,
}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("ten clients, two digits each: seconds", {"name": "digits"}),
    "cifar-silo": (
        "the paper's cross-silo CIFAR-10: ten clients, two classes each, all in every round",
        {**_CIFAR, "name": "cifar-silo", "split": {"name": "shards", "clients": 10}},
    ),
    "cifar-device": (
        "the paper's cross-device CIFAR-10: a hundred clients, ten a round, Dirichlet 0.1",
        {**_CIFAR, "name": "cifar-device", "cohort": 10, "split": {"name": "dirichlet", "clients": 100, "rho": 0.1}},
    ),
    "cifar-quick": (
        "CIFAR-10 with a small network: a look at real images in minutes",
        {
            **_CIFAR, "name": "cifar-quick", "rounds": 20, "data": {"name": "cifar10"}, "model": "lenet_tut",
            "split": {"name": "shards", "clients": 10}, "evaluate": 5,
        },
    ),
    "writers": (
        "MNIST by who wrote it: natural clients",
        {
            "name": "writers", "data": {"name": "mnist_writers"}, "split": {"name": "writers"}, "cohort": 20,
            "model": "mlp", "rounds": 100,
        },
    ),
}  # fmt: skip
