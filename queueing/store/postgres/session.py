"""A session with a PostgreSQL server: its settings and requirements, and how it reconnects.

A single session writes. It holds a lock that ends with it, so that a second Usher is rejected.
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
    # Detect a cut cable or a vanished server within seconds, in both directions.
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
    "application_name": "usher",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Connection options. `shown` is the address without secrets."""

    options: dict[str, str | int] = field(repr=False)
    shown: str


def read_address(url: str) -> Address:
    """Parse `postgresql://user:password@host:port/database?option=…`. Raises `StoreError`.

    Missing parts come from libpq's environment variables and files, such as PGPASSWORD and pgpass.
    """
    shown = _shown(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # its text may contain part of the password
        raise StoreError(
            f"{shown}: this is not the address of a PostgreSQL database; write"
            " postgresql://user:password@host/database"
        ) from None
    options = {name: value for name, value in given.items() if value is not None}
    return Address(options={**_USUAL, **options}, shown=shown)


def _shown(url: str) -> str:
    """Return an address without its password and options, which may contain one too."""
    try:
        parts = urlsplit(url)
        user = f"{unquote(parts.username)}@" if parts.username else ""
    except ValueError:
        return "postgresql://…"
    return f"postgresql://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"


log = logging.getLogger(__name__)

OLDEST = 140_000
PATIENCE_S = 5.0  # long enough for a server to restart before anything fails
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
    """Open a session. Raises `StoreError`, or `DatabaseAway` if a retry may succeed."""
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
            f"the encoding of the database is {encoding}: create one with ENCODING 'UTF8'"
        )
    if plain.info.parameter_status("in_hot_standby") == "on":
        raise DatabaseAway("the database server is a standby: name the primary server")


def local_host(plain: Plain) -> str:
    """Return the local IP address of a session, or 127.0.0.1 if it uses a Unix socket."""
    with socket.socket(fileno=os.dup(plain.fileno())) as end:  # a copy: libpq closes the original
        if end.family not in {socket.AF_INET, socket.AF_INET6}:
            return "127.0.0.1"
        host: str = end.getsockname()[0]
        return host


class Session:
    """A session that reconnects after it is lost.

    `begun` is called with each new session before it is used, in the thread that needs it. It
    raises `StoreError` to reject the session. `trouble` describes the problem while there is no
    session.
    """

    def __init__(self, address: Address, begun: Callable[[Plain], None]) -> None:
        self._address = address
        self._begun = begun
        self._plain: Plain | None = None
        self._stopping = threading.Event()
        self.trouble: str | None = None

    def usable(self) -> Plain:
        """Return the session, reconnecting if necessary. Raises `StoreError`.

        Waits up to `PATIENCE_S` for a server that goes away, but does not wait for one that is
        known to be away.
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
        """Return the session, reconnecting for as long as necessary.

        Raises `StoreError` if the server answers with a refusal, and `DatabaseAway` after `stop`.
        """
        while True:
            try:
                return self.usable()
            except DatabaseAway:
                if self._stopping.wait(_PAUSES_S[-1]):
                    raise

    def pause(self) -> None:
        """Wait briefly before asking the server again."""
        self._stopping.wait(_PAUSES_S[-1])

    def drop(self) -> None:
        """Close the session if there is one. The next use opens another."""
        if self._plain is not None:
            self._plain.close()

    def hang_up(self) -> None:
        """Cut the connection, from any thread, so that everything waiting for an answer fails."""
        plain = self._plain
        if plain is None or plain.closed:
            return
        log.warning("the database server has not answered for too long: closing the connection")
        with suppress(OSError, psycopg.Error):  # the connection is already closed
            end = socket.socket(fileno=plain.fileno())
            try:
                end.shutdown(socket.SHUT_RDWR)
            finally:
                end.detach()  # the descriptor belongs to psycopg

    def stop(self) -> None:
        """Stop waiting for the server: callers that wait get `DatabaseAway`."""
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
