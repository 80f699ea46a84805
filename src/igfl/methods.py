"""The papers' names. Each is three parts put together; any others combine as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from igfl.clients import ControlVariates, GroupBehaviour, Plain, Proximal, VarianceReduction
from igfl.names import unknown
from igfl.parts import Method, Weighting
from igfl.servers import Adagrad, Adam, Descend, Momentum, Yogi
from igfl.weightings import GlobalAttention, SelfAttention, Similarity, TimeAttention, Uniform

Attention: TypeAlias = Literal["self", "global", "time"]

_ATTENTIONS: dict[str, type[SelfAttention] | type[GlobalAttention] | type[TimeAttention]] = {
    "self": SelfAttention,
    "global": GlobalAttention,
    "time": TimeAttention,
}


def fedavg(*, lr: float = 1.0) -> Method:
    """McMahan et al. 2017, all clients weighing the same."""
    return Method(client=Plain(), weighting=Uniform(), server=Descend(lr))


def fedavgm(*, lr: float = 1.0, beta: float = 0.9) -> Method:
    """Hsu et al. 2019: momentum on the server."""
    return Method(client=Plain(), weighting=Uniform(), server=Momentum(lr, beta))


def fedprox(*, mu: float = 0.01, lr: float = 1.0) -> Method:
    """Li et al. 2020: a pull towards the global model."""
    return Method(client=Proximal(mu), weighting=Uniform(), server=Descend(lr))


def scaffold(*, lr: float = 1.0) -> Method:
    """Karimireddy et al. 2020: control variates, option II."""
    return Method(client=ControlVariates(), weighting=Uniform(), server=Descend(lr))


def fedadam(*, lr: float = 0.1, tau: float = 0.01, beta1: float = 0.9, beta2: float = 0.99) -> Method:
    """Reddi et al. 2021: Adam on the server."""
    return Method(client=Plain(), weighting=Uniform(), server=Adam(lr, tau, beta1, beta2))


def fedadagrad(*, lr: float = 0.1, tau: float = 0.01, beta1: float = 0.9) -> Method:
    """Reddi et al. 2021: Adagrad on the server."""
    return Method(client=Plain(), weighting=Uniform(), server=Adagrad(lr, tau, beta1))


def fedyogi(*, lr: float = 0.1, tau: float = 0.01, beta1: float = 0.9, beta2: float = 0.99) -> Method:
    """Reddi et al. 2021: Yogi on the server."""
    return Method(client=Plain(), weighting=Uniform(), server=Yogi(lr, tau, beta1, beta2))


def vrl_sgd() -> Method:
    """Liang et al. 2019: variance-reduced local SGD; every client takes part in every round."""
    return Method(client=VarianceReduction(), weighting=Uniform(), server=Descend())


def igfl_c(*, lr: float = 1.0) -> Method:
    """IGFL-client, Algorithm 2: each local step also follows the group."""
    return Method(client=GroupBehaviour(), weighting=Uniform(), server=Descend(lr))


def igfl_s(
    attention: Attention, *, temperature: float = 1.0, similarity: Similarity = "dot", lr: float = 1.0
) -> Method:
    """IGFL-server, Algorithm 3: the server weighs clients by attention."""
    return Method(client=Plain(), weighting=attend(attention, temperature, similarity), server=Descend(lr))


def igfl(attention: Attention, *, temperature: float = 1.0, similarity: Similarity = "dot", lr: float = 1.0) -> Method:
    """Both of them, Algorithm 1."""
    return Method(client=GroupBehaviour(), weighting=attend(attention, temperature, similarity), server=Descend(lr))


def attend(attention: Attention, temperature: float = 1.0, similarity: Similarity = "dot") -> Weighting:
    """The attention of this name."""
    if attention not in _ATTENTIONS:
        raise ValueError(f"attention={attention!r}: choose {', '.join(map(repr, _ATTENTIONS))}")
    return _ATTENTIONS[attention](temperature, similarity)


METHODS: dict[str, Callable[..., Method]] = {
    make.__name__: make
    for make in (
        fedavg, fedavgm, fedprox, scaffold, fedadam, fedadagrad, fedyogi, vrl_sgd, igfl_c, igfl_s, igfl,
    )
}  # fmt: skip


def method(name: str, **options: float | str) -> Method:
    """The method of this name; the attention may stand behind a slash: method("igfl/time")."""
    base, _, attention = name.partition("/")
    if base not in METHODS:
        raise unknown("method", name, METHODS)
    if base in ("igfl", "igfl_s") and not (attention or "attention" in options):
        raise ValueError(f"method={name!r}: say which attention: {base}/self, {base}/global or {base}/time")
    if attention:
        options["attention"] = attention
    try:
        return METHODS[base](**options)
    except TypeError as error:
        raise ValueError(f"method={name!r}: {error}") from None
