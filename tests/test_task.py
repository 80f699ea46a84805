"""A torch module as one flat vector: what it computes is what torch computes."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import igfl


class Tied(nn.Module):
    """One weight used twice, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 6, bias=False)
        self.again = nn.Linear(6, 6, bias=False)
        self.again.weight = self.encode.weight
        self.frozen = nn.Linear(6, 6)
        self.frozen.requires_grad_(False)
        self.head = nn.Linear(6, 3)
        self.head.weight = nn.Parameter(torch.randn(6, 3).t())  # not contiguous

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.frozen(torch.relu(self.again(torch.relu(self.encode(x))))))


def batch(n: int = 10, dtype: torch.dtype = torch.float32) -> igfl.Batch:
    draws = torch.Generator().manual_seed(0)
    return igfl.Batch(x=torch.randn(n, 6, generator=draws, dtype=dtype), y=torch.randint(0, 3, (n,), generator=draws))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_is_torchs(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    module = Tied().to(dtype)
    task, rows = igfl.ModuleTask(module), batch(dtype=dtype)
    loss, gradient = task.gradient(task.initial(), rows)
    expected = cross_entropy(module(rows.x), rows.y)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    named = task.named(gradient)
    assert list(named) == ["encode.weight", "head.weight", "head.bias"]  # tied once, frozen not at all
    for name, value in named.items():
        torch.testing.assert_close(value, module.get_parameter(name).grad)


def test_the_module_given_is_left_alone() -> None:
    module = nn.Linear(6, 3)
    before = module.weight.detach().clone()
    task = igfl.ModuleTask(module)
    params = task.initial()
    for _ in range(3):
        params.sub_(task.gradient(params, batch())[1])
    assert torch.equal(module.weight, before)
    assert module.weight.grad is None
    assert torch.equal(task.named(task.initial())["weight"], before)


def test_parameters_are_views_of_the_vector() -> None:
    task = igfl.ModuleTask(nn.Linear(6, 3))
    params = task.initial()
    first = task.gradient(params, batch())[1].clone()
    params.mul_(2)  # nothing else is told
    assert not torch.equal(task.gradient(params, batch())[1], first)
    assert task.module.weight.data_ptr() == params.data_ptr()


def test_a_parameter_without_influence_has_gradient_zero() -> None:
    task = igfl.ModuleTask(_OnlyFirst())
    named = task.named(task.gradient(task.initial(), batch())[1])
    assert not named["unused.weight"].any()
    assert named["used.weight"].any()


class _OnlyFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def test_evaluation_is_in_evaluation_mode() -> None:
    module = nn.Sequential(nn.Dropout(0.9), nn.Linear(6, 3))
    task, rows = igfl.ModuleTask(module), batch(200)
    task.gradient(task.initial(), rows)
    first, second = (task.evaluate(task.initial(), rows) for _ in range(2))
    assert first == second
    outputs = module.eval()(rows.x).detach()
    assert first["loss"] == pytest.approx(float(cross_entropy(outputs, rows.y)), rel=1e-6)
    assert first["accuracy"] == pytest.approx(float((outputs.argmax(1) == rows.y).double().mean()))


def test_regression_has_no_accuracy() -> None:
    task = igfl.ModuleTask(nn.Linear(6, 1), mse_loss)
    rows = igfl.Batch(x=torch.ones(4, 6), y=torch.ones(4, 1))
    assert set(task.evaluate(task.initial(), rows)) == {"loss"}


def test_bytes_become_fractions() -> None:
    task = igfl.ModuleTask(nn.Linear(6, 3))
    stored = torch.randint(0, 256, (5, 6), dtype=torch.uint8)
    y = torch.zeros(5, dtype=torch.int64)
    as_bytes = task.evaluate(task.initial(), igfl.Batch(x=stored, y=y))
    as_floats = task.evaluate(task.initial(), igfl.Batch(x=stored.float() / 255, y=y))
    assert as_bytes == as_floats


def test_survives_pickling_while_bound_elsewhere() -> None:
    task = igfl.ModuleTask(nn.Linear(6, 3))
    initial = task.initial()
    wide = torch.zeros(1000, len(initial))
    task.gradient(wide[3], batch())
    packed = pickle.dumps(task)
    assert len(packed) < 20_000  # not the matrix it was bound to
    copy = pickle.loads(packed)
    assert torch.equal(copy.initial(), initial)
    assert torch.equal(copy.gradient(initial, batch())[1], task.gradient(initial, batch())[1])


@pytest.mark.parametrize(
    ("module", "culprit"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), r"layer '?1'? \(BatchNorm1d\).*GroupNorm"),
        (nn.BatchNorm1d(4), r"BatchNorm1d.*'running_mean'"),
        (nn.Linear(3, 3).requires_grad_(False), "Linear has no parameter to train"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), "1.weight is torch.float64"),
    ],
)
def test_refuses_what_it_cannot_flatten(module: nn.Module, culprit: str) -> None:
    with pytest.raises(ValueError, match=culprit):
        igfl.ModuleTask(module)


def test_allows_constants_and_statistics_that_are_not_kept() -> None:
    module = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, track_running_stats=False))
    module.register_buffer("scale", torch.ones(3), persistent=False)
    assert len(igfl.ModuleTask(module).initial()) == 6 * 3 + 3 + 6
