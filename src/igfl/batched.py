"""Many models of one shape at once: row i of a matrix is a whole model, and every kernel works on all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.dropout import _DropoutNd

from igfl.exact import ALIGNMENT, aligned_rows
from igfl.task import ModuleTask
from igfl.types import Batch, Task, Vec

MAPPED = 64  # models mapped at once, at the most: an accelerator's memory ends somewhere
CHUNK_BYTES = 2**22  # of models trained at once on a processor: what its caches hold


class Batched(Protocol):
    """All that is known of a model where many are trained at once; `block` of them have a say in each other's bits."""

    @property
    def block(self) -> int: ...

    def descend(self, params: Tensor, batch: Batch, counts: Tensor | None, rate: float | Tensor) -> Tensor:
        """params [n, d] <- params - rate * gradients, in place; returns the mean losses [n].

        The batch is [n, rows, ...]; model i has its first counts[i] rows, the rest is padding. None: all rows. A rate
        that differs from model to model is [n, 1].
        """
        ...


class Unbatchable(ValueError):  # noqa: N818  # what it is
    """The task cannot be trained for many clients at once."""

    def __str__(self) -> str:
        return f"many clients cannot train at once here: {self.args[0]}; choose engine 'loop' or 'processes'"


def batched(task: Task, example: Batch) -> Batched:
    """The task for many models at once: dense layers as batched products, anything else mapped by torch.func."""
    if not isinstance(task, ModuleTask):
        raise Unbatchable(f"{type(task).__name__} is no ModuleTask, whose module could be mapped over many clients")
    for name, layer in task.module.named_modules():
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise Unbatchable(f"dropout in layer {name!r} draws from each visit's own stream, one client at a time")
    layers = dense_layers(task, example.x.ndim)
    return Mapped(task, example) if layers is None else Dense(task, layers)


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer: where its weight [out, in] and its bias lie in the flat vector, whether a ReLU follows."""

    weight: slice
    shape: tuple[int, int]
    bias: slice | None
    relu: bool


def dense_layers(task: Task, dimensions: int = 2) -> tuple[Layer, ...] | None:
    """The layers where the module is a stack of linear ones with ReLU between under cross-entropy, else None."""
    if not isinstance(task, ModuleTask) or task.loss is not cross_entropy or task.precision != "fp32":
        return None
    modules = list(_flat(task.module))
    flattens = (
        bool(modules) and type(modules[0]) is nn.Flatten and (modules[0].start_dim, modules[0].end_dim) == (1, -1)
    )
    found: list[Layer] = []
    position = 0
    for module in modules[flattens:]:
        if type(module) is nn.ReLU and found and not found[-1].relu:
            last = found[-1]
            found[-1] = Layer(last.weight, last.shape, last.bias, relu=True)
        elif type(module) is nn.Linear:
            out, into = module.weight.shape
            weight = slice(position, position + out * into)
            bias = None if module.bias is None else slice(weight.stop, weight.stop + out)
            position = (bias or weight).stop
            found.append(Layer(weight, (out, into), bias, relu=False))
        else:
            return None
    whole = position == len(task.initial()) and all(p.requires_grad for p in task.module.parameters())
    hooked = any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in task.module.modules())
    fits = found and not found[-1].relu and whole and not hooked and (flattens or dimensions == 2)
    return tuple(found) if fits else None


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is nn.Sequential:
        for child in module:
            yield from _flat(child)
    elif type(module) is not nn.Identity:
        yield module


@final
@dataclass(frozen=True)
class Dense:
    """Linear layers with ReLU between, under cross-entropy: forwards and backwards written out.

    Each model's operands start on the boundary, so that its bits do not depend on its place among the others.
    """

    task: ModuleTask
    layers: tuple[Layer, ...]

    @property
    def block(self) -> int:
        return 1

    def descend(self, params: Tensor, batch: Batch, counts: Tensor | None, rate: float | Tensor) -> Tensor:
        weights = [params[:, layer.weight].view(-1, *layer.shape) for layer in self.layers]
        biases = [None if layer.bias is None else params[:, layer.bias] for layer in self.layers]
        inputs = [_aligned(_as_input(self.task, batch.x).flatten(2))]  # of each layer, [n, rows, features]
        for layer, weight, bias in zip(self.layers, weights, biases, strict=True):
            outputs = aligned_rows(len(params), (inputs[0].shape[1], layer.shape[0]), params)
            if bias is None:
                torch.bmm(inputs[-1], weight.mT, out=outputs)
            else:
                outputs.copy_(bias[:, None]).baddbmm_(inputs[-1], weight.mT)
            inputs.append(outputs.relu_() if layer.relu else outputs)
        slopes, losses = cross_entropies(inputs.pop(), batch.y.to(params.device))
        losses, pace = _means(slopes, losses, counts, rate)
        for i in reversed(range(len(weights))):
            above, bias = slopes, biases[i]
            if i:
                slopes = aligned_rows(len(params), inputs[i].shape[1:], params)
                torch.bmm(above, weights[i], out=slopes).mul_(inputs[i] > 0)
            weights[i].baddbmm_(above.mT, inputs[i], alpha=-pace)
            if bias is not None:
                bias.sub_(above.sum(1), alpha=pace)
        return losses


def cross_entropies(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes [n, rows, classes], in the memory of the outputs, and losses [n, rows] of each row by itself."""
    outputs -= outputs.amax(-1, keepdim=True)
    labels = y[..., None]
    own = outputs.gather(-1, labels)
    slopes = outputs.exp_()
    total = slopes.sum(-1, keepdim=True)
    slopes /= total
    slopes.scatter_add_(-1, labels, slopes.new_full((1, 1, 1), -1.0).expand_as(labels))
    return slopes, total.log_().sub_(own)[..., 0]


