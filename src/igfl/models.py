"""The paper's networks and small ones, initialised from a seed's own stream: equal on every machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from igfl.names import named
from igfl.streams import Stream, stream

MODELS = {
    name: f"igfl.models:{name}"
    for name in ("mcmahan_cnn", "reddi_cnn", "cnn", "lenet_tut", "mlp", "logistic")
}  # fmt: skip


def model(name: str, *, seed: int = 0, **options: Any) -> nn.Module:
    """The network of this name, or of any importable `package.module:factory`; the seed initialises ours."""
    factory: Callable[..., nn.Module] = named("model", name, MODELS)
    if name in MODELS:
        options["seed"] = seed
    try:
        return factory(**options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise ValueError(f"model={name!r}: {error}") from error


class LocalResponseNorm(nn.Module):
    """x (k + alpha/size sum x^2 over `size` neighbouring channels)^-beta, the sum as a 1x1 convolution with a band."""

    band: Tensor

    def __init__(self, channels: int, size: int = 9, alpha: float = 1e-3, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        near = (torch.arange(channels)[:, None] - torch.arange(channels)).abs() <= size // 2
        self.register_buffer("band", (alpha / size * near).view(channels, channels, 1, 1), persistent=False)
        self.beta, self.k = beta, k

    def forward(self, x: Tensor) -> Tensor:
        """Channels are the second dimension."""
        scale = torch.nn.functional.conv2d(x.square(), self.band) + self.k
        if self.beta == 0.75:  # the one that is used, and two roots are faster than a power
            root = scale.rsqrt()
            return x * (root * root.sqrt())
        return x * scale.pow(-self.beta)


def mcmahan_cnn(*, lrn: bool = True, input: int = 24, classes: int = 10, seed: int = 0) -> nn.Module:
    """The TensorFlow tutorial's CIFAR-10 network (McMahan et al. 2017): 1,068,298 parameters at 24x24."""
    side = -(-input // 4)  # two pools of stride 2, SAME
    norm: Callable[[], nn.Module] = (lambda: LocalResponseNorm(64)) if lrn else nn.Identity
    network = nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), norm(),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), norm(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(64 * side * side, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(),
        nn.Linear(192, classes),
    )  # fmt: skip
    draws = stream(seed, "model")
    spreads, biases = (0.05, 0.05, 0.04, 0.04, 1 / 192), (0.0, 0.1, 0.1, 0.1, 0.0)
    with torch.no_grad():
        for i, (layer, spread, bias) in enumerate(zip(_layers(network), spreads, biases, strict=True)):
            layer.weight.copy_(_truncated_normal(draws.at(i), layer.weight.shape) * spread)
            layer.bias.fill_(bias)
    return network


def reddi_cnn(*, classes: int = 62, seed: int = 0) -> nn.Module:
    """The EMNIST network of Reddi et al. 2021, with its Glorot initialisation: 1,206,590 parameters."""
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes),
    )  # fmt: skip
    draws = stream(seed, "model")
    with torch.no_grad():
        for i, layer in enumerate(_layers(network)):
            fan_out, fan_in = layer.weight.shape[0], layer.weight[0].numel()
            field = prod(layer.weight.shape[2:])
            layer.weight.copy_(_uniform(draws.at(i), layer.weight.shape) * sqrt(6 / (fan_in + fan_out * field)))
            layer.bias.zero_()
    return network


def cnn(*, channels: int = 3, input: int = 32, classes: int = 10, seed: int = 0) -> nn.Module:
    """A plain network of five layers: two 5x5 convolutions of 64 with 2x2 pools, then 384, 192 and the classes."""
    network = nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (input // 4) ** 2, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(),
        nn.Linear(192, classes),
    )  # fmt: skip
    return _as_torch_does(network, seed)


def lenet_tut(*, classes: int = 10, seed: int = 0) -> nn.Module:
    """The cheap CIFAR network: two valid 5x5 convolutions of 64 with 2x2 pools, 1600-384-192-10; 797,962 parameters."""
    network = nn.Sequential(
        nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, classes),
    )  # fmt: skip
    return _as_torch_does(network, seed)


def mlp(*, inputs: int, hidden: tuple[int, ...] = (128,), classes: int = 10, seed: int = 0) -> nn.Module:
    """Dense layers with ReLU between."""
    widths = (inputs, *hidden, classes)
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return _as_torch_does(nn.Sequential(*layers[:-1]), seed)


def logistic(*, inputs: int, classes: int = 10, seed: int = 0) -> nn.Module:  # noqa: ARG001  # as all the others
    """Softmax regression, from zero: it is convex and needs no luck, so that the seed has nothing to do."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    return network


def _layers(network: nn.Module) -> list[Any]:
    return [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]


def _as_torch_does(network: nn.Module, seed: int) -> nn.Module:
    """Weights and biases uniform within 1/sqrt(fan in), as torch's own layers, but from our stream."""
    draws = stream(seed, "model")
    with torch.no_grad():
        for i, layer in enumerate(_layers(network)):
            bound = 1 / sqrt(layer.weight[0].numel())
            for j, part in enumerate((layer.weight, layer.bias)):
                part.copy_(_uniform(draws.at(i).at(j), part.shape) * bound)
    return network


def _uniform(draws: Stream, shape: tuple[int, ...]) -> Tensor:
    """In [-1, 1), double precision: exact arithmetic, the same everywhere."""
    return torch.from_numpy(2 * draws.uniform(prod(shape))[0] - 1).view(shape)


def _truncated_normal(draws: Stream, shape: tuple[int, ...]) -> Tensor:
    """Standard normal within two deviations, by inversion; rounded to 2^-16, coarser than libraries of maths differ."""
    low, high = torch.special.ndtr(torch.tensor([-2.0, 2.0], dtype=torch.float64)).tolist()
    normal = torch.special.ndtri(low + (high - low) * torch.from_numpy(draws.uniform(prod(shape))[0]))
    return torch.from_numpy(np.rint(normal.numpy() * 65536) / 65536).view(shape)
