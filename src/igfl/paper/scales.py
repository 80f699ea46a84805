"""At what size the experiments run: the paper's, one for a small machine, one for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from igfl.names import unknown
from igfl.paper.experiments import EXPERIMENTS, Cell, Setting
from igfl.paper.stand_in import at_hand
from igfl.runs.config import Config
from igfl.runs.reading import checked

GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # the paper's rates, {1, 3} x 10^{-3, -2, -1}
Name = Literal["full", "reduced", "smoke"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How far a setting is cut down; what is told of it stands over every table."""

    name: Name
    rates: tuple[float, ...] = GRID  # searched for every method
    tuning: float = 0.1  # the share of the rounds after which the best rate is chosen
    seeds: int = 3
    populations: int = 20  # of figure 2, at the least
    data: Mapping[str, Mapping[str, Any]]  # the paper's data set -> what is loaded
    model: Mapping[str, str]
    rounds: Mapping[tuple[str, str, int], int] | None = None  # (data, kind, E) -> rounds; None: the paper's
    figure2: Mapping[str, Any]  # keys of a run that figure 2 changes
    batch: int | None = None  # B where the paper has 100 (and a fifth of it where it has 20); None: the paper's
    precision: Literal["fp32", "bf16"] = "fp32"
    told: Mapping[str, str]

    def rounds_of(self, setting: Setting) -> int:
        """How long a run of this setting is."""
        return setting.rounds if self.rounds is None else self.rounds[setting.data, setting.kind, setting.epochs]


SCALES: Mapping[str, Scale] = {
    "full": Scale(
        name="full",
        data={"cifar10": {"name": "cifar10", "augment": "tutorial"}, "emnist": {"name": "emnist"}},
        model={"cifar10": "mcmahan_cnn", "emnist": "reddi_cnn"},
        figure2={"rounds": 100},
        told={"": "the paper's settings; rates tuned over the paper's grid on a tenth of the rounds, three seeds"},
    ),
    "reduced": Scale(
        name="reduced", rates=(0.01, 0.03, 0.1), tuning=0.25, seeds=1, precision="bf16",
        data={"cifar10": {"name": "cifar10", "augment": "padded"}, "emnist": {"name": "emnist"}},
        model={"cifar10": "lenet_tut", "emnist": "reddi_cnn"},
        rounds={
            ("cifar10", "silo", 1): 16, ("cifar10", "silo", 5): 6, ("cifar10", "device", 1): 360,
            ("cifar10", "device", 5): 80, ("emnist", "device", 1): 200,
        },
        figure2={"rounds": 20, "data": {"rows": 5000}},
        told={
            "rounds": "CIFAR-10 cross-silo 16 (E=1) and 6 (E=5) in place of 5,000 and 3,000, cross-device 360 and 80 "
                      "in place of 10,000 and 4,000; EMNIST 200 in place of 1,500; figure 2: 20",
            "network": "CIFAR-10: lenet_tut (797,962 parameters) on 32x32 with padded crops and flips; EMNIST: the "
                       "paper's; both in bf16",
            "rates": "0.01, 0.03, 0.1, chosen after a quarter of the rounds",
            "seeds": "one, where no number of them stands beside a figure",
            "data": "figure 2: 5,000 of the 50,000 training rows; EMNIST, where its files are not at hand: "
                    "handwritten62, which is another data set of 62 classes",
        },
    ),
    "smoke": Scale(
        name="smoke", rates=(0.1, 0.3), tuning=0.5, seeds=1, populations=2, batch=10,
        data={"cifar10": {"name": "digits"}, "emnist": {"name": "digits"}},
        model={"cifar10": "mlp", "emnist": "mlp"},
        rounds={(data, kind, e): 4 for data in ("cifar10", "emnist") for kind in ("silo", "device") for e in (1, 5)},
        figure2={"rounds": 4},
        told={"": "a test of the machinery: scikit-learn's digits and a dense network in the place of all data sets "
                  "and networks, four rounds, two rates; the numbers mean nothing"},
    ),
}  # fmt: skip


def scale(name: str) -> Scale:
    """The scale of this name."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]


def stands_in(size: Scale, data: str) -> str | None:
    """What is trained on in the place of the paper's data set, where it is not that."""
    loaded = str(_data(size, data)["name"])
    return None if loaded == data else loaded.rpartition(":")[2]


def config_of(cell: Cell, size: Scale, rate: float, seed: int, rounds: int | None = None) -> Config:
    """The run of a cell at this rate; `rounds`: so many only."""
    setting, table = cell.setting, EXPERIMENTS[cell.table]
    content: dict[str, Any] = {
        "name": cell.table, "seed": seed, "rounds": size.rounds_of(setting), "cohort": setting.cohort,
        "method": dict(cell.method), "data": _data(size, setting.data), "model": size.model[setting.data],
        "split": {**setting.split, "clients": setting.clients},
        "train": {"lr": rate, "batch": _batch(size, setting), "epochs": setting.epochs},
        "engine": {"name": "loop", "precision": size.precision},
        "behaviour": 10, "evaluate": 20,
    }  # fmt: skip
    if table.populations:
        changed = dict(size.figure2)
        content |= {"behaviour": 1, "evaluate": changed["rounds"], "checkpoint": changed["rounds"]}
        content |= {**changed, "data": content["data"] | dict(changed.get("data", {}))}
    return checked(content if rounds is None else {**content, "rounds": rounds})


def _batch(size: Scale, setting: Setting) -> int:
    return setting.batch if size.batch is None else max(1, size.batch * setting.batch // 100)


def _data(size: Scale, name: str) -> dict[str, Any]:
    """What is loaded; reduced EMNIST falls back to the stand-in where its own files are not at hand."""
    wanted = dict(size.data[name])
    return {**wanted, "name": at_hand()} if size.name == "reduced" and name == "emnist" else wanted
