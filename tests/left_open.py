"""A test that leaves something open fails; otherwise Python would report it in a later test.

Sockets and connections to databases are checked after each test. Everything else is reported when
it is collected, which happens after the last test of each file at the latest.
"""

import gc
import os
import socket
import sqlite3
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.ports import is_kept

if TYPE_CHECKING:
    from types import FrameType

ROOT = f"{Path(__file__).resolve().parents[1]}{os.sep}"
Closable = socket.socket | sqlite3.Connection
_sockets: list[tuple[weakref.ref[socket.socket], str]] = []
_connections: list[tuple[sqlite3.Connection, str]] = []


@pytest.fixture(autouse=True, scope="session")
def openings_are_noted() -> Iterator[None]:
    """Record each socket and each connection to a database, and what opened it."""
    begin, connect = socket.socket.__init__, sqlite3.connect

    def noted_begin(self: socket.socket, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        _sockets.append((weakref.ref(self), _opener()))

    def noted_connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        _connections.append((connection, _opener()))
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "__init__", noted_begin)
        patch.setattr(sqlite3, "connect", noted_connect)
        yield


@pytest.fixture(autouse=True)
def openings_before_are_others() -> None:
    """Ignore what fixtures of the whole file have opened, and keep open."""
    _sockets.clear()
    _connections.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail the test that leaves a socket or a database open, and the file that leaves more."""
    yield  # all fixtures of the test, its event loop among them
    left = left_open()
    if nextitem is None or nextitem.path != item.path:
        left += told_of_garbage()
    if left:
        pytest.fail("the test, or one before it in its file, leaves:\n" + "\n".join(left), False)


def left_open() -> list[str]:
    """Close what is still open and was recorded since the test began; return a line for each."""
    sockets = [(found, opener) for ref, opener in _sockets if (found := ref()) and _is_left(found)]
    connections = [each for each in _connections if _is_open(each[0])]
    _sockets.clear()
    _connections.clear()
    left: list[tuple[Closable, str]] = [*sockets, *connections]
    for each, _ in left:
        with suppress(sqlite3.ProgrammingError):  # it belongs to another thread
            each.close()
    return [f"{each!r}, opened at {opener}" for each, opener in left]


def told_of_garbage() -> list[str]:
    """Collect all garbage; return what it reports: everything that was never closed or awaited.

    Whatever remains is ignored from then on: it belongs to modules, and checking it each time would
    take longer than the garbage does.
    """
    told: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda about: told.append(f"{about.exc_value!r} of {about.object!r}")
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
    gc.freeze()
    return told


def _is_left(found: socket.socket) -> bool:
    return found.fileno() != -1 and not is_kept(found)


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018 - asked for what it raises
    except sqlite3.ProgrammingError:
        return False
    return True


def _opener() -> str:
    """Return the innermost line of this repository that runs now, or what runs outside of it."""
    frame: FrameType | None = sys._getframe(2)
    outside = frame
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(ROOT) and "site-packages" not in file:
            return f"{file.removeprefix(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return f"{outside.f_code.co_filename}:{outside.f_lineno}" if outside else "?"
