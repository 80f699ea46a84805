"""Data: who holds which rows of what."""

from igfl.data.federation import Federation

__all__ = ["Federation"]
