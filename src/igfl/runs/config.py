"""A run's whole configuration: YAML, checked before anything is loaded; every refusal is one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from igfl.runs.catalogue import ATTENTIONS, KINDS

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]


class ConfigError(ValueError):
    """What is wrong with a configuration, in one line."""


class Section(BaseModel):
    """Unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(Section):
    """Something by name, or any importable `package.module:factory`, with its own options beside the name."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: ClassVar[str]
    name: str

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _known(self) -> Named:
        known = KINDS[self.kind]
        if self.name not in known:
            if ":" in self.name:
                return self
            raise ValueError(f"{self.kind}.name={self.name!r}: {hint(self.name, known)}")
        for option in self.model_extra or {}:
            if option not in known[self.name]:
                ours = [key for key in type(self).model_fields if key != "name"]
                raise ValueError(f"{self.kind}.{option}: {self.name} has no such option, "
                                 f"{hint(option, [*known[self.name], *ours])}")  # fmt: skip
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Its own options."""
        return dict(self.model_extra or {})


class Method(Named):
    """What is compared; the attention may stand behind a slash: igfl/time."""

    kind: ClassVar[str] = "method"
    name: str = "igfl"

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        given = {"name": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping) or not isinstance(given.get("name", "igfl"), str):
            return given
        base, slash, attention = given.get("name", "igfl").partition("/")
        found = {**given, "name": base, **({"attention": attention} if slash else {})}
        if base in ("igfl", "igfl_s"):
            if not given:
                found["attention"] = "time"
            if found.get("attention") not in ATTENTIONS:
                was = found.get("attention")
                choice = hint(was, ATTENTIONS) if was else f"choose one of {', '.join(ATTENTIONS)}"
                raise ValueError(f"method.attention={was!r}: {choice}")
        return found

    @property
    def title(self) -> str:
        """As people write it: igfl/time."""
        return "/".join([self.name, *filter(None, [self.options.get("attention")])])


class Data(Named):
    """The data set."""

    kind: ClassVar[str] = "data"
    name: str = "digits"
    augment: Literal["none", "tutorial", "padded"] = "none"
    rows: Count | None = None  # train on so many of them, drawn evenly; None: all


class Split(Named):
    """Who holds what."""

    kind: ClassVar[str] = "split"
    name: str = "shards"
    clients: Count = 10
    seed: int | None = None  # None: the run's
    share: Share = 0.0
    holdout: Share = 0.0


class Model(Named):
    """The network."""

    kind: ClassVar[str] = "model"
    name: str = "mlp"


class Schedule(Section):
    """How the clients' rate changes from round to round."""

    name: Literal["constant", "step", "cosine"] = "constant"
    every: Count = 100
    factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    end: Positive = 1e-4


class Train(Section):
    """What a client does in a visit."""

    lr: Positive = 0.1
    epochs: Count = 1
    batch: Count | None = 20
    steps: Count | None = None
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    schedule: Schedule = Schedule()

    def mean_steps(self, sizes: Sequence[int]) -> float:
        """T of a visit, averaged over clients of these sizes."""
        if self.steps is not None:
            return self.steps
        steps = [1 if self.batch is None else -(-size // self.batch) for size in sizes if size]
        return self.epochs * sum(steps) / len(steps)


class Engine(Section):
    """Where clients train; none of it changes a bit but `name: vectorised` and `precision`."""

    name: Literal["auto", "loop", "processes", "vectorised", "ray"] = "auto"
    workers: Count | None = None
    address: str | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    memory: Literal["ram", "disk"] = "ram"
    cache: Count = 1000  # memories held, where they are on disk


class Clients(Section):
    """Simulated misfortune, and how each client is tested."""

    drop: Share = 0.0
    slow: Share = 0.0
    test: Literal["none", "held", "mixture"] = "none"
    every: Count = 50


class Screening(Section):
    """What becomes of updates that are not finite or explode."""

    policy: Literal["reject", "stop", "keep"] = "reject"
    limit: Annotated[float, Field(gt=0)] = 1000.0


DEFAULT_METHOD = {"name": "igfl", "attention": "time"}


class Config(Section):
    """A run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "run"
    seed: Annotated[int, Field(ge=0)] = 0
    rounds: Count = 30
    cohort: Count | None = None  # clients a round; None: all
    method: Method = Method.model_validate(DEFAULT_METHOD)
    data: Data = Data()
    split: Split = Split()
    model: Model = Model()
    train: Train = Train()
    engine: Engine = Engine()
    clients: Clients = Clients()
    screen: Screening = Screening()
    evaluate: Annotated[int, Field(ge=1)] = 10  # every so many rounds, and more often at the end
    checkpoint: Count = 10  # every so many rounds
    behaviour: Annotated[int, Field(ge=0)] | None = None  # every so many rounds; None: 200 in all; 0: never
    targets: tuple[Share, ...] = ()  # accuracies whose first round is told

    @model_validator(mode="after")
    def _fits(self) -> Config:
        if (
            self.cohort is not None
            and self.cohort > self.split.clients
            and self.split.name not in ("writers", "explicit")
        ):
            raise ValueError(f"cohort={self.cohort}: there are {self.split.clients} clients; choose 1 to that many")
        if self.clients.test == "held" and not self.split.holdout:
            raise ValueError("clients.test='held': no client keeps rows back; set split.holdout=0.1, say")
        if self.method.name == "vrl_sgd" and (self.cohort not in (None, self.split.clients) or self.clients.drop):
            raise ValueError(
                "method.name='vrl_sgd': every client takes part in every round; leave out cohort and clients.drop"
            )
        return self


def as_yaml(config: Config) -> dict[str, Any]:
    """All keys and values, in YAML's own kinds."""
    content = config.model_dump()
    return {**content, "targets": list(config.targets)}


def hint(name: Any, known: Any) -> str:
    """The nearest known name, or all of them."""
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"choose one of {', '.join(names)}" if names else "it has none"
