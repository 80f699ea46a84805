"""Engines: where clients train. The same job gives the same bits on each."""

from igfl.engines.loop import Loop

__all__ = ["Loop"]
