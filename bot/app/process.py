"""Prepares the process: its limits, memory, event loop and signal handling.

Settings that a system does not support are skipped.

Without a network, resolving a name takes as long as the system waits for its name servers, 10 to 30
s by default. asyncio resolves names in the threads of `asyncio.to_thread`, so a few names would
delay all image work and the shutdown. `EventLoop` resolves names in separate threads.
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

FEW_FILES = 512  # open at once; with fewer, the page takes fewer visitors, and that is logged
_MANY_FILES = 8192

# Settings of glibc's allocator, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE = 32 * 1024 * 1024  # bytes; blocks of this size return to the system when freed
_ARENAS = 2
_TRIM_EVERY_S = 10.0

# Thresholds of the garbage collector: new objects between collections of the youngest generation;
# such collections per collection of the middle generation (about five milliseconds); those per full
# collection.
_COLLECT_AT = (5_000, 5, 200)

_log = logging.getLogger(__name__)


def settle() -> None:
    """Prepare the process. Call once, after setting up the log and before threads start."""
    give_memory_back()
    allow_open_files()
    import_what_comes_late()
    collect_rarely()


def allow_open_files() -> None:
    """Raise the limit of open files as far as the system allows. Logs a low limit."""
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
            "only %d files may be open at once, so the page accepts fewer visitors;"
            " raise the limit (ulimit -n, or LimitNOFILE= of the service)",
            open_files(),
        )


def import_what_comes_late() -> None:
    """Import modules that libraries would import on first use, while file handles are available."""
    Image.preinit()
    for plugin in ("WebP", "Avif"):  # readable formats that Pillow does not load by default
        importlib.import_module(f"PIL.{plugin}ImagePlugin")
    for codec in ("utf_8", "utf_16_le", "utf_16", "utf_32", "latin_1", "cp1252", "idna", "ascii"):
        importlib.import_module(f"{encodings.__name__}.{codec}")


def give_memory_back() -> None:
    """Make the allocator return freed memory to the system.

    glibc raises its threshold for large blocks to the largest one freed so far, and keeps an arena
    per thread. After a busy hour with 25 MB files, it would never return that memory. Setting these
    parameters also turns off the automatic threshold. Smaller blocks are returned by `stay_small`:
    returning blocks of a few megabytes at once would make each copy of a large result wait for
    fresh pages, which takes half of the time.
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
    """Return unused pages to the system every ten seconds, until cancelled.

    The allocator only returns free memory at the end of an arena. Free pages between blocks in use
    remain; after some large results they made up a third of the process.
    """
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is None:
        return
    while True:
        await asyncio.sleep(_TRIM_EVERY_S)
        await asyncio.to_thread(malloc_trim, 0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of glibc's allocator, or None with another C library, such as musl."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function


def collect_rarely() -> None:
    """Make the garbage collector run rarely.

    Jobs leave no reference cycles, so their objects are freed without it. A full collection stops
    the bot for a tenth of a second, or for half a second with ten thousand waiting jobs, and Python
    would run one every few hundred jobs. Objects that exist already are never examined again.
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
    """asyncio's loop, with name resolution in separate threads.

    Equal concurrent lookups are shared.
    """

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
        """Resolve a name to its addresses. Raises `OSError`."""
        wanted = (host, port, family, type, proto, flags)
        lookup = self._lookups.get(wanted)
        if lookup is None:
            lookup = in_daemon_thread(partial(socket.getaddrinfo, *wanted), "lookup")
            self._lookups[wanted] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(wanted))
        return await undisturbed(lookup)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an `EventLoop` and return its result, like `asyncio.run`."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(main)


_STOPPING = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run the work until it ends or SIGINT or SIGTERM arrives. Returns the exit status.

    The first signal cancels the work, which then shuts down in order. A second signal ends the
    process at once.
    """

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        logs.watch_loop(loop)
        task = asyncio.ensure_future(work)

        def stop() -> None:
            task.cancel()
            print("stopping; press Ctrl+C again to stop at once", file=sys.stderr)

        with _on_signal(lambda: loop.call_soon_threadsafe(stop)):
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise

    run(watched())
    gc.freeze()  # so that a last collection on exit does not take 0.3 s
    return 0


@contextmanager
def _on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on the first signal. The next one gets the system's default handling.

    `stop` may interrupt any code, including a write to the log, so it must be reentrant. Writing to
    the same stream is not: it raises, and the signal would be lost.
    """

    def first(*_: object) -> None:
        for number in _STOPPING:
            signal.signal(number, signal.SIG_DFL)
        stop()

    # signal.signal also works on Windows, which lacks the loop's own handlers
    before = {number: signal.signal(number, first) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
