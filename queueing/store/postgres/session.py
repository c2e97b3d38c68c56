"""A session with the server: how it begins, what it must be like, and how it comes back.

One session writes. It holds a lock that goes with it, so that a second Usher is refused.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from queueing.core.errors import StoreError
from queueing.store.postgres.connection import Plain, adapt
from queueing.store.postgres.failures import AWAY, explain_refusal
from queueing.store.sql.database import DatabaseAway

_USUAL: dict[str, str | int] = {
    "connect_timeout": 3,
    # A cut cable or a server that vanished is noticed within some seconds, in both directions.
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
    "application_name": "usher",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """What a session is made with; `shown` is the address without its secrets."""

    options: dict[str, str | int] = field(repr=False)
    shown: str


def read_address(url: str) -> Address:
    """Read `postgresql://user:password@host:port/database?option=…`; raises `StoreError`.

    What the address leaves out comes from libpq's own variables and files (PGPASSWORD, pgpass).
    """
    shown = _shown(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # its text may repeat a part of the password
        raise StoreError(
            f"{shown}: this is no address of a PostgreSQL database; write"
            " postgresql://user:password@host/database"
        ) from None
    options = {name: value for name, value in given.items() if value is not None}
    return Address(options={**_USUAL, **options}, shown=shown)


def _shown(url: str) -> str:
    """Return the address with neither password nor options, which may hold one, too."""
    try:
        parts = urlsplit(url)
        user = f"{unquote(parts.username)}@" if parts.username else ""
    except ValueError:
        return "postgresql://…"
    return f"postgresql://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"


log = logging.getLogger(__name__)

OLDEST = 140_000
PATIENCE_S = 5.0  # a server that restarts is back before anything has failed
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
_SETTINGS = (
    "SET client_min_messages = warning",
    "SET jit = off",
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '30s'",
    "SET tcp_keepalives_idle = 3",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = 8000",
    (
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    ),
)


def connect(address: Address) -> Plain:
    """Begin a session. Raises `StoreError`, of which `DatabaseAway` may pass by itself."""
    try:
        plain: Plain = psycopg.connect(
            make_conninfo("", **address.options),
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )
    except psycopg.Error as error:
        raise explain_refusal(error) from error
    try:
        _refuse_unfit(plain)
        adapt(plain)
        for setting in _SETTINGS:
            plain.execute(setting)
    except psycopg.Error as error:
        plain.close()
        raise explain_refusal(error) from error
    except BaseException:
        plain.close()
        raise
    return plain


def _refuse_unfit(plain: Plain) -> None:
    version = plain.info.server_version
    if version < OLDEST:
        raise StoreError(
            f"the server is PostgreSQL {version // 10_000}: Usher needs {OLDEST // 10_000} or newer"
        )
    encoding = plain.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database keeps its texts as {encoding}: create one with ENCODING 'UTF8'"
        )
    if plain.info.parameter_status("in_hot_standby") == "on":
        raise DatabaseAway("the database server is a stand-by: name the primary server")


def local_host(plain: Plain) -> str:
    """Return this machine's end of a session, 127.0.0.1 if it has no address of its own."""
    with socket.socket(fileno=os.dup(plain.fileno())) as end:  # the original is libpq's to close
        if end.family not in {socket.AF_INET, socket.AF_INET6}:
            return "127.0.0.1"
        host: str = end.getsockname()[0]
        return host


class Session:
    """A session that is begun again when it was lost.

    `begun` is called with each new one before it is used, in the thread that needed it, and raises
    `StoreError` to refuse it. `trouble` says what is the matter while there is none.
    """

    def __init__(self, address: Address, begun: Callable[[Plain], None]) -> None:
        self._address = address
        self._begun = begun
        self._plain: Plain | None = None
        self._stopping = threading.Event()
        self.trouble: str | None = None

    def usable(self) -> Plain:
        """Return the session, begun again if necessary. Raises `StoreError`.

        Waits some seconds for a server that goes away, and not at all for one that is known to be.
        """
        if self._plain is not None and not self._plain.closed:
            return self._plain
        until = time.monotonic() + (0.0 if self.trouble else PATIENCE_S)
        for pause_s in chain(_PAUSES_S, repeat(_PAUSES_S[-1])):
            try:
                return self._begin()
            except DatabaseAway as error:
                if time.monotonic() >= until or self._stopping.is_set():
                    self._note(str(error))
                    raise
            self._stopping.wait(pause_s)
        raise AssertionError  # the pauses never end

    def wait_for(self) -> Plain:
        """Return the session, however long it takes to begin one again.

        Raises `StoreError` when the server answers and refuses, or when `stop` was called.
        """
        while True:
            try:
                return self.usable()
            except DatabaseAway:
                if self._stopping.wait(_PAUSES_S[-1]):
                    raise

    def pause(self) -> None:
        """Wait a moment before the server is asked again."""
        self._stopping.wait(_PAUSES_S[-1])

    def drop(self) -> None:
        """End the session, if there is one; the next use begins another."""
        if self._plain is not None:
            self._plain.close()

    def hang_up(self) -> None:
        """Cut the connection, from any thread: whatever waits for an answer fails."""
        plain = self._plain
        if plain is None or plain.closed:
            return
        log.warning("the database server gave no answer for long: the connection is cut")
        with suppress(OSError, psycopg.Error):  # it is gone already
            end = socket.socket(fileno=plain.fileno())
            try:
                end.shutdown(socket.SHUT_RDWR)
            finally:
                end.detach()  # the descriptor is psycopg's

    def stop(self) -> None:
        """Wait for the server no longer: those who wait get `DatabaseAway`."""
        self._stopping.set()

    def _begin(self) -> Plain:
        plain = connect(self._address)
        try:
            self._begun(plain)
        except psycopg.Error as error:
            plain.close()
            raise explain_refusal(error) from error
        except BaseException:
            plain.close()
            raise
        self._plain = plain
        if self.trouble is not None:
            log.warning("the database server answers again")
            self.trouble = None
        return plain

    def _note(self, what: str) -> None:
        if self.trouble is None:
            log.error("%s", what)
        self.trouble = what or AWAY
