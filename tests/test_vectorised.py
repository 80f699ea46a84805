"""All clients at once: the loop's results up to rounding, its own to the bit, and a refusal where it cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

import igfl
from igfl.batched import Dense, Mapped, dense_layers
from igfl.data.federation import Federation
from igfl.engines import ClientError, Loop, Vectorised
from igfl.engines.vectorised import model_of
from igfl.inputs import Images
from igfl.types import Faults
from jobs import METHODS, SIZES, cohorts, fingerprint, images, outcome, vectors

EQUAL = (20,) * 7


def distance(job: igfl.Job, **options) -> float:
    """How far 20 rounds end from the loop's, relative to them; memories included."""
    (expected, kept), (found, mine) = outcome(Loop(job)), outcome(Vectorised(job, **options))
    assert kept.keys() == mine.keys()
    pairs = [(expected.params, found.params)]
    for client in kept:
        pairs += [(kept[client].local[name], mine[client].local[name]) for name in kept[client].local]
        if kept[client].last is not None:
            assert torch.allclose(kept[client].last, mine[client].last, rtol=1e-2, atol=1e-5)
    return max(float((a - b).norm() / a.norm().clamp_min(1e-30)) for a, b in pairs[:1])


@pytest.mark.parametrize("sizes", [EQUAL, SIZES], ids=["equal", "ragged"])
@pytest.mark.parametrize("method", METHODS)
def test_it_agrees_with_the_loop(method: str, sizes: tuple[int, ...]) -> None:
    assert distance(vectors(method, sizes)) < 1e-5
    assert distance(vectors(method, sizes, torch.float64)) < 1e-10


@pytest.mark.parametrize("batch", [None, 1, 5, 100])
@pytest.mark.parametrize("plan", [{"epochs": 3}, {"steps": (4, 1, 9, 2, 3, 3, 7)}, {"epochs": 2, "weight_decay": 0.1}])
def test_it_takes_the_batches_of_the_loop(batch: int | None, plan) -> None:
    for sizes in (EQUAL, SIZES):
        job = vectors("igfl/time", sizes, torch.float64, plan=igfl.Plan(lr=0.03, batch=batch, **plan))
        assert distance(job) < 1e-10


def test_it_takes_part_in_simulated_misfortune() -> None:
    assert distance(vectors("igfl/self", dtype=torch.float64, faults=Faults(drop=0.2, slow=0.4))) < 1e-10


@pytest.mark.parametrize("sizes", [EQUAL, SIZES], ids=["equal", "ragged"])
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "scaffold", "igfl/time"])
def test_any_chunking_and_any_number_of_threads_give_the_same_bits(method: str, sizes: tuple[int, ...]) -> None:
    job = vectors(method, sizes)
    whole = fingerprint(*outcome(Vectorised(job)))
    assert whole == fingerprint(*outcome(Vectorised(job)))
    for width, threads in ((1, 1), (2, 2), (3, 3)):
        assert fingerprint(*outcome(Vectorised(job, width=width, threads=threads))) == whole


