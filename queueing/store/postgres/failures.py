"""Translates PostgreSQL's errors into texts that tell the operator what to do."""

import re

import psycopg
from psycopg import errors

from queueing.core.errors import StoreError
from queueing.store.sql.database import Damaged, DatabaseAway, DiskFull

FULL = "the database server's disk is full: free some space there; nothing is lost"
AWAY = "the database server does not answer: nothing new is accepted until it does"

_TEXTS: dict[str, str] = {
    "25006": "the database is read-only: name the primary server, not a standby",
    "28000": "the database server rejects this account: check its pg_hba.conf",
    "28P01": "the database server refuses the password: correct it in `database`",
    "3D000": "there is no such database on the server: create it, or name another",
    "42501": "the account lacks permissions: make it the owner of the database",
    "42P01": "a table of the database is missing: restore the newest backup",
    "53200": "the database server is out of memory: check its log",
    "53300": "the database server has no free connections: raise its max_connections",
    "57014": "the database server took too long: check what else it is doing",
}
_DAMAGE = frozenset({"XX001", "XX002"})
_AGAIN = frozenset({"40001", "40P01", "55P03", "0A000", "23503", "23505"})
"""A conflict with another transaction, or a table that changed under a prepared statement.

A repeated transaction sees what the other one has changed.
"""

_ADVICE_BY_TEXT = (  # before a session begins there are only texts, no error codes
    ("password authentication failed", _TEXTS["28P01"]),
    ("no password supplied", "the database server requires a password: set it in `database`"),
    ("pg_hba.conf", _TEXTS["28000"]),
    ("authentication failed", _TEXTS["28000"]),
    ("is not permitted to log in", _TEXTS["28000"]),
    ("permission denied for database", _TEXTS["42501"]),
    ("does not exist", "there is no such database or account on the server: create it"),
    ("too many", _TEXTS["53300"]),
    ("remaining connection slots", _TEXTS["53300"]),
    (
        "could not translate host name",
        "the server's name cannot be resolved: correct `database`",
    ),
    ("Name or service not known", "the server's name cannot be resolved: correct `database`"),
    ("failed to resolve host", "the server's name cannot be resolved: correct `database`"),
    ("SSL", "the database server and Usher do not agree on encryption: check sslmode"),
    ("certificate", "the database server's certificate is not trusted: check sslmode"),
)

_HOST = re.compile(r"^- host: '([^']*)', port: .*?: connection failed: (.*)$", re.MULTILINE)
_PASSES = ("starting up", "shutting down", "recovery", "not accepting", "not yet accepting")


def explain(error: Exception) -> Exception:
    """Return a `StoreError` for an error of PostgreSQL, and any other error unchanged."""
    if not isinstance(error, psycopg.Error):
        return error
    code = error.sqlstate
    said = _first_line(error)
    if isinstance(error, errors.DiskFull):
        explained: StoreError = DiskFull(FULL)
    elif is_away(error):
        explained = DatabaseAway(f"{AWAY} ({said})")
    elif code in _DAMAGE:
        explained = Damaged(f"the database is damaged: restore the newest backup ({said})")
    elif code in _TEXTS:
        explained = StoreError(f"{_TEXTS[code]} ({said})")
    elif code is not None and code[:2] in {"53", "57", "58", "XX"}:
        explained = StoreError(f"the database server failed: {said}")
    else:
        return error
    explained.__cause__ = error
    return explained


def sentence(error: Exception) -> str:
    """Return any error as a single line."""
    explained = explain(error)
    return _first_line(explained) if isinstance(explained, psycopg.Error) else str(explained)


def explain_refusal(error: psycopg.Error) -> StoreError:
    """Explain why no session could be opened. `DatabaseAway` if the server may answer later."""
    said = _each_host(error)
    known = explain(error) if error.sqlstate is not None else error
    if isinstance(known, StoreError):
        return known
    for words, advice in _ADVICE_BY_TEXT:
        if words in str(error):
            return StoreError(f"{advice} ({said})")
    if "FATAL:" in str(error) and not any(words in str(error) for words in _PASSES):
        return StoreError(f"the database server rejects the connection ({said})")
    return DatabaseAway(f"{AWAY} ({said})")


def is_away(error: Exception) -> bool:
    """Return whether the session is lost, or the server is starting or stopping."""
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code[:2] == "08" or code in {"57P01", "57P02", "57P03", "57P05", "25P03"}


def may_be_repeated(error: Exception) -> bool:
    """Return whether the same transaction may succeed if it is repeated at once."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _AGAIN


def _each_host(error: psycopg.Error) -> str:
    """Return the error of each host, if the address has several; otherwise the only one."""
    found = dict.fromkeys(": ".join(each) for each in _HOST.findall(str(error)))
    return "; ".join(found) or _first_line(error)


def _first_line(error: psycopg.Error) -> str:
    """Return the server's or libpq's message. It contains no position and no value."""
    said = error.diag.message_primary or str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
