"""The process itself: its limits and memory, the event loop, and how signals stop it in order.

What a system does not support stays as it was.

Where the network is away, a look-up takes as long as the system waits for its name servers, 10 to
30 s by default. asyncio does them in the threads of `asyncio.to_thread`: a few names of servers and
chats would hold up every image, and a stop. So names are looked up in threads of their own.
"""

import asyncio
import ctypes
import encodings
import gc
import importlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from PIL import Image

from bot.app import logs
from bot.http.listener import open_files
from queueing.core.concurrency import in_daemon_thread, undisturbed

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


if sys.platform == "win32":
    _Usual = asyncio.ProactorEventLoop
else:
    _Usual = asyncio.SelectorEventLoop

T = TypeVar("T")
Found = list[Any]  # of tuples, as `socket.getaddrinfo` returns them


class EventLoop(_Usual):
    """asyncio's loop, whose look-ups hold nothing up; the same one at the same time is made once."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[tuple[object, ...], asyncio.Future[Found]] = {}

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as asyncio calls it
        proto: int = 0,
        flags: int = 0,
    ) -> Found:
        """Return the addresses of a name. Raises `OSError`."""
        wanted = (host, port, family, type, proto, flags)
        lookup = self._lookups.get(wanted)
        if lookup is None:
            lookup = in_daemon_thread(partial(socket.getaddrinfo, *wanted), "lookup")
            self._lookups[wanted] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(wanted))
        return await undisturbed(lookup)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on such a loop and return what it returns, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(main)


_STOPPING = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run until it ends or SIGINT or SIGTERM arrives; a second signal ends the process at once.

    The first one cancels the work, which then stops in order: running jobs get their grace.
    """

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        logs.watch_loop(loop)
        task = asyncio.ensure_future(work)

        def stop() -> None:
            task.cancel()
            print("stopping; once more to stop at once", file=sys.stderr)

        with _on_signal(lambda: loop.call_soon_threadsafe(stop)):
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise

    run(watched())
    gc.freeze()  # the process ends: scanning all objects once more costs 0.3 s
    return 0


@contextmanager
def _on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first signal; the next one meets the system's own handling.

    `stop` is called in the middle of any code, a write to the log included, so it must be safe
    there. Writing to the same stream is not: it raises, and the signal would be lost.
    """

    def first(*_: object) -> None:
        for number in _STOPPING:
            signal.signal(number, signal.SIG_DFL)
        stop()

    # signal.signal also works on Windows, where the loop's own handlers do not exist
    before = {number: signal.signal(number, first) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