class Convolving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.dense = nn.Linear(4 * 36, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(self.norm(self.convolution(x)).relu().flatten(1))


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "igfl/time"])
def test_any_module_is_mapped_with_its_augmentation(method: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        task = igfl.ModuleTask(Convolving().double(), inputs=Images(crop=8))
    job = images(method, task=task)
    assert isinstance(model_of(job), Mapped)
    assert distance(job) < 1e-6  # Images computes in single precision
    assert distance(job, width=2) < 1e-6
    again = [fingerprint(*outcome(Vectorised(job, width=2), rounds=4)) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("method", ["fedavg", "igfl/time"])
def test_a_mapped_module_gives_the_same_bits_at_any_width(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        task = igfl.ModuleTask(Convolving(), inputs=Images(crop=8))
    job = images(method, task=task)
    monkeypatch.setattr(igfl.batched, "CHUNK_BYTES", 2 * 4 * len(task.initial()))
    assert model_of(job).block == 2
    whole = fingerprint(*outcome(Vectorised(job), rounds=6, size=6))
    for width in (1, 3, 4, 7):
        assert fingerprint(*outcome(Vectorised(job, width=width), rounds=6, size=6)) == whole


def test_products_by_hand_equal_those_of_autograd() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 9, bias=False), nn.ReLU(), nn.Sequential(nn.Linear(9, 5)))
    job = vectors("fedavg", task=igfl.ModuleTask(module.double()))
    by_hand = model_of(job)
    assert isinstance(by_hand, Dense)
    draws = torch.Generator().manual_seed(0)
    params = 0.5 * torch.randn(4, 12 * 9 + 9 * 5 + 5, generator=draws, dtype=torch.float64)
    batch = igfl.Batch(
        x=torch.randn(4, 6, 12, generator=draws, dtype=torch.float64), y=torch.randint(5, (4, 6), generator=draws)
    )
    rates = torch.tensor([[0.1], [0.2], [0.3], [0.4]], dtype=torch.float64)
    for counts in (None, torch.tensor([6, 1, 3, 2])):
        for rate in (0.3, rates):
            moved = params.clone()
            losses = by_hand.descend(moved, batch, counts, rate)
            for i in range(4):
                n = 6 if counts is None else int(counts[i])
                alone = igfl.Batch(x=batch.x[i, :n], y=batch.y[i, :n])
                loss, gradient = job.task.gradient(params[i].clone(), alone)
                torch.testing.assert_close(losses[i], loss, rtol=1e-12, atol=0)
                pace = float(rates[i]) if rate is rates else rate
                torch.testing.assert_close(moved[i], params[i] - pace * gradient, rtol=1e-12, atol=1e-14)


def test_what_counts_as_a_stack_of_dense_layers() -> None:
    def layers(*modules: nn.Module, **options):
        return dense_layers(igfl.ModuleTask(nn.Sequential(*modules), **options))

    shared = nn.Linear(4, 4)
    frozen = nn.Linear(4, 4)
    frozen.bias.requires_grad_(False)
    assert len(layers(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))) == 2
    assert layers(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)) is None
    assert layers(nn.Linear(4, 4), nn.ReLU()) is None
    assert layers(shared, nn.ReLU(), shared) is None
    assert layers(frozen, nn.ReLU(), nn.Linear(4, 2)) is None
    assert layers(nn.Linear(4, 4), precision="bf16") is None
    assert layers(nn.Linear(4, 4), loss=nn.functional.multi_margin_loss) is None


@dataclass(frozen=True)
class Branching(igfl.ClientRule):
    """A rule that looks at its numbers, as torch.func cannot for many clients at once, and at its client's name."""

    uses_last = True

    def correct(self, visit: igfl.Visit) -> igfl.Correction:
        if float(visit.last.norm()) > 0.3:
            return igfl.Correction(scale=0.5, shift=0.1 * visit.last)
        return igfl.Correction(shift=0.01 * (visit.client % 3))

    def tell(self, visit: igfl.Visit, delta: Tensor) -> igfl.Arrays:
        return {"fast": delta.norm() * visit.client}


def test_a_rule_that_cannot_be_mapped_is_called_client_by_client() -> None:
    method = igfl.Method(
        client=Branching(), weighting=igfl.method("igfl_s/time").weighting, server=igfl.fedavg().server
    )
    job = replace(vectors("fedavg", dtype=torch.float64), method=method)
    engine = Vectorised(job)
    outcome(engine)
    assert engine._hooks._one_by_one == {"correct", "tell"}
    assert distance(job) < 1e-10


@dataclass(frozen=True)
class Suspicious(igfl.ClientRule):
    """Looks its client up in a set."""

    bad: frozenset[int] = frozenset({1, 4})

    def correct(self, visit: igfl.Visit) -> igfl.Correction:
        return igfl.Correction(scale=-1.0 if visit.client in self.bad else 1.0)


class Noisy(igfl.ClientRule):
    """Draws what it tells."""

    def correct(self, visit: igfl.Visit) -> igfl.Correction:
        return igfl.Correction(shift=0.01 * torch.randn_like(visit.params))

    def tell(self, visit: igfl.Visit, delta: Tensor) -> igfl.Arrays:
        return {"noise": torch.randn(1)}


