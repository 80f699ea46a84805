"""Engines: where clients train. The same job gives the same bits on each, but for `vectorised`, which rounds."""

from igfl.engines.choice import ENGINES, choose, engine
from igfl.engines.loop import ClientError, Loop
from igfl.engines.processes import Processes
from igfl.engines.vectorised import Vectorised

__all__ = ["ENGINES", "ClientError", "Loop", "Processes", "Vectorised", "choose", "engine"]
