"""Imports point one way, and `import igfl` brings nothing that torch and numpy do not."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import igfl

SOURCE = Path(igfl.__file__).parent
LAYERS = [  # each may import from those above it only
    {"types", "names"},
    {"parts", "schedules", "streams", "exact", "inputs", "data.files"},
    {"clients", "weightings", "servers", "task", "models", "data.federation", "data.partitions.passport"},
    {"methods", "visits", "batched", "data.partitions.rules", "data.sets"},
    {"screening", "fairness", "data.cifar10", "data.mnist", "data.digits", "data.fetch"},
    {"training"},
    {"data.emnist", "data.partitions.shards", "data.partitions.dirichlet", "data.partitions.others"},
    {"engines.loop", "engines.allocator", "engines.shared", "data.partitions"},
    {"engines.worker", "engines.hooks", "engines.portions", "testing", "data"},
    {"engines.crew", "engines.actors", "engines.vectorised"},
    {"engines.processes", "engines.cluster"},
    {"engines.ray", "engines.choice"},
    {"engines", "bench.workloads"},
    {"bench.bare", "bench.profile"},
    {""},  # igfl itself: names only, until one is used
    {"bench.peers"},
    {"bench", "bench.measure"},
    {"runs", "runs.catalogue", "runs.digest", "runs.files", "runs.memories", "runs.presets"},
    {"runs.checkpoints", "runs.config", "runs.rows"},
    {"runs.reading", "runs.store"},
    {"runs.build", "runs.folder", "runs.behaviour", "runs.sinks"},
    {"runs.run", "runs.plan"},
    {"runs.lanes", "report", "report.partitions", "report.matching", "report.figures", "report.page"},
    {"runs.tune", "report.behaviour"},
    {"report.gather"},
    {"paper", "paper.experiments", "paper.stand_in"},
    {"paper.printed", "paper.scales"},
    {"paper.claims", "reproduce", "reproduce.records"},
    {"reproduce.search"},
    {"reproduce.campaign", "reproduce.verdicts"},
    {"reproduce.layout"},
    {"reproduce.show"},
    {"reproduce.pages"},
    {"cli", "cli.data", "cli.split", "cli.bench", "cli.run", "cli.compare", "cli.listing", "cli.report"},
    {"cli.reproduce", "cli.tune"},
    {"cli.main"},
]


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "igfl":
            found.add(node.module.removeprefix("igfl").removeprefix("."))
        if isinstance(node, ast.Import):
            found.update(
                a.name.removeprefix("igfl").removeprefix(".") for a in node.names if a.name.split(".")[0] == "igfl"
            )
    return found


def test_every_module_has_a_layer() -> None:
    assert set(modules()) == set().union(*LAYERS)


def test_imports_point_downwards() -> None:
    level = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    wrong = [
        f"{name} imports {target}"
        for name, path in modules().items()
        for target in imports(path)
        if level[target] >= level[name]
    ]
    assert not wrong


def test_importing_igfl_loads_only_what_torch_and_numpy_load() -> None:
    program = (
        "import json, sys, numpy, torch; before = set(sys.modules); import igfl; [getattr(igfl, n) for n in dir(igfl)];"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    strangers = set(json.loads(out)) - {"igfl", "numpy", "torch"} - sys.stdlib_module_names
    assert not strangers


def test_the_package_answers_without_loading_torch() -> None:
    program = (
        "import igfl, sys; igfl.__version__; dir(igfl); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_type_checkers_see_the_names_that_are_there() -> None:
    declared = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse((SOURCE / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("igfl.")
        for alias in node.names
    }
    assert declared == {(f"igfl.{home}", name) for home, names in igfl._HOMES.items() for name in names.split()}
    for name in igfl.__all__:
        getattr(igfl, name)


def test_every_module_is_tracked() -> None:
    """An ignore rule once hid a whole package."""
    root = SOURCE.parents[1]
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "src/igfl"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert {str(path.relative_to(root)) for path in SOURCE.rglob("*.py")} <= set(listed.split())