def of(rule: igfl.ClientRule) -> igfl.Method:
    return igfl.Method(client=rule, weighting=igfl.fedavg().weighting, server=igfl.fedavg().server)


def test_a_rule_that_asks_who_its_client_is_gets_the_right_answer() -> None:
    assert distance(replace(vectors("fedavg", dtype=torch.float64), method=of(Suspicious()))) < 1e-10


def test_a_rule_that_draws_has_its_visits_stream_on_the_loop_and_is_refused_here() -> None:
    job = replace(vectors("fedavg"), method=of(Noisy()))
    notes = [[cohort.notes["noise"] for _, cohort in igfl.rounds(Loop(job), cohorts=cohorts(job, 3))] for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*notes, strict=True))
    with pytest.raises(ClientError, match="the method draws random numbers, which belong to each visit's own stream"):
        outcome(Vectorised(job), rounds=1)


class Refusing(igfl.ClientRule):
    def correct(self, visit: igfl.Visit) -> igfl.Correction:
        if visit.client == 4 and visit.round == 2:
            raise ArithmeticError("not this one")
        return igfl.Correction()


def test_what_a_rule_raises_names_client_and_round() -> None:
    method = igfl.Method(client=Refusing(), weighting=igfl.fedavg().weighting, server=igfl.fedavg().server)
    with pytest.raises(ClientError, match=r"^client 4 in round 2: ArithmeticError: not this one$"):
        outcome(Vectorised(replace(vectors("fedavg"), method=method)), size=7)


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x - x.mean(0))


class Branchy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if float(self.weight.sum()) > 0 else super().forward(-x)


def total(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, y, reduction="sum")


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (igfl.ModuleTask(nn.Sequential(nn.Linear(12, 5), nn.Dropout(0.1))), "dropout in layer '1' draws from each"),
        (igfl.ModuleTask(Mixing()), "Mixing mixes the rows of a batch, which are padded where clients are unequal"),
        (igfl.ModuleTask(Branchy(12, 5)), "torch.func cannot map Branchy: "),
        (igfl.ModuleTask(nn.Linear(12, 5), loss=total), "the loss .* is not the mean over the rows of a batch"),
    ],
)
def test_what_cannot_be_batched_is_refused_with_the_engine_that_can(task: igfl.ModuleTask, why: str) -> None:
    with pytest.raises(ValueError, match=rf"^many clients cannot train at once here: {why}.*; choose engine 'loop' or"):
        Vectorised(vectors("fedavg", task=task))


def test_a_task_that_is_no_module_is_refused() -> None:
    from quadratics import job, random_problem

    with pytest.raises(ValueError, match="Quadratic is no ModuleTask"):
        Vectorised(job(*random_problem(3, 4), method=igfl.fedavg(), lr=0.1, steps=2))


def test_one_clients_memory_does_not_hold_on_to_a_cohort() -> None:
    _, memories = outcome(Vectorised(vectors("igfl/time")), rounds=3)
    for memory in memories.values():
        assert memory.last.untyped_storage().nbytes() < 2 * memory.last.numel() * 4


def test_rows_that_lie_beyond_a_client_are_never_touched() -> None:
    """A client's padding is its own first row: what others hold, however large, leaves it as it is."""
    job = vectors("fedavg")
    huge = job.data.x.clone()
    mine = job.data.rows(0)
    others = torch.ones(len(huge), dtype=torch.bool)
    others[mine] = False
    huge[others] = 1e38
    alone = Federation(x=huge, y=job.data.y, index=job.data.index, offsets=job.data.offsets)
    cohort = igfl.Given([[0, 1]])
    for (_, a), (_, b) in zip(
        igfl.rounds(Vectorised(job, width=1), cohorts=cohort),
        igfl.rounds(
            Vectorised(vectors("fedavg", data=alone), width=1), cohorts=cohort, screen=igfl.Screen(policy="keep")
        ),
    ):
        assert torch.equal(a.deltas[0], b.deltas[0])
