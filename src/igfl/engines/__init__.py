"""Engines: where clients train. The same job gives the same bits on each."""

from igfl.engines.crew import ClientError
from igfl.engines.loop import Loop
from igfl.engines.processes import Processes

__all__ = ["ClientError", "Loop", "Processes"]
