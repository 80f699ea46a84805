"""Trajectories computed elsewhere, from loops typed out from the papers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import igfl
from quadratics import job, trajectory

GOLDEN = json.loads((Path(__file__).parent / "golden" / "quadratics.json").read_text())
CASES = [(problem, name) for problem, p in GOLDEN["problems"].items() for name in p["trajectories"]]


@pytest.mark.parametrize(("problem", "name"), CASES, ids=lambda value: value.replace(" ", "_"))
def test_agrees_to_1e_9(problem: str, name: str) -> None:
    p = GOLDEN["problems"][problem]
    method = igfl.method(name, **GOLDEN["constants"].get(name, {}))
    run = job(p["A"], p["b"], p["w0"], method=method, lr=p["lr"], steps=p["steps"])
    ours = trajectory(run, igfl.Given(p["cohorts"]))
    np.testing.assert_allclose(ours, p["trajectories"][name], rtol=0, atol=1e-9)
