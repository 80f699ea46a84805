"""Other libraries on the same workloads: each a program in an environment of its own, asked for one round at a time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

import igfl

NAMES = ("flower", "pfl", "fluke", "fedlab", "fedjax")
FOLDER = Path("benchmarks/peers")  # of a checkout; each library's environment is below it


class Peer:
    """A driver at work, between its `ready` and the end of what it is told."""

    def __init__(self, name: str, workload: str, *, tuned: bool = False, folder: Path = FOLDER) -> None:
        command = [str(python_of(name, folder).absolute()), f"{name}.py", workload, *(["--tuned"] if tuned else [])]
        self._name = name
        source = Path(igfl.__file__).parents[1]
        self._complaints = TemporaryFile("w+")  # noqa: SIM115  # open as long as the process; a pipe would fill up
        self._process = subprocess.Popen(  # noqa: S603  # ours
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(source)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._complaints, text=True,
        )  # fmt: skip
        self.version = self._hear("ready").removeprefix("ready ")

    def round(self) -> None:
        """One round of its own machinery."""
        assert self._process.stdin is not None  # noqa: S101  # a pipe, as asked for
        self._process.stdin.write("round\n")
        self._process.stdin.flush()
        self._hear("done")

    def close(self) -> None:
        """It leaves at the end of the file."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._complaints.close()

    def _hear(self, wanted: str) -> str:
        assert self._process.stdout is not None  # noqa: S101  # a pipe, as asked for
        line = self._process.stdout.readline().strip()
        if not line.startswith(wanted):
            self._process.kill()
            self._process.communicate()
            self._complaints.seek(0)
            complaint = self._complaints.read().strip().splitlines() or ["it said nothing"]
            self._complaints.close()
            raise RuntimeError(f"{self._name} ended where it should say {wanted!r}: {complaint[-1]}")
        return line


def python_of(name: str, folder: Path = FOLDER) -> Path:
    """The interpreter that has this library."""
    return folder / ".venvs" / name / "bin" / "python"


def installed(name: str, folder: Path = FOLDER) -> bool:
    """Whether its environment and its driver are there."""
    return python_of(name, folder).exists() and (folder / f"{name}.py").exists()
