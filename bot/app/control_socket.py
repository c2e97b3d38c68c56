"""How `usher reload` and `usher top` reach the running bot: a socket beside its database, for its own user alone.

Each process of an installation has one, named after its process id. A call is one line, its answer
one line of JSON, empty for a call that this process cannot answer.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

from bot.app.reloader import Reloaded
from bot.monitoring.dashboard import Dashboard, to_json
from bot.monitoring.records import HourSpan
from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError

log = logging.getLogger(__name__)

CALL = b"reload\n"
_LONGEST_CALL = 100  # bytes
_LOOK_S = 10.0  # for an answer from memory or the database
_PATIENCE_S = 5.0  # for the call, which is sent at once
_ANSWER_S = 120.0  # reading workflows of many models takes its time
_LONGEST = 100  # bytes of a socket's address: systems allow 104 to 108

Reload = Callable[[], Awaitable[Reloaded]]
Tell = Callable[[str], Awaitable[bytes | None]]
"""Answers a call with JSON, None if this process knows nothing of it. Raises `StoreError`."""


async def _silent(_: str) -> bytes | None:
    return None


NOTHING_KNOWN = "the bot's processes on this machine do not reach the queue now"


class NotRunning(Exception):
    """No process of a configuration answers, or none that could."""


@asynccontextmanager
async def listening(sign: Path, reload: Reload, tell: Tell = _silent) -> AsyncIterator[None]:
    """Answer calls until the block ends; `sign` is the database, or what stands for it.

    `tell` answers every call but the one to reload.

    Where there can be no such socket, that is logged, and a signal still reloads.
    """
    _forget_killed(sign)
    file = _of_process(sign, str(os.getpid()))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, TimeoutError, ValueError):
            async with timeout(_PATIENCE_S):
                line = await reader.readline()
            if line == CALL:
                told = json.dumps((await reload()).as_json()).encode()
            else:
                told = await _told(tell, line[:_LONGEST_CALL])
            writer.write(told + b"\n")
            await writer.drain()

    try:
        server = await asyncio.start_unix_server(answer, sock=_bound(file))
    except (OSError, AttributeError, NotImplementedError) as error:  # Windows, a read-only folder
        log.warning("`usher reload` and `usher top` cannot reach this process: %s", error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        file.unlink(missing_ok=True)


async def _told(tell: Tell, line: bytes) -> bytes:
    try:
        return await tell(line.decode("ascii", "replace").strip()) or b""
    except StoreError as error:
        log.warning("a look at this process failed: %s", error)
        return b""


def ask(sign: Path, call: str) -> bytes:
    """Return the answer of the first process that knows one. Raises `NotRunning`."""
    reached = False
    for file in sorted(sign.resolve().parent.glob(_of_process(sign, "*").name)):
        try:
            line = _line(file, f"{call}\n".encode(), _LOOK_S)
        except OSError:
            continue
        reached = reached or line is not None
        if line is not None and line.strip():
            return line
    raise NotRunning(NOTHING_KNOWN if reached else "")


def call_all(sign: Path) -> Iterator[tuple[str, Reloaded]]:
    """Have every process of an installation reload; yield the name of each, and its answer.

    Raises `NotRunning` when there is none.
    """
    answered = False
    for file in sorted(sign.resolve().parent.glob(_of_process(sign, "*").name)):
        outcome = _call(file)
        if outcome is not None:
            answered = True
            yield file.name.rpartition("-")[2], outcome
    if not answered:
        raise NotRunning


def _call(file: Path) -> Reloaded | None:
    """Return the answer of one process; None if it ended before it could remove its socket."""
    try:
        line = _line(file, CALL, _ANSWER_S)
    except TimeoutError:
        return Reloaded(problems=(f"it has not answered in {_ANSWER_S:.0f} s",))
    except OSError as error:
        return Reloaded(problems=(f"it cannot be reached: {error}",))
    if line is None:
        return None
    try:
        return Reloaded.of_json(json.loads(line))
    except (ValueError, KeyError, TypeError):
        return Reloaded(problems=("it stopped before it answered",))


def _line(file: Path, call: bytes, patience_s: float) -> bytes | None:
    """Return what a process answers; None if it ended before it could remove its socket."""
    with socket.socket(socket.AF_UNIX) as calling:
        calling.settimeout(patience_s)
        try:
            with _short(file) as address:
                calling.connect(address)
        except ConnectionRefusedError:
            file.unlink(missing_ok=True)
            return None
        calling.sendall(call)
        with calling.makefile("rb") as answer:
            return answer.readline()


def _forget_killed(sign: Path) -> None:
    """Remove the sockets of processes that were ended by force."""
    with suppress(AttributeError):  # Windows has no such sockets
        for file in sign.resolve().parent.glob(_of_process(sign, "*").name):
            with suppress(OSError), socket.socket(socket.AF_UNIX) as calling:
                calling.settimeout(0)
                with suppress(ConnectionRefusedError), _short(file) as address:
                    calling.connect(address)
                    continue
                file.unlink(missing_ok=True)


def _of_process(sign: Path, number: str) -> Path:
    there = sign.resolve()
    return there.with_name(f"{there.name}-control-{number}")


def _bound(file: Path) -> socket.socket:
    """Return a socket at a path, which only its own user may call."""
    file.unlink(missing_ok=True)  # of an earlier process of this number
    made = socket.socket(socket.AF_UNIX)
    try:
        with _short(file) as address:
            made.bind(address)
        file.chmod(0o600)  # before it listens, so no one else can have called
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _short(file: Path) -> Iterator[str]:
    """Provide an address of a socket's file: of a deep folder, by way of a handle of the folder."""
    if len(os.fsencode(file)) <= _LONGEST or not Path("/proc/self/fd").is_dir():
        yield str(file)
        return
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


NOW, HOUR, PEOPLE = "now", "hour", "people"
_READ: Mapping[str, Callable[[Dashboard], Awaitable[bytes]]]


class DashboardAnswers:
    """Answers by what a duty of this process offers; without any, it knows nothing."""

    def __init__(self) -> None:
        self._offered: list[Dashboard] = []

    @contextmanager
    def offering(self, records: Dashboard) -> Iterator[None]:
        """Answer by these records until the block ends."""
        self._offered.append(records)
        try:
            yield
        finally:
            self._offered.remove(records)

    async def answer(self, call: str) -> bytes | None:
        """Return a record as JSON; None for another call, or if nothing is known here.

        Raises `StoreError`.
        """
        if not self._offered or call not in _READ:
            return None
        return await _READ[call](self._offered[-1])


async def _now(records: Dashboard) -> bytes:
    return to_json(await records.read_now())


async def _hour(records: Dashboard) -> bytes:
    return to_json(await records.read_hours(HourSpan.HOUR))


async def _people(records: Dashboard) -> bytes:
    return to_json(await records.read_people())


_READ = {NOW: _now, HOUR: _hour, PEOPLE: _people}
