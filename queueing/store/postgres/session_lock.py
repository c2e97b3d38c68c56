"""SessionLock: the locks of the writer's session. They show who may write and who is alive."""

import secrets

import psycopg

from queueing.core.errors import StoreError
from queueing.core.leases import Lease
from queueing.store.postgres.connection import Plain
from queueing.store.sql.database import Connection, Damaged, DatabaseAway

_LOCK = "1431521362, hashtext(coalesce(current_schema(), ''))"  # "USHR"; locks are per database
_RUN = 1431521364
_RUNS = (
    "SELECT objid::bigint::text FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND classid = ? AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_LOST = "SELECT pid FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
LEAST_S = 2.0  # a busy machine may pause for this long inside a transaction
LINGERING = "the database server has not ended the lost session yet"
TAKEN = "another Usher runs on this database: stop it first, or name another database"
TAKEN_OVER = (
    "another Usher took over this database while the server was away: jobs accepted here would"
    " conflict with it; stop one of them and start this one again"
)
REPLACED = (
    "the server came back with another database: new jobs would be lost; stop Usher and check what"
    " was restored"
)
POOLED = (
    "a pooler (pgbouncer, or a managed service's) shares one session among several clients: name"
    " the server's own address, or set its pool_mode to session"
)
LINGERS_TRIES = 10
"""At the start: the server may take a moment to notice that a session was closed."""


class SessionLock:
    """The writer's hold on a database: advisory locks that end with its session.

    It is called with each new session of the writer. A lost session that still holds the lock is
    terminated. With `shared`, several processes may hold the lock if all of them use `shared`. With
    a `lease`, its fence replaces the lock. `run` is a number that identifies this opening to other
    processes while the session is alive.
    """

    def __init__(self, lease: Lease | None = None, *, shared: bool = False) -> None:
        self.run = str(secrets.randbelow(2**31))
        self._lease = lease
        self._shared = shared
        self._database_id: str | None = None
        self._before: tuple[int, object] | None = None

    def __call__(self, plain: Plain) -> None:
        """Take the lock in a new session.

        Raises `StoreError` if another Usher has it. Raises `Damaged` if another Usher has taken it
        over, or if the server has another database than before.
        """
        if self._lease is None:
            self._lock(plain)
        else:
            _end_with_lease(plain, self._lease.lease_s)
        plain.execute(f"SELECT pg_try_advisory_lock_shared({_RUN}, {self.run})")
        if self._database_id is not None:
            row = plain.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()
            if row is None or row[0] != self._database_id:
                raise Damaged(REPLACED)

    def belongs_to(self, database_id: str) -> None:
        """Reject any other database from now on."""
        self._database_id = database_id

    def _lock(self, plain: Plain) -> None:
        if not self._shared:
            self._end_lost_session(plain)
        try_lock = "pg_try_advisory_lock_shared" if self._shared else "pg_try_advisory_lock"
        tries = LINGERS_TRIES if self._before is None else 1
        if not _is_soon_true(plain, f"SELECT {try_lock}({_LOCK})", tries):
            if self._before is None:
                raise StoreError(TAKEN)
            if plain.execute(_LOST, self._before).fetchone():
                raise DatabaseAway(LINGERING)
            raise Damaged(TAKEN_OVER)
        self._before = plain.execute(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()

    def _end_lost_session(self, plain: Plain) -> None:
        if self._before is None:
            return
        for (pid,) in plain.execute(_LOST, self._before).fetchall():
            plain.execute("SELECT pg_terminate_backend($1::int, 500)", (pid,))


def _end_with_lease(plain: Plain, lease_s: float) -> None:
    """Make the server end a silent session when its lease expires.

    Inside a transaction, the session locks the row of its role. A holder that is frozen or cut off
    there would otherwise block its successor for as long as its session lasts.
    """
    ms = round(max(lease_s, LEAST_S) * 1000)
    plain.execute(f"SET idle_in_transaction_session_timeout = {ms}")
    plain.execute(f"SET tcp_user_timeout = {ms}")


def living_runs(connection: Connection) -> frozenset[str]:
    """Return the `run` of each opening of this database whose session is alive."""
    return frozenset(row[0] for row in connection.execute(_RUNS, (_RUN,)))


def refuse_pooler(one: Plain, other: Plain) -> None:
    """Raise `StoreError` if two connections do not keep their own sessions between transactions."""
    mine = _pid(one)
    try:
        other.execute("BEGIN")
        changed = _pid(other) == mine or _pid(one) != mine
        other.execute("ROLLBACK")
    except (psycopg.errors.DuplicatePreparedStatement, psycopg.errors.ProtocolViolation):
        changed = True  # ProtocolViolation: pool_mode = statement has no transactions
    if changed:
        raise StoreError(POOLED)


def _pid(plain: Plain) -> object:
    row = plain.execute("SELECT pg_backend_pid()").fetchone()
    return None if row is None else row[0]


def _is_soon_true(plain: Plain, query: str, tries: int) -> bool:
    """Return whether a query returns true within `tries` attempts, a tenth of a second apart."""
    for again in range(tries):
        if again:
            plain.execute("SELECT pg_sleep(0.1)")
        if _is_true(plain, query):
            return True
    return False


def _is_true(plain: Plain, query: str) -> bool:
    row = plain.execute(query).fetchone()
    return row is not None and bool(row[0])
