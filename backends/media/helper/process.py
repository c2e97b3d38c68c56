"""Runs the helper process for untrusted files: few at a time, killed when its caller gives up."""

import asyncio
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import backends
from backends.media.helper.protocol import Answer, MediaTask, Order
from backends.media.helper.sandbox import unheld
from queueing.core.concurrency import timeout, undisturbed

WALL_S = 300.0
PROGRAM = ("-P", "-m", "backends.media.helper.worker")
_FOLDER = str(Path(backends.__file__).resolve().parents[1])  # absolute in any case
_PIECE = 256 * 1024  # bytes per write or read, so that other tasks can run
_ANSWER_MOST = 64_000_000  # bytes, unless the order or its file allows more

# Concurrent processes. Encoding takes minutes and must not delay other orders.
_encoders, _readers = asyncio.Semaphore(2), asyncio.Semaphore(2)


log = logging.getLogger(__name__)


class MediaError(Exception):
    """The helper process failed; the text is for the operator.

    `fault` is set if the file itself is the cause.
    """

    def __init__(self, text: str, *, fault: str = "") -> None:
        super().__init__(text)
        self.fault = fault


class NoLibrary(MediaError):
    """The library for such files is not installed."""


def installed(library: str) -> bool:
    """Return whether a library of `usher-bot[media]` is installed."""
    return importlib.util.find_spec(library) is not None


@cache
def _warn() -> None:
    """Log once which protections this machine lacks."""
    for harm in unheld().values():
        log.warning("%s", harm)


async def ask(order: Order, data: bytes, *, wall_s: float = WALL_S) -> tuple[Answer, bytes]:
    """Run an order in a separate process. Raises `MediaError`.

    The process is killed if it takes too long or the caller is cancelled.
    """
    _warn()
    async with _encoders if order.task is MediaTask.FIT else _readers:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # detached from the bot's terminal
        )
        try:
            async with timeout(wall_s):
                return await _exchange(process, order, data)
        except TimeoutError:
            raise MediaError(
                f"{order.task} of {len(data)} bytes took over {wall_s:.0f} s"
            ) from None
        finally:
            await _kill(process)


async def _exchange(
    process: asyncio.subprocess.Process, order: Order, data: bytes
) -> tuple[Answer, bytes]:
    if process.stdin is None or process.stdout is None:
        raise MediaError("no pipes")
    with suppress(ConnectionError):  # it died; its output so far says more
        await _send_order(process.stdin, order, data)
    # Standard input stays open, because closing it ends the helper process.
    most = max(_ANSWER_MOST, order.limit, 2 * len(data))
    try:
        answer = Answer.read(await process.stdout.readline())
        made = await _read_all(process.stdout, most)
    except ValueError:
        if not process.stdout.at_eof():
            raise MediaError(f"{order.task}: no answer, or over {most} bytes") from None
        code = await process.wait()
        raise MediaError(f"{order.task}: the helper exited with {code} and no answer") from None
    if answer.error:
        raise MediaError(f"{order.task} of {order.mime}: {answer.error}", fault=answer.fault)
    return answer, made


async def _send_order(pipe: asyncio.StreamWriter, order: Order, data: bytes) -> None:
    """Write an order in pieces: a large file written at once would be copied on the event loop."""
    pipe.write(order.line())
    view = memoryview(data)
    for at in range(0, len(data), _PIECE):
        pipe.write(view[at : at + _PIECE])
        await pipe.drain()


async def _read_all(pipe: asyncio.StreamReader, most: int) -> bytes:
    """Read everything until the end. Raises `ValueError` for more than `most` bytes."""
    found, size = [], 0
    while piece := await pipe.read(_PIECE):
        found.append(piece)
        size += len(piece)
        if size > most:
            raise ValueError("too long")
    return found[0] if len(found) == 1 else await asyncio.to_thread(b"".join, found)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process: if a file has taken control of it, it may keep running after its answer."""
    with suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await undisturbed(asyncio.create_task(_drain_and_wait(process)))


async def _drain_and_wait(process: asyncio.subprocess.Process) -> None:
    """Discard the process's remaining output, then wait for its end.

    Until Python 3.13, `wait` only returns once every pipe has ended
    (https://github.com/python/cpython/issues/119710). A full pipe is not read, so its end would
    never be seen.
    """
    while process.stdout is not None and await process.stdout.read(_PIECE):
        pass
    await process.wait()


def _environment() -> Mapping[str, str]:
    """Return the environment the process needs to find its modules, without the bot's tokens."""
    kept = ("SYSTEMROOT", "LD_LIBRARY_PATH", "PATH")  # for the interpreter and its libraries
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PYTHONPATH": os.pathsep.join([_FOLDER, *(path for path in sys.path if path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
