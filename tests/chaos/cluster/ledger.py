"""What each process wrote, as recorded by the trial's triggers in the database.

Nothing here depends on the fence: a process is identified by the address it calls from, and the
order of transactions is the server's own (`track_commit_timestamp`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tests.fakes.programs.postgres_server import PostgresServer

SETTINGS = ("track_commit_timestamp=on", "synchronous_commit=on")
QUEUE = "queue"
_NOTE = """
CREATE FUNCTION chaos.{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.changes (xid, who, port, what, job, platform, state, attempt) VALUES
    (pg_current_xact_id(), host(inet_client_addr()), inet_client_port(), TG_TABLE_NAME, {values});
    RETURN NULL;
END $$
"""
_WATCH = """
CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON {table}
FOR EACH ROW EXECUTE FUNCTION chaos.{name}()
"""
_OF_JOB = "(SELECT reply_to::json ->> 'platform' FROM jobs WHERE id = NEW.job_id)"
_TABLES: Mapping[str, str] = {
    "jobs": "NEW.id, '', NEW.state, NEW.attempt",
    "messages": "NEW.job_id, NEW.platform, '', 0",
    "deliveries": f"NEW.job_id, {_OF_JOB}, NEW.state, 0",
    "web_messages": "NULL, 'web', '', 0",
}
INSTALL = (
    "CREATE SCHEMA chaos",
    """
    CREATE TABLE chaos.changes (
        n bigserial PRIMARY KEY, xid xid8, who text, port int, what text, job bigint,
        platform text, state text, attempt bigint
    )
    """,
    """
    CREATE TABLE chaos.terms (
        n bigserial PRIMARY KEY, xid xid8, who text, role text, epoch bigint, held boolean
    )
    """,
    """
    CREATE FUNCTION chaos.note_term() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' OR OLD.epoch <> NEW.epoch OR OLD.holder <> NEW.holder THEN
            INSERT INTO chaos.terms (xid, who, role, epoch, held) VALUES
            (pg_current_xact_id(), host(inet_client_addr()), NEW.name, NEW.epoch, NEW.holder <> '');
        END IF;
        RETURN NULL;
    END $$
    """,
    _WATCH.format(table="roles", name="note_term"),
    *(_NOTE.format(name=f"note_{table}", values=values) for table, values in _TABLES.items()),
    *(_WATCH.format(table=table, name=f"note_{table}") for table in _TABLES),
)
_AT = "extract(epoch FROM pg_xact_commit_timestamp(xid::xid))::float8"
_TERMS = f"SELECT {_AT}, n, who, role, epoch, held FROM chaos.terms WHERE epoch > 0"
_CHANGES = f"SELECT {_AT}, n, who, port, what, job, platform, state, attempt FROM chaos.changes"


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """The moment from which a process holds a role under an epoch, or no longer holds it."""

    at: float
    n: int
    who: str
    role: str
    epoch: int
    held: bool


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A row that a transaction wrote, and when it was committed."""

    at: float
    n: int
    who: str
    port: int
    what: str
    job: int | None
    platform: str
    state: str
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """A process called a chat, or answered a visitor of the page; `at` is UNIX seconds."""

    at: float
    who: str
    platform: str
    what: str


T = TypeVar("T", Change, Heard)


@dataclass(kw_only=True)
class Ledger:
    """All changes and terms, in the order of their commits."""

    terms: Sequence[Term]
    changes: Sequence[Change]

    @classmethod
    def read(cls, server: PostgresServer, database: str) -> "Ledger":
        """Read everything that was recorded."""
        terms = [Term(*row) for row in server.sql(_TERMS, database=database)]
        changes = [Change(*row) for row in server.sql(_CHANGES, database=database)]
        return cls(terms=sorted(terms), changes=sorted(changes))

    def two_writers(self) -> Iterator[str]:
        """Yield a sentence for each row written under an epoch after the next one began."""
        now: dict[str, Term] = {}
        began: dict[tuple[str, int, str], int] = {}
        for each in _in_order(self.terms, self.changes):
            if isinstance(each, Term):
                now[each.role] = each
                continue
            term = now.get(self._post_of(each.platform))
            if term is None:
                continue
            if term.who != each.who:
                yield f"{each.who} wrote {each} though {term} had begun"
                continue
            first = began.setdefault((each.who, each.port, term.role), term.epoch)
            if first != term.epoch:
                yield f"a session of epoch {first} wrote {each} in {term}"

    def two_listeners(self, heard: Sequence[Heard]) -> Iterator[str]:
        """Yield a sentence for each call of a process that did not hold its chat's role."""
        now: dict[str, Term] = {}
        for each in _in_order(self.terms, heard):
            if isinstance(each, Term):
                now[each.role] = each
                continue
            term = now.get(self._post_of(each.platform))
            if term is None or not term.held or term.who != each.who:
                yield f"{each} while {term}"

    @cached_property
    def _roles(self) -> frozenset[str]:
        return frozenset(term.role for term in self.terms)

    def _post_of(self, platform: str) -> str:
        """Return the role for a platform's duty."""
        return platform if platform in self._roles else QUEUE

    def next_change(self, after: float, victim: str) -> float | None:
        """Return when the next holder of the queue first changed a job, if the victim lost it."""
        for term in self.terms:
            if term.role == QUEUE and term.held and term.at > after and term.who != victim:
                return next(
                    (
                        change.at
                        for change in self.changes
                        if change.at >= term.at and change.what == "jobs" and change.who == term.who
                    ),
                    None,
                )
        return None

    def moments(self) -> dict[int, tuple[float, float | None]]:
        """Return when each job was accepted and when it was last started, by the server's clock."""
        found: dict[int, tuple[float, float | None]] = {}
        attempts: dict[int, int] = {}
        for change in self.changes:
            if change.what != "jobs" or change.job is None:
                continue
            accepted_at, started_at = found.get(change.job, (change.at, None))
            if change.state == "processing" and attempts.get(change.job) != change.attempt:
                attempts[change.job], started_at = change.attempt, change.at
            found[change.job] = accepted_at, started_at
        return found


def _in_order(terms: Sequence[Term], others: Sequence[T]) -> Sequence[Term | T]:
    entries: list[Term | T] = []
    entries.extend(terms)
    entries.extend(others)
    return sorted(entries, key=lambda entry: entry.at)
