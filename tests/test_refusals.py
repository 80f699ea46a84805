"""Bad input is refused before any work, in one line that names the culprit and the cure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import igfl
from quadratics import job, random_problem

X, Y = torch.randn(12, 4), torch.arange(12) % 3
THIRDS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def data(x: torch.Tensor = X, y: torch.Tensor = Y, rows=THIRDS, test=None) -> igfl.Federation:
    return igfl.Federation.split(x, y, rows, test=test)


def run(method: igfl.Method | None = None, cohorts=None, module: nn.Module | None = None, **plan) -> None:
    federation = plan.pop("data", None) or data()
    task = plan.pop("task", None) or igfl.ModuleTask(module or nn.Linear(4, 3))
    plan = igfl.Plan(**{"lr": 0.1, **plan})
    whole = igfl.Job(method=method or igfl.fedavg(), task=task, data=federation, plan=plan)
    igfl.rounds(_Idle(whole), cohorts=cohorts or igfl.Sampled(rounds=1))


class _Idle(igfl.Loop):
    def train(self, broadcast, clients, memories):
        pytest.fail("work was begun")


def with_nan(shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.zeros(shape)
    x[7] = float("nan")
    return x


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: run(lr=0.0), r"lr=0.0: a learning rate must be"),
    (lambda: run(lr=-0.1), r"lr=-0.1"),
    (lambda: run(lr=float("nan")), r"lr=nan"),
    (lambda: run(lr=lambda round: 0.0), r"gives 0.0 in round 0: let the schedule end above zero"),
    (lambda: igfl.Step(0.1, every=2, factor=0.5, floor=0.0), r"floor=0.0.*0 < floor <= lr"),
    (lambda: igfl.Cosine(0.1, end=0.2, rounds=5), r"end=0.2"),
    (lambda: run(epochs=0), r"epochs=0"),
    (lambda: run(batch=0), r"batch=0"),
    (lambda: run(steps=0), r"steps=0"),
    (lambda: run(steps=[1, 2]), r"plan.steps has 2 entries for 3 clients"),
    (lambda: run(weight_decay=-1.0), r"weight_decay=-1.0"),
    (lambda: run(cohorts=igfl.Sampled(rounds=1, size=4)), r"cohort size=4: 3 clients have data; choose 1 to 3"),
    (lambda: run(cohorts=igfl.Sampled(rounds=1, size=0)), r"cohort size=0"),
    (lambda: run(cohorts=igfl.Sampled(rounds=-1)), r"rounds=-1"),
    (lambda: run(cohorts=igfl.Given([[0, 7]])), r"cohort 0 names client 7, which is not in the population"),
    (lambda: run(cohorts=igfl.Given([[0], [1, 1]])), r"cohort 1 names a client twice"),
    (lambda: run(cohorts=igfl.Given([[0], []])), r"cohort 1 is empty"),
    (lambda: run(data=data(rows=[[0], [], [1]]), cohorts=igfl.Given([[1]])), r"client 1, which has no data"),
    (lambda: run(data=data(rows=[[], []])), r"no client has any data"),
    (lambda: run(module=nn.Linear(4, 2)), r"label 2 is out of range: the module has 2 outputs, for labels 0 to 1"),
    (lambda: run(data=data(y=Y - 1)), r"label -1 is out of range"),
    (lambda: run(data=data(test=igfl.Batch(x=X, y=Y + 5))), r"label 7 is out of range"),
    (lambda: data(x=with_nan((12, 4))), r"training data has NaN or infinity in its inputs, first in row 7"),
    (lambda: data(y=with_nan((12,))), r"training data has NaN or infinity in its labels, first in row 7"),
    (lambda: data(test=igfl.Batch(x=with_nan((12, 4)), y=Y)), r"test data has NaN"),
    (lambda: data(y=Y[:5]), r"12 inputs and 5 labels"),
    (lambda: data(rows=[[0, 12]]), r"a client holds row 12, the data has rows 0 to 11"),
    (lambda: data(rows=[]), r"at least one client"),
    (lambda: igfl.Federation.of_clients([]), r"at least one client"),
    (lambda: igfl.fedavg(lr=float("inf")), r"lr=inf: the server's rate must be a finite number above zero"),
    (lambda: igfl.fedavgm(lr=0), r"lr=0: the server's rate must be a finite number above zero"),
    (lambda: igfl.fedavgm(beta=-0.1), r"beta=-0.1: must be at least 0 and below 1"),
    (lambda: igfl.fedadam(lr=0), r"lr=0: the server's rate must be a finite number above zero"),
    (lambda: igfl.fedadam(beta1=1.0), r"beta1=1.0: must be at least 0 and below 1"),
    (lambda: run(igfl.vrl_sgd(), igfl.Sampled(rounds=1, size=2)), r"needs every client in every round"),
    (lambda: igfl.method("fedavgg"), r"method='fedavgg': unknown, did you mean fedavg"),
    (lambda: igfl.method("zzz"), r"choose one of fedavg"),
    (lambda: igfl.method("igfl"), r"say which attention: igfl/self, igfl/global or igfl/time"),
    (lambda: igfl.method("igfl/slef"), r"attention='slef': choose 'self', 'global', 'time'"),
    (lambda: igfl.method("fedavg", mu=1.0), r"method='fedavg'.*mu"),
    (lambda: igfl.method("fedavg/self"), r"method='fedavg/self'.*attention"),
    (lambda: igfl.fedprox(mu=-1), r"mu=-1"),
    (lambda: igfl.fedavg(lr=0), r"lr=0: the server's rate"),
    (lambda: igfl.fedavgm(beta=1.0), r"beta=1.0"),
    (lambda: igfl.fedadam(tau=0.0), r"tau=0.0"),
    (lambda: igfl.fedadam(beta2=1.5), r"beta2=1.5"),
    (lambda: igfl.igfl("self", temperature=0), r"temperature=0"),
    (lambda: igfl.igfl("self", similarity="cos"), r"similarity='cos': choose 'dot' or 'cosine'"),
    (lambda: igfl.Method(client=igfl.clients.Plain, weighting=None, server=None), r"did you mean Plain\(\)"),
]


@pytest.mark.parametrize(("attempt", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_is_refused_in_one_line(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_a_gradient_of_the_wrong_length_is_refused() -> None:
    A, b, w0 = random_problem(3, 4)
    good = job(A, b, w0, method=igfl.fedavg(), lr=0.1, steps=1)

    class Short:
        initial, evaluate = good.task.initial, good.task.evaluate

        def gradient(self, params, batch):
            return 0.0, torch.zeros(3, dtype=torch.float64)

    wrong = igfl.Job(method=good.method, task=Short(), data=good.data, plan=good.plan)
    with pytest.raises(ValueError, match=r"Short.gradient gave \(3,\) for a model of \(4,\)"):
        igfl.rounds(_Idle(wrong), cohorts=igfl.Sampled(rounds=1))


def test_a_state_of_another_model_is_refused() -> None:
    state = igfl.ServerState(round=0, params=torch.zeros(7), shared={}, optimizer={})
    whole = igfl.Job(method=igfl.fedavg(), task=igfl.ModuleTask(nn.Linear(4, 3)), data=data(), plan=igfl.Plan(lr=0.1))
    with pytest.raises(ValueError, match="15 parameters, a vector of"):
        igfl.rounds(_Idle(whole), state, cohorts=igfl.Sampled(rounds=1))


def test_evaluation_without_a_test_set_says_how_to_give_one() -> None:
    whole = igfl.Job(method=igfl.fedavg(), task=igfl.ModuleTask(nn.Linear(4, 3)), data=data(), plan=igfl.Plan(lr=0.1))
    with pytest.raises(ValueError, match="no test set: give"):
        igfl.Loop(whole).evaluate(torch.zeros(15))


def test_numpy_index_lists_are_welcome() -> None:
    federation = data(rows=[np.array([3, 1]), np.array([], dtype=np.int64), torch.tensor([2])])
    assert federation.population == 3
    assert federation.rows(0).tolist() == [3, 1]
    assert federation.with_data.tolist() == [0, 2]
