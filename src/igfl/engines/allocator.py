"""glibc told to keep freed memory: by default every step gives its pages back and faults them in again."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h


def keep_freed_memory() -> bool:
    """Take all memory from the heap and never trim it, in this process; False where there is no glibc."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26))
    return all(mallopt(name, value) == 1 for name, value in settings)
