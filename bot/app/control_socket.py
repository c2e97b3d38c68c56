"""The socket through which `usher reload` and `usher top` reach the running bot.

Each process has a socket next to its database, named after its process id. Only the process's own
user may connect. A call is one line. The answer is one line of JSON, which is empty if this process
cannot answer.
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
_PATIENCE_S = 5.0  # to receive the call, which is sent at once
_ANSWER_S = 120.0  # reading the workflows of many models takes a while
_LONGEST = 100  # bytes of a socket's path; systems allow 104 to 108

Reload = Callable[[], Awaitable[Reloaded]]
Tell = Callable[[str], Awaitable[bytes | None]]
"""Answers a call with JSON, or with None if this process cannot. Raises `StoreError`."""


async def _silent(_: str) -> bytes | None:
    return None


NOTHING_KNOWN = "the bot's processes on this machine cannot reach the queue at present"


class NotRunning(Exception):
    """Raised if no process of a configuration answers."""


@asynccontextmanager
async def listening(sign: Path, reload: Reload, tell: Tell = _silent) -> AsyncIterator[None]:
    """Answer calls until the block ends. `sign` is the database file or its substitute.

    `tell` answers all calls except reloads. If the socket cannot be created, that is logged, and
    the bot can only be reloaded with SIGHUP.
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
                told = await _answer_to(tell, line[:_LONGEST_CALL])
            writer.write(told + b"\n")
            await writer.drain()

    try:
        server = await asyncio.start_unix_server(answer, sock=_bound(file))
    except (
        OSError,
        AttributeError,
        NotImplementedError,
    ) as error:  # Windows, or a read-only folder
        log.warning("`usher reload` and `usher top` cannot reach this process: %s", error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        file.unlink(missing_ok=True)


async def _answer_to(tell: Tell, line: bytes) -> bytes:
    try:
        return await tell(line.decode("ascii", "replace").strip()) or b""
    except StoreError as error:
        log.warning("cannot answer `usher top`: %s", error)
        return b""


def ask(sign: Path, call: str) -> bytes:
    """Return the first answer from any process. Raises `NotRunning`."""
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
    """Reload every process of an installation. Yields each process's id and its outcome.

    Raises `NotRunning` if there is none.
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
    """Reload one process. Returns None if it was killed and left its socket behind."""
    try:
        line = _line(file, CALL, _ANSWER_S)
    except TimeoutError:
        return Reloaded(problems=(f"no answer within {_ANSWER_S:.0f} s",))
    except OSError as error:
        return Reloaded(problems=(f"cannot be reached: {error}",))
    if line is None:
        return None
    try:
        return Reloaded.of_json(json.loads(line))
    except (ValueError, KeyError, TypeError):
        return Reloaded(problems=("stopped before it answered",))


def _line(file: Path, call: bytes, patience_s: float) -> bytes | None:
    """Return a process's answer, or None if it was killed and left its socket behind."""
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
    """Remove the sockets of killed processes."""
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
    """Bind a socket that only its own user may connect to."""
    file.unlink(missing_ok=True)  # left by an earlier process with this id
    made = socket.socket(socket.AF_UNIX)
    try:
        with _short(file) as address:
            made.bind(address)
        file.chmod(0o600)  # before listening, so that nobody else can have connected
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _short(file: Path) -> Iterator[str]:
    """Provide a short path to a socket. A long one is replaced by one through its folder."""
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
    """Answers calls with the records that running roles offer."""

    def __init__(self) -> None:
        self._offered: list[Dashboard] = []

    @contextmanager
    def offering(self, records: Dashboard) -> Iterator[None]:
        """Inside the block, answer from these records."""
        self._offered.append(records)
        try:
            yield
        finally:
            self._offered.remove(records)

    async def answer(self, call: str) -> bytes | None:
        """Return a record as JSON, or None if the call is unknown or no records are offered.

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
