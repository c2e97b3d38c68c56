"""Settles the process before the bot opens anything: what it takes, and who may read what it makes.

Owns nothing afterwards. Where a system does not know of something here, it stays as it was.
"""

import ctypes
import sys

# Settings of glibc's allocator, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE = 256 * 1024  # bytes; such a block goes back to the system the moment it is freed
_ARENAS = 2


def settle() -> None:
    """Prepare the process; call it once, before threads begin."""
    give_memory_back()


def give_memory_back() -> None:
    """Have freed memory returned to the system.

    glibc raises its idea of a large block to the largest one freed so far and keeps an arena for
    each thread, so a busy hour with files of 25 MB would be held for good. Setting these numbers
    also keeps them where they are.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, such as musl
        return
    for setting, value in (
        (_MMAP_THRESHOLD, _LARGE),
        (_TRIM_THRESHOLD, _LARGE),
        (_ARENA_MAX, _ARENAS),
    ):
        mallopt(setting, value)
