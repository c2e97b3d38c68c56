"""Turns PostgreSQL's errors into texts that explain what the operator can do."""

import re

import psycopg
from psycopg import errors

from queueing.core.errors import StoreError
from queueing.store.sql.database import Damaged, DatabaseAway, DiskFull

FULL = "the database server's disk is full: make room there; nothing is lost meanwhile"
AWAY = "the database server does not answer: nothing new is accepted until it does"

_TEXTS: dict[str, str] = {
    "25006": "the database takes no changes: name the primary server, not a stand-by",
    "28000": "the database server does not let this account in: look at its pg_hba.conf",
    "28P01": "the database server refuses the password: correct it in `database`",
    "3D000": "there is no such database on the server: create it, or name another",
    "42501": "the account may not do what Usher needs: make it the owner of the database",
    "42P01": "a table of the database is gone: restore the newest backup",
    "53200": "the database server is out of memory: look at its log",
    "53300": "the database server has no connection left: raise its max_connections",
    "57014": "the database server took too long: look at what else it does",
}
_DAMAGE = frozenset({"XX001", "XX002"})
_AGAIN = frozenset({"40001", "40P01", "55P03", "0A000", "23503", "23505"})
"""Another transaction was in the way, or the tables changed under a prepared statement.

What it made or deleted meanwhile is seen when the transaction is repeated.
"""

_SAID = (  # libpq has no codes for what happens before a session: these are the server's words
    ("password authentication failed", _TEXTS["28P01"]),
    ("no password supplied", "the database server wants a password: set it in `database`"),
    ("pg_hba.conf", _TEXTS["28000"]),
    ("authentication failed", _TEXTS["28000"]),
    ("is not permitted to log in", _TEXTS["28000"]),
    ("permission denied for database", _TEXTS["42501"]),
    ("does not exist", "there is no such database or account on the server: create it"),
    ("too many", _TEXTS["53300"]),
    ("remaining connection slots", _TEXTS["53300"]),
    ("could not translate host name", "no server has that name: correct `database`"),
    ("Name or service not known", "no server has that name: correct `database`"),
    ("failed to resolve host", "no server has that name: correct `database`"),
    ("SSL", "the database server and Usher do not agree on encryption: see its sslmode"),
    ("certificate", "the database server's certificate is not trusted: see its sslmode"),
)

_HOST = re.compile(r"^- host: '([^']*)', port: .*?: connection failed: (.*)$", re.MULTILINE)
_PASSES = ("starting up", "shutting down", "recovery", "not accepting", "not yet accepting")


def explain(error: Exception) -> Exception:
    """Return a `StoreError` for an error of the engine, anything else unchanged."""
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
        explained = StoreError(f"the database server has a trouble of its own: {said}")
    else:
        return error
    explained.__cause__ = error
    return explained


def sentence(error: Exception) -> str:
    """Return an error in one line, whatever it is."""
    explained = explain(error)
    return _first_line(explained) if isinstance(explained, psycopg.Error) else str(explained)


def explain_refusal(error: psycopg.Error) -> StoreError:
    """Return why no session could be had; a server that may answer later is `DatabaseAway`."""
    said = _each_host(error)
    known = explain(error) if error.sqlstate is not None else error
    if isinstance(known, StoreError):
        return known
    for words, advice in _SAID:
        if words in str(error):
            return StoreError(f"{advice} ({said})")
    if "FATAL:" in str(error) and not any(words in str(error) for words in _PASSES):
        return StoreError(f"the database server does not let Usher in ({said})")
    return DatabaseAway(f"{AWAY} ({said})")


def is_away(error: Exception) -> bool:
    """Return whether the session is gone, or the server stops or starts."""
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code[:2] == "08" or code in {"57P01", "57P02", "57P03", "57P05", "25P03"}


def may_be_repeated(error: Exception) -> bool:
    """Return whether the same transaction can succeed at once if it is run again."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _AGAIN


def _each_host(error: psycopg.Error) -> str:
    """Return what each host of an address said, where there are several; else what the one did."""
    found = dict.fromkeys(": ".join(each) for each in _HOST.findall(str(error)))
    return "; ".join(found) or _first_line(error)


def _first_line(error: psycopg.Error) -> str:
    """Return what the server or libpq said, without where in the statement, nor any value."""
    said = error.diag.message_primary or str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
