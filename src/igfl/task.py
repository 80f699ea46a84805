"""A torch module seen as one flat vector: its gradients and its evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Literal, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from igfl.names import unknown
from igfl.types import Batch, Metrics, Vec

Loss = Callable[[Tensor, Tensor], Tensor]


class Inputs(Protocol):
    """From rows as stored to what the module takes."""

    def train(self, x: Tensor, generator: Generator | None) -> Tensor:
        """For a training step: augmented, drawn from the generator."""
        ...

    def evaluate(self, x: Tensor) -> Tensor:
        """For evaluation: nothing is drawn."""
        ...


class ModuleTask:
    """Any torch module, trained on the mean loss of a batch.

    The flat vector holds the parameters that ask for a gradient, in `named_parameters` order, each once however many
    layers share it. While it is worked on, the parameters are views of it, and nothing is copied in a step. With
    convolutions, images and kernels lie channels last, which is faster; bf16 computes in half precision what loses
    little by it (autocast), and keeps parameters, gradients and updates in full.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss = cross_entropy,
        *,
        inputs: Inputs | None = None,
        channels_last: bool | None = None,
        precision: Literal["fp32", "bf16"] = "fp32",
    ) -> None:
        _refuse_running_statistics(module)
        if precision not in ("fp32", "bf16"):
            raise unknown("precision", precision, ("fp32", "bf16"))
        self.module = deepcopy(module)
        self.loss = loss
        self.inputs = inputs
        self.precision = precision
        convolves = any(isinstance(layer, nn.Conv2d) for layer in self.module.modules())
        self.channels_last = convolves if channels_last is None else channels_last
        self._named = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        if not self._named:
            raise ValueError(f"{type(module).__name__} has no parameter to train: set requires_grad on some")
        self._parameters = [p for _, p in self._named]
        first = self._parameters[0]
        for name, p in self._named:
            if (p.dtype, p.device) != (first.dtype, first.device):
                raise ValueError(
                    f"{name} is {p.dtype} on {p.device}, {self._named[0][0]} is {first.dtype} on {first.device}: "
                    "a flat vector has one type and one device; move the module with .to(...)"
                )
        self.device, self.dtype = first.device, first.dtype
        self._initial = torch.cat([self._laid_out(p.detach()).reshape(-1) for p in self._parameters])
        self._gradient = torch.empty_like(self._initial)
        self._gradient_views = list(self._views(self._gradient))
        self._bound: Tensor | None = None
        self._bind(self._initial)

    def initial(self) -> Vec:
        """The module's own parameters, as they were given."""
        return self._initial.clone()

    def named(self, params: Vec) -> dict[str, Tensor]:
        """The flat vector as named tensors, views of it."""
        return {name: view for (name, _), view in zip(self._named, self._views(params), strict=True)}

    def gradient(self, params: Vec, batch: Batch) -> tuple[Tensor, Vec]:
        """The mean loss of a batch and its gradient, in a buffer that the next call overwrites."""
        loss, gradients = self._gradients(params, batch)
        torch._foreach_copy_(self._gradient_views, gradients)
        return loss, self._gradient

    def descend(self, params: Vec, batch: Batch, rate: float, out: Vec) -> Tensor:
        """out <- params - rate * gradient, out being params or another vector; the loss before."""
        loss, gradients = self._gradients(params, batch)
        views = self._bound_views
        if out is params:
            torch._foreach_add_(views, gradients, alpha=-rate)
        else:
            for view, gradient, place in zip(views, gradients, self._views(out), strict=True):
                torch.sub(view, gradient, alpha=rate, out=place)
        return loss

    def step(self, params: Vec, batch: Batch, rate: float, out: Vec) -> Tensor:
        """out <- -rate * gradient; the loss before."""
        loss, gradients = self._gradients(params, batch)
        for gradient, place in zip(gradients, self._views(out), strict=True):
            torch.mul(gradient, -rate, out=place)
        return loss

    def _gradients(self, params: Vec, batch: Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
        self._bind(params)
        self._train(True)
        x = batch.x if self.inputs is None else self.inputs.train(batch.x, batch.generator)
        loss = self.loss(self._forward(x), batch.y.to(self.device))
        return loss.detach(), torch.autograd.grad(loss, self._parameters, allow_unused=True, materialize_grads=True)

    @torch.no_grad()
    def evaluate(self, params: Vec, batch: Batch) -> Metrics:
        """The mean loss, and for classes the accuracy."""
        outputs, y = self._outputs(params, batch), batch.y.to(self.device)
        metrics = {"loss": float(self.loss(outputs, y))}
        if _are_classes(outputs, y):
            metrics["accuracy"] = float((outputs.argmax(1) == y).to(torch.float64).mean())
        return metrics

    @torch.no_grad()
    def check(self, batch: Batch, labels: Tensor) -> None:
        """Refuse labels that the module has no output for."""
        outputs = self._outputs(self._initial, batch)
        if _are_classes(outputs, labels) and len(labels):
            low, high, classes = int(labels.min()), int(labels.max()), outputs.shape[1]
            if low < 0 or high >= classes:
                raise ValueError(
                    f"label {low if low < 0 else high} is out of range: the module has {classes} outputs, for labels "
                    f"0 to {classes - 1}; relabel the data or widen the last layer"
                )

    def _outputs(self, params: Vec, batch: Batch) -> Tensor:
        self._bind(params)
        self._train(False)
        x = batch.x if self.inputs is None else self.inputs.evaluate(batch.x)
        return self._forward(x)

    def outputs(self, params: Vec, x: Tensor) -> Tensor:
        """The module's outputs as a pure function of the flat vector, as torch.func wants it."""
        return self._call(lambda: functional_call(self.module, self.named(params), (x,)))

    def _forward(self, x: Tensor) -> Tensor:
        x = self.as_input(x)
        return self._call(lambda: self.module(x))

    def _call(self, forward: Callable[[], Tensor]) -> Tensor:
        if self.precision == "fp32":
            return forward()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return forward().to(self.dtype)

    def as_input(self, x: Tensor) -> Tensor:
        """Rows as stored, or augmented, in the module's type, on its device, images laid out as its kernels are."""
        if x.dtype == torch.uint8:
            x = x.to(self.device, self.dtype).div_(255)
        else:
            x = x.to(self.device, self.dtype if x.is_floating_point() else x.dtype)
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last and x.ndim == 4 else x

    def _train(self, training: bool) -> None:
        if self.module.training != training:
            self.module.train(training)

    def _bind(self, params: Vec) -> None:
        if self._bound is params:
            return
        if params.shape != self._initial.shape:
            raise ValueError(
                f"the model has {len(self._initial)} parameters, a vector of {tuple(params.shape)} was given"
            )
        self._bound_views = list(self._views(params))
        for parameter, view in zip(self._parameters, self._bound_views, strict=True):
            parameter.data = view
        self._bound = params

    def _views(self, vector: Vec) -> Iterator[Tensor]:
        sizes = [p.numel() for p in self._parameters]
        for piece, parameter in zip(torch.split(vector, sizes), self._parameters, strict=True):
            yield self._shaped(piece, parameter)

    def _laid_out(self, parameter: Tensor) -> Tensor:
        """A parameter with its dimensions in the order they have in the vector."""
        return parameter.permute(0, 2, 3, 1) if self.channels_last and parameter.ndim == 4 else parameter

    def _shaped(self, piece: Tensor, parameter: Tensor) -> Tensor:
        """A piece of the vector in a parameter's shape."""
        piece = piece.view(self._laid_out(parameter).shape)
        return piece.permute(0, 3, 1, 2) if self.channels_last and parameter.ndim == 4 else piece

    def __getstate__(self) -> dict[str, Any]:
        self._bind(self._initial)
        options = {"inputs": self.inputs, "channels_last": self.channels_last, "precision": self.precision}
        return {"module": self.module, "loss": self.loss, "options": options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["module"], state["loss"], **state["options"])  # type: ignore[misc]  # made anew of its parts


def _are_classes(outputs: Tensor, labels: Tensor) -> bool:
    return outputs.ndim == 2 and labels.ndim == 1 and not labels.is_floating_point()


def _refuse_running_statistics(module: nn.Module) -> None:
    """Batch norm and its like keep state in the layers, which no method here would average."""
    for name, layer in module.named_modules():
        for buffer, value in layer.named_buffers(recurse=False):
            if value is not None and value.is_floating_point() and buffer not in layer._non_persistent_buffers_set:
                raise ValueError(
                    f"layer {name or type(module).__name__!r} ({type(layer).__name__}) keeps {buffer!r}, a running "
                    "state that clients would not share: use GroupNorm, LayerNorm or track_running_stats=False; "
                    "register a constant with persistent=False"
                )
