"""Networks: their sizes, their initialisation, the fast normalisation; images: what the paper does to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import igfl
from igfl.inputs import CIFAR_PADDED, Images
from igfl.models import MODELS, LocalResponseNorm, model

SIZES = {
    "mcmahan_cnn": ({}, 1_068_298, (3, 24, 24), 10),
    "reddi_cnn": ({}, 1_206_590, (1, 28, 28), 62),
    "lenet_tut": ({}, 797_962, (3, 32, 32), 10),
    "cnn": ({}, 4_864 + 102_464 + 4_096 * 384 + 384 + 73_920 + 1_930, (3, 32, 32), 10),
    "mlp": ({"inputs": 64, "hidden": (32,)}, 64 * 32 + 32 + 330, (1, 8, 8), 10),
    "logistic": ({"inputs": 60}, 610, (60,), 10),
}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_shapes(name: str) -> None:
    options, size, shape, classes = SIZES[name]
    network = model(name, **options)
    assert sum(p.numel() for p in network.parameters()) == size
    assert len(igfl.ModuleTask(network).initial()) == size
    assert network.eval()(torch.zeros(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize("lrn", [True, False])
def test_mcmahan_cnn_at_32(lrn: bool) -> None:
    network = model("mcmahan_cnn", input=32, lrn=lrn)
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("name", MODELS)
def test_initialisation_is_the_seeds_alone(name: str) -> None:
    options = SIZES[name][0]
    vector = nn.utils.parameters_to_vector
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, again, other = (vector(model(name, seed=seed, **options).parameters()) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) is (name == "logistic")
    if name != "logistic":
        assert first.detach().isfinite().all()
    del state


def test_initialisations_are_as_published() -> None:
    layers = [m for m in model("mcmahan_cnn").modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    for layer, spread, bias in zip(layers, (0.05, 0.05, 0.04, 0.04, 1 / 192), (0, 0.1, 0.1, 0.1, 0), strict=True):
        weight = layer.weight.detach()
        assert float(weight.abs().max()) <= 2 * spread
        truncated = spread * 0.8796  # deviation of a standard normal cut at two deviations
        assert float(weight.std()) == pytest.approx(truncated, rel=0.05)
        assert float(weight.mean()) == pytest.approx(0, abs=5 * spread / weight.numel() ** 0.5)
        assert torch.equal(layer.bias, torch.full_like(layer.bias, bias))
    conv = model("reddi_cnn")[2]
    bound = (6 / (32 * 9 + 64 * 9)) ** 0.5  # Glorot
    assert bound * 0.99 < float(conv.weight.detach().abs().max()) <= bound
    assert not conv.bias.any()
    dense = model("mlp", inputs=100)[1]
    assert 0.099 < float(dense.weight.detach().abs().max()) <= 0.1


@pytest.mark.parametrize(
    ("size", "alpha", "beta", "k"), [(9, 1e-3, 0.75, 1.0), (5, 0.1, 0.5, 2.0), (3, 1.0, 0.75, 1.0)]
)
def test_fast_normalisation_is_torchs(size: int, alpha: float, beta: float, k: float) -> None:
    x = (10 * torch.randn(4, 64, 6, 6, generator=torch.Generator().manual_seed(0))).requires_grad_()
    ours, theirs = LocalResponseNorm(64, size, alpha, beta, k), nn.LocalResponseNorm(size, alpha, beta, k)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(norm(x).square().sum(), x)[0] for norm in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4)


def photos(n: int = 6, side: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def test_evaluation_takes_the_centre_and_standardises_each_image() -> None:
    x = photos()
    centre = x[:, :, 4:28, 4:28].double()
    expected = (centre - centre.mean((1, 2, 3), keepdim=True)) / centre.std((1, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(Images().evaluate(x), expected.float(), rtol=1e-4, atol=1e-4)
    flat = torch.full((1, 3, 32, 32), 7, dtype=torch.uint8)
    assert float(Images().evaluate(flat).abs().max()) < 1e-4  # no deviation: divided by 1/sqrt(pixels), not by zero


def test_training_is_the_tutorials_typed_out() -> None:
    """Crop, flip, brightness, contrast about each channel's mean, standardisation: one image after another."""
    x = photos(20)
    found = Images().train(x, torch.Generator().manual_seed(8))
    draws = torch.Generator().manual_seed(8)
    down, right = (torch.randint(9, (20,), generator=draws) for _ in range(2))
    flips, factors = torch.rand(20, generator=draws) < 0.5, 0.2 + 1.6 * torch.rand(20, generator=draws)
    assert flips.any()
    assert not flips.all()
    for i in range(20):
        image = x[i, :, down[i] : down[i] + 24, right[i] : right[i] + 24].double()
        image = image.flip(2) if flips[i] else image
        image = image + np.random.default_rng(i).uniform(-63, 63)  # brightness: whatever it is
        middle = image.mean((1, 2), keepdim=True)
        image = middle + factors[i].double() * (image - middle)
        image = (image - image.mean()) / image.std(correction=0)
        torch.testing.assert_close(found[i], image.float(), rtol=1e-3, atol=1e-4)


def test_padded_crops_shift_the_image() -> None:
    x = photos(50)
    found = CIFAR_PADDED.train(x, torch.Generator().manual_seed(1))
    assert found.shape == x.shape
    plain = CIFAR_PADDED.evaluate(x)
    mean, deviation = torch.tensor(CIFAR_PADDED.mean), torch.tensor(CIFAR_PADDED.deviation)
    torch.testing.assert_close(plain, (x / 255 - mean.view(1, 3, 1, 1)) / deviation.view(1, 3, 1, 1))
    zero = (-mean / deviation).view(3, 1, 1)
    framed = torch.nn.functional.pad(plain - zero, (4, 4, 4, 4)) + zero
    for i in range(50):
        windows = [framed[i, :, a : a + 32, b : b + 32] for a in range(9) for b in range(9)]
        assert any(torch.allclose(found[i], w) or torch.allclose(found[i], w.flip(2)) for w in windows)


def test_augmentation_is_the_visits_own() -> None:
    x = photos()
    first, again, other = (Images().train(x, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: model("mcmahn_cnn"), "did you mean mcmahan_cnn"),
        (lambda: model("mlp"), "model='mlp'.*inputs"),
        (lambda: Images(crop=0), "crop=0"),
        (lambda: Images(mean=(0.5,)), "give both or neither"),
        (lambda: Images(contrast=(2, 1)), r"contrast=\(2, 1\)"),
        (lambda: Images(crop=40).train(photos(), None), "crop=40: the images are 32x32"),
    ],
)
def test_is_refused(attempt, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attempt()


def test_any_importable_factory_works() -> None:
    assert isinstance(model("torch.nn:Linear", in_features=3, out_features=2), nn.Linear)


@pytest.mark.slow
def test_the_papers_network_learns_cifar10(real_data) -> None:
    """Three epochs over all of CIFAR-10, with the paper's augmentation."""
    from igfl.data import IID, load, partition

    cifar = load("cifar10", path=real_data)
    data = cifar.divided(partition(cifar.y.numpy(), IID(), 1))
    task = igfl.ModuleTask(model("mcmahan_cnn"), inputs=Images())
    job = igfl.Job(method=igfl.fedavg(), task=task, data=data, plan=igfl.Plan(lr=igfl.Cosine(0.1, 0.01, 3), batch=50))
    engine = igfl.Loop(job)
    for state, _ in igfl.rounds(engine, cohorts=igfl.Sampled(rounds=3)):
        print(state.round, accuracy := engine.evaluate(state.params)["accuracy"], flush=True)
    assert accuracy >= 0.55
