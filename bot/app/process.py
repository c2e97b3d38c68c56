"""Prepares the process before the bot opens anything, and keeps it small while it runs.

What a system does not support stays as it was.
"""

import asyncio
import ctypes
import encodings
import gc
import importlib
import logging
import sys
from collections.abc import Callable

from PIL import Image

from bot.http.open_files import open_files

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

FEW_FILES = (
    512  # open at once; with fewer, the page takes fewer visitors, and that is worth a log line
)
_MANY_FILES = 8192

# Settings of glibc's allocator, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE = 32 * 1024 * 1024  # bytes; such a block returns to the system the moment it is freed
_ARENAS = 2
_TRIM_EVERY_S = 10.0

# Objects made and not freed, between two looks at the new ones; such looks between two at those that
# were new twice (some five milliseconds); such looks between two at everything.
_COLLECT_AT = (5_000, 5, 200)

_log = logging.getLogger(__name__)


def settle() -> None:
    """Prepare the process; call it once, when the log is set up and before threads begin."""
    give_memory_back()
    allow_open_files()
    import_what_comes_late()
    collect_rarely()


def allow_open_files() -> None:
    """Raise the number of open files to what the system allows, and log when that is low."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError) as error:
            _log.debug("the limit of open files stays at %d: %s", soft, error)
    if open_files() < FEW_FILES:
        _log.warning(
            "only %d files may be open at once, so the page takes fewer visitors:"
            " allow more (ulimit -n, or LimitNOFILE= of the service)",
            open_files(),
        )


def import_what_comes_late() -> None:
    """Import what libraries import at first use, while files can surely be opened."""
    Image.preinit()
    for plugin in ("WebP", "Avif"):  # of the formats that are read, those that are not among these
        importlib.import_module(f"PIL.{plugin}ImagePlugin")
    for codec in ("utf_8", "utf_16_le", "utf_16", "utf_32", "latin_1", "cp1252", "idna", "ascii"):
        importlib.import_module(f"{encodings.__name__}.{codec}")


def give_memory_back() -> None:
    """Make the allocator return freed memory to the system.

    glibc raises its threshold for a large block to the largest one freed so far and keeps an arena
    for each thread, so a busy hour with files of 25 MB would be held for good. Setting these
    numbers also fixes them. Blocks below the threshold return with `stay_small`: if those of some
    megabytes returned at once, a large result would wait for fresh pages at each of its copies,
    half of the time that it takes.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return
    for setting, value in (
        (_MMAP_THRESHOLD, _LARGE),
        (_TRIM_THRESHOLD, _LARGE),
        (_ARENA_MAX, _ARENAS),
    ):
        mallopt(setting, value)


async def stay_small() -> None:
    """Return the pages that hold nothing any more to the system, every ten seconds, until cancelled.

    The allocator returns what is free at the end of an arena; pages between blocks that are still
    in use stay, and after some large results they were a third of the process.
    """
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is None:
        return
    while True:
        await asyncio.sleep(_TRIM_EVERY_S)
        await asyncio.to_thread(malloc_trim, 0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of glibc's allocator, None with another C library, such as musl."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function


def collect_rarely() -> None:
    """Look rarely for objects that refer to each other and to which nothing else refers.

    A job leaves none: what it made is freed as its last reference goes. To look at everything stops
    the whole bot for a tenth of a second, with ten thousand waiting for half of one, and Python
    does so every few hundred jobs. What is imported by now is never looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AT)
