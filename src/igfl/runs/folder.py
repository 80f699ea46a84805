"""A run's folder: configuration, metrics, partition, where it was made, state, model."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from igfl.runs.config import Config, ConfigError, as_yaml
from igfl.runs.files import write_whole
from igfl.runs.reading import load

PACKAGES = ("igfl", "torch", "numpy", "ray", "safetensors")


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a run lives."""

    path: Path

    @staticmethod
    def new(under: Path, config: Config) -> Folder:
        """A folder that nobody has: the run's name and a number."""
        under.mkdir(parents=True, exist_ok=True)
        taken = [int(n) for p in under.glob(f"{config.name}-*") if (n := p.name.rpartition("-")[2]).isdigit()]
        for number in range(max(taken, default=0) + 1, 2**31):
            path = under / f"{config.name}-{number:03}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return Folder(path)._begun(config)
        raise AssertionError

    @staticmethod
    def at(path: Path, config: Config, *, fresh: bool) -> Folder:
        """The folder of this name: emptied where it is to be fresh, else what is there with this configuration."""
        if fresh:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            return Folder(path)._begun(config)
        Folder(path)._configured(config)
        return Folder(path)

    def _begun(self, config: Config) -> Folder:
        self._configured(config)
        self.write("environment.json", json.dumps(environment(), indent=1))
        return self

    def _configured(self, config: Config) -> None:
        self.write("config.yaml", yaml.safe_dump(as_yaml(config), sort_keys=False))

    @staticmethod
    def open(path: Path) -> Folder:
        """A run that is there."""
        if not (path / "config.yaml").is_file():
            raise ConfigError(f"{path}: no run is here, it has no config.yaml; `igfl list runs` names those there are")
        return Folder(path)

    @property
    def state(self) -> Path:
        return self.path / "state"

    def config(self) -> Config:
        """As it was resolved when the run began."""
        return load(self.path / "config.yaml")

    def write(self, name: str, content: str) -> None:
        """A whole file."""
        write_whole(self.path / name, content.encode())

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file, if it is there and whole."""
        try:
            found: dict[str, Any] = json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None
        return found

    def rows(self) -> list[dict[str, Any]]:
        """The metrics so far, a torn last line left out."""
        path = self.path / "metrics.jsonl"
        found: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def cut(self, round: int) -> list[dict[str, Any]]:
        """The rows up to this round, which are all there are from now on."""
        kept = [row for row in self.rows() if row["round"] <= round]
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in kept))
        return kept


class Metrics:
    """The file of rows, open for more."""

    def __init__(self, folder: Folder) -> None:
        self._file = (folder.path / "metrics.jsonl").open("a")

    def __call__(self, row: Mapping[str, Any]) -> None:
        """One line, out of this process's hands at once."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def settle(self) -> None:
        """On the disk, whatever happens next."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """The end of it."""
        self.settle()
        self._file.close()


def environment() -> dict[str, Any]:
    """What the promise of equal bits holds for: versions, and the kind of processor."""
    import torch

    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(), "packages": found, "commit": _commit(), "system": platform.platform(),
        "processor": torch.backends.cpu.get_cpu_capability(), "cores": os.cpu_count(),
    }  # fmt: skip


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],  # noqa: S607  # whichever git there is
            cwd=here, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
