"""Runs the helper process for films and sounds: one at a time, killed when its caller gives up."""

import asyncio
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from backends.media.films.order import Answer, Order

WALL_S = 300.0
PROGRAM = ("-P", "-m", "backends.media.films.worker")
_WAITS_MOST = 2  # processes at once

_log = logging.getLogger(__name__)
_turns = asyncio.Semaphore(_WAITS_MOST)


class FilmError(Exception):
    """The helper process failed; the text is for the operator."""


class NoFilms(FilmError):
    """The libraries for films and sounds are not installed here."""


def available() -> bool:
    """Return whether the libraries for films and sounds (`usher-bot[media]`) are installed."""
    return importlib.util.find_spec("av") is not None


async def ask(order: Order, data: bytes, *, wall_s: float = WALL_S) -> tuple[Answer, bytes]:
    """Run an order in a process of its own. Raises `FilmError`.

    The process is killed when it takes too long and when the waiting task is cancelled.
    """
    if not available():
        raise NoFilms("films and sound need usher-bot[media]")
    async with _turns:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
        )
        try:
            async with asyncio.timeout(wall_s):
                return await _spoken(process, order, data)
        except TimeoutError:
            raise FilmError(f"{order.task} of {len(data)} bytes took over {wall_s:.0f} s") from None
        finally:
            await _ended(process)


async def _spoken(
    process: asyncio.subprocess.Process, order: Order, data: bytes
) -> tuple[Answer, bytes]:
    if process.stdin is None or process.stdout is None:
        raise FilmError("no pipes")
    with suppress(ConnectionError):  # it died; its output until then says more
        process.stdin.write(order.line())
        process.stdin.write(data)
        await process.stdin.drain()
    said = (
        await process.stdout.read()
    )  # standard input stays open: closing it would end the process
    line, _, made = said.partition(b"\n")
    try:
        answer = Answer.read(line)
    except ValueError:
        code = await process.wait()
        raise FilmError(f"{order.task}: the helper ended with {code} and no answer") from None
    if answer.error:
        raise FilmError(f"{order.task} of {order.mime}: {answer.error}")
    return answer, made


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of the process, which ends by itself once it has answered."""
    if process.stdout is not None and not process.stdout.at_eof():
        with suppress(ProcessLookupError):
            process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await asyncio.shield(asyncio.create_task(process.wait()))


def _environment() -> Mapping[str, str]:
    """Return what the process needs to find its modules; none of the bot's tokens are included."""
    kept = ("SYSTEMROOT", "LD_LIBRARY_PATH", "PATH")  # for the interpreter and its libraries
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
