"""What glibc is asked for: to keep freed memory, and to take it in large pages.

By default glibc gives the pages of every large array back and faults them in again, at every step.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
_TUNABLES = "GLIBC_TUNABLES"


def keep_freed_memory() -> bool:
    """Take all memory from the heap and never trim it, in this process; False where there is no glibc."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**24))
    return all(mallopt(name, value) == 1 for name, value in settings)


@contextmanager
def large_pages_for_children() -> Iterator[None]:
    """Processes started meanwhile take their heap in large pages: glibc reads this once, when it starts."""
    before = os.environ.get(_TUNABLES)
    os.environ[_TUNABLES] = ":".join(filter(None, (before, "glibc.malloc.hugetlb=1")))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TUNABLES]
        else:
            os.environ[_TUNABLES] = before