def _means(slopes: Tensor, losses: Tensor, counts: Tensor | None, rate: float | Tensor) -> tuple[Tensor, float]:
    """The mean losses [n]; the slopes are left so that -pace times their products is the step."""
    rows = losses.shape[1]
    if counts is None and not isinstance(rate, Tensor):
        return losses.mean(1), rate / rows
    shares = losses.new_full((1, rows), 1 / rows) if counts is None else _shares(counts, losses)
    slopes *= (shares * rate)[..., None]
    return (losses * shares).sum(1), 1.0


def _shares(counts: Tensor, rows: Tensor) -> Tensor:
    """[n, rows] what each row counts in its client's mean: 1/count, or nothing where it is padding."""
    real = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
    return real.to(rows.dtype) / counts[:, None]


@final
class Mapped:
    """Any other module, its gradients mapped over the models by torch.func, so many at once.

    Where a model stands among those mapped with it decides some of its bits, for torch chooses how they lie. So blocks
    are of a fixed size: the same models always stand together.
    """

    def __init__(self, task: ModuleTask, example: Batch) -> None:
        self._task = task
        self.block = min(at_once(task.initial()), MAPPED)
        try:
            self._check(example)
        except (RuntimeError, NotImplementedError) as error:
            raise Unbatchable(f"torch.func cannot map {type(task.module).__name__}: {_first_line(error)}") from error

    def descend(self, params: Tensor, batch: Batch, counts: Tensor | None, rate: float | Tensor) -> Tensor:
        blocks = [slice(first, first + self.block) for first in range(0, len(params), self.block)]
        return torch.cat([
            self._descend(
                params[b], Batch(x=batch.x[b], y=batch.y[b]), None if counts is None else counts[b],
                rate[b] if isinstance(rate, Tensor) else rate,
            )
            for b in blocks
        ])  # fmt: skip

    def _descend(self, params: Tensor, batch: Batch, counts: Tensor | None, rate: float | Tensor) -> Tensor:
        self._task.module.train()
        x, y = _as_input(self._task, batch.x), batch.y.to(params.device)
        shares = None if counts is None else _shares(counts, params.new_empty(x.shape[:2]))
        whole, arguments = (self._whole, (x, y)) if shares is None else (self._shared, (x, y, shares))
        mapped = torch.vmap(torch.func.grad_and_value(whole), randomness="error")
        gradients, losses = mapped(params, *arguments)
        params.sub_(gradients * rate if isinstance(rate, Tensor) else gradients.mul_(rate))
        means: Tensor = losses.detach()
        return means

    def _whole(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = self._task.loss(self._task.outputs(params, x), y)
        return loss

    def _shared(self, params: Tensor, x: Tensor, y: Tensor, shares: Tensor) -> Tensor:
        """The loss as a weighted mean of the losses of single rows."""
        return (self._of_rows(self._task.outputs(params, x), y) * shares).sum()

    def _of_rows(self, outputs: Tensor, y: Tensor) -> Tensor:
        losses: Tensor = torch.vmap(lambda output, label: self._task.loss(output[None], label[None]))(outputs, y)
        return losses

    def _check(self, example: Batch) -> None:
        """A row's outputs depend on it alone, and the loss is the mean over rows: only then may rows be padded."""
        params = self._task.initial()
        self._task.module.train()
        x, y = self._task.as_input(example.x), example.y.to(params.device)
        with torch.no_grad():
            together = self._task.outputs(params, x)
            alone = torch.cat([self._task.outputs(params, x[i : i + 1]) for i in range(len(x))])
            losses = self._of_rows(together, y)
        kind = type(self._task.module).__name__
        if not torch.allclose(together, alone, rtol=1e-3, atol=1e-5):
            raise Unbatchable(f"{kind} mixes the rows of a batch, which are padded where clients are unequal")
        if not torch.allclose(losses.mean(), self._task.loss(together, y), rtol=1e-3, atol=1e-5):
            raise Unbatchable(f"the loss {self._task.loss!r} is not the mean over the rows of a batch")
        self.descend(
            torch.stack([params, params]),
            Batch(x=example.x[None].expand(2, *example.x.shape), y=example.y[None].expand(2, *example.y.shape)),
            None,
            0.0,
        )


def at_once(params: Vec) -> int:
    """How many models fit into a processor's caches; an accelerator takes all."""
    return 2**30 if params.device.type != "cpu" else max(1, CHUNK_BYTES // (params.numel() * params.element_size()))


def _aligned(blocks: Tensor) -> Tensor:
    """Blocks [n, ...], each starting on the boundary."""
    if blocks[0].numel() * blocks.element_size() % ALIGNMENT == 0:
        return blocks
    return aligned_rows(len(blocks), blocks.shape[1:], blocks).copy_(blocks)


def _as_input(task: ModuleTask, x: Tensor) -> Tensor:
    flat = task.as_input(x.flatten(0, 1))
    return flat.view(*x.shape[:2], *flat.shape[1:])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
