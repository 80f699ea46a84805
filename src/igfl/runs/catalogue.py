"""What there is by name, and which options each takes: known without loading any of it, and held to it by a test."""

from __future__ import annotations

_SERVER = ("lr",)
_ATTENTION = ("attention", "temperature", "similarity", "lr")
METHODS: dict[str, tuple[str, ...]] = {
    "fedavg": _SERVER,
    "fedavgm": ("lr", "beta"),
    "fedprox": ("mu", "lr"),
    "scaffold": _SERVER,
    "fedadam": ("lr", "tau", "beta1", "beta2"),
    "fedadagrad": ("lr", "tau", "beta1"),
    "fedyogi": ("lr", "tau", "beta1", "beta2"),
    "vrl_sgd": (),
    "igfl_c": _SERVER,
    "igfl_s": _ATTENTION,
    "igfl": _ATTENTION,
}
DATASETS: dict[str, tuple[str, ...]] = {
    "digits": (),
    "cifar10": ("path",),
    "mnist": ("path",),
    "mnist_writers": ("path",),
    "emnist": ("path", "split"),
    "synthetic": ("shape", "classes", "rows", "test_rows", "seed"),
    "npz": ("path", "test", "seed"),
}
RULES: dict[str, tuple[str, ...]] = {
    "shards": ("paired",),
    "dirichlet": ("rho", "order", "prior"),
    "proportions": ("rho", "least"),
    "iid": (),
    "quantity": ("sigma",),
    "writers": (),  # the data says who wrote what
    "explicit": ("path",),
}
MODELS: dict[str, tuple[str, ...]] = {
    "mcmahan_cnn": ("lrn", "input", "classes", "seed"),
    "reddi_cnn": ("classes", "seed"),
    "cnn": ("channels", "input", "classes", "seed"),
    "lenet_tut": ("classes", "seed"),
    "mlp": ("inputs", "hidden", "classes", "seed"),
    "logistic": ("inputs", "classes", "seed"),
}
ENGINES = ("auto", "loop", "processes", "vectorised", "ray")
ATTENTIONS = ("self", "global", "time")
KINDS = {"method": METHODS, "data": DATASETS, "split": RULES, "model": MODELS}
