"""What a process does with leases over one session, and the locks that end with it."""

import logging
import secrets
import select
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from queueing.core.leases import About, Leader, LeaderInfo, Lease
from queueing.core.ports import is_off, off_in_words
from queueing.store.postgres import lease_reader
from queueing.store.postgres.connection import Plain

log = logging.getLogger(__name__)

CHANNEL = "usher_roles"
_KEY = "hashtext('usher ' || current_schema() || ' ' || $1::text)"
_MAKE = (
    "INSERT INTO roles (name, holder, address, epoch, until) VALUES ($1, '', '', 0, 0)"
    " ON CONFLICT (name) DO NOTHING"
)
# clock_timestamp(), because now() is the start of the transaction
_LOOK = (
    "SELECT name, epoch, holder = '' OR until <= extract(epoch FROM clock_timestamp()),"
    " holder = '', (SELECT reserved FROM deleted_jobs), address FROM roles WHERE name = ANY($1)"
)
_TRY_LOCKS = (
    "SELECT name, epoch,"
    " pg_try_advisory_lock(hashtext('usher ' || current_schema() || ' ' || name), epoch)"
    " FROM unnest($1::text[], $2::int[]) AS held (name, epoch)"
)
_UNLOCK = f"SELECT pg_advisory_unlock({_KEY}, $2::int)"
_SEIZE = "SELECT 1 FROM roles WHERE name = $1 AND epoch = $2 FOR UPDATE NOWAIT"
_TAKE = (
    "UPDATE roles SET holder = $2, address = $3, epoch = epoch + 1,"
    " until = extract(epoch FROM clock_timestamp()) + $4, about = $7"
    " WHERE name = $1 AND epoch = $5"
    " AND ($6::bigint = 1 OR holder = '' OR until <= extract(epoch FROM clock_timestamp()))"
    " RETURNING epoch"
)
_HIDE = (
    "INSERT INTO lease_secrets (name, epoch, secret) VALUES ($1, $2, $3)"
    " ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, secret = excluded.secret"
)
_RENEW = (
    "UPDATE roles SET until = extract(epoch FROM clock_timestamp()) + $3"
    " WHERE name = $1 AND epoch = $2 AND holder = $4 RETURNING (SELECT reserved FROM deleted_jobs)"
)
_FREE = (
    "UPDATE roles SET holder = CASE WHEN $4::bigint = 1 THEN '' ELSE holder END, until = 0"
    " WHERE name = $1 AND epoch = $2 AND holder = $3"
)
_INTRODUCE = "UPDATE roles SET about = $4 WHERE name = $1 AND epoch = $2 AND holder = $3"
_TELL = "SELECT pg_notify($1, $2)"
_END_SILENT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user"
    " AND state = 'active' AND wait_event = 'ClientRead'"
    " AND state_change < clock_timestamp() - $1 * interval '1 second'"
)
_HOLDERS = (
    "SELECT name, holder, address, epoch,"
    " greatest(0, until - extract(epoch FROM clock_timestamp()))::float8 FROM roles ORDER BY name"
)
_REVEAL = "SELECT secret FROM lease_secrets WHERE name = $1 AND epoch = $2"

SILENT_S = 2.0
"""How long a session may be silent inside a pipeline while another one waits for its role."""

COMES_BACK_S = 0.75
"""How long a lock is left to a holder whose session broke.

Must be longer than `bot.app.cluster.leases.DOUBT_S`.
"""

CALL_S, CALL_EVERY_S = 0.3, 1.0
"""Timeout and interval of calls to a holder without a session.

Short, because leases must be renewed in the meantime.
"""

COMPARE_EVERY_S = 2.0
"""The shortest interval between two comparisons of the clocks."""

Key = tuple[str, int]
"""A role's name and the epoch of its lock."""


@dataclass
class Application:
    """A request for a role, and its outcome."""

    name: str
    address: str
    about: About
    done: bool = False
    lease: Lease | None = None


@dataclass
class Confirmed:
    """The state that the database has confirmed. If it later reports less, it has lost commits.

    `epochs` has the highest epoch of each role, and `numbers` is the highest reserved job id.
    `lower` are the roles whose epoch has fallen since they were last taken here. `off_s` is how far
    the server's clock is ahead, in seconds.
    """

    epochs: dict[str, int] = field(default_factory=dict)
    numbers: int = 0
    lower: set[str] = field(default_factory=set)
    off_s: float = 0.0
    compared_at: float = -COMPARE_EVERY_S

    def compare(self, plain: Plain) -> bool:
        """Compare the clocks, at intervals. Returns whether they agree enough to hold a role."""
        now = time.monotonic()
        if now - self.compared_at >= COMPARE_EVERY_S:
            self.compared_at, was_off = now, is_off(self.off_s)
            self.off_s = lease_reader.clock_off_s(plain)
            if is_off(self.off_s) and not was_off:
                log.error("this process takes no role: %s", off_in_words(self.off_s))
        return not is_off(self.off_s)

    def see(self, name: str, epoch: int) -> None:
        """Record the epoch of a role, and log an error if the database has lost commits."""
        known = self.epochs.get(name, 0)
        if epoch < known:
            self.lower.add(name)
            log.error(
                "the database has gone back in time: it has epoch %d of the role %s, and had epoch"
                " %d before; a standby without the last commits has taken over, or a backup was"
                " restored: jobs accepted since then may be lost",
                *(epoch, name, known),
            )
        self.epochs[name] = epoch

    def used(self, name: str, reserved: int, *, in_order: bool) -> int:
        """Return the highest job id that may be missing from the database, or 0 if none can.

        No id can be missing if the last holder stopped in order and the database has all that it
        wrote.
        """
        certain = in_order and self.numbers <= reserved and name not in self.lower
        return 0 if certain else max(self.numbers, reserved)


class _Seen(NamedTuple):
    """A role as read: whether it is free and was given up in order, and its holder's address."""

    epoch: int
    over: bool
    in_order: bool
    reserved: int
    address: str = ""


class LeaseSession:
    """The leases over one session. `locks` enables locks and notices; `process` is for people.

    `locked` are the locks of the previous session, which this one takes again at once. `confirmed`
    is what previous sessions have learned.
    """

    def __init__(
        self,
        plain: Plain,
        *,
        process: str,
        lease_s: float,
        locks: bool,
        locked: Collection[Key],
        confirmed: Confirmed,
    ) -> None:
        self.plain = plain
        self._process = process
        self._lease_s = lease_s
        self._locks = locks
        self._confirmed = confirmed
        self.locked = self._try(locked)
        self._renewed: set[Key] = set()  # or taken, since this session began
        self._left_since: dict[Key, float] = {}
        self._called: dict[str, float] = {}  # by address: when its holder was last called

    def take_all(self, asked: Sequence[Application]) -> None:
        """Decide requests for roles. All roles are read together, and none is waited for."""
        if not self._confirmed.compare(self.plain):
            for each in asked:
                each.done = True
            return
        seen = self._look({each.name for each in asked})
        gone = self._try(
            (name, epoch)
            for name, (epoch, over, *_) in seen.items()
            if not over and (name, epoch) not in self.locked
        )
        left = self._left_for_good({(name, seen[name].epoch) for name in seen}, gone)
        try:
            for each in asked:
                role = seen[each.name]
                if role.over or ((each.name, role.epoch) in left and self._is_gone(each, role)):
                    each.lease = self._take(each, role)
                each.done = True
        finally:
            for key in gone if not self.plain.closed else ():
                self.plain.execute(_UNLOCK, key)

    def _is_gone(self, asked: Application, role: _Seen) -> bool:
        """Return whether the holder of an abandoned lock has certainly ended.

        The server may have ended the session of a holder that is cut off but alive, and that keeps
        working until its lease expires. The holder has ended if nobody listens at its address, or
        if the address is this process's. Without an address, the lost session counts as its end.
        """
        if role.address in {"", asked.address}:
            return True
        now = time.monotonic()
        if now - self._called.get(role.address, -CALL_EVERY_S) < CALL_EVERY_S:
            return False
        self._called[role.address] = now
        return _refuses(role.address)

    def _left_for_good(self, looked_at: Collection[Key], gone: Collection[Key]) -> set[Key]:
        """Return the locks without a session for so long that their holders will not come back.

        A holder whose session breaks either takes its lock again over a new session or stops in
        time.
        """
        now = time.monotonic()
        for key in looked_at:
            if key in gone:
                self._left_since.setdefault(key, now)
            else:
                self._left_since.pop(key, None)
        return {key for key in gone if now - self._left_since[key] >= COMES_BACK_S}

    def intact(self, lease: Lease, *, speaking: bool) -> bool:
        """Return whether this session is alive and holds the lock of a role that it has confirmed.

        Unless a call is in progress (`speaking`), any data from the server means that the session
        has ended.
        """
        if not self._locks:
            return True
        key = (lease.name, lease.epoch)
        if key not in self.locked or key not in self._renewed or self.plain.closed:
            return False
        return speaking or not _has_data(self.plain)

    def renew(self, lease: Lease) -> bool:
        """Extend a lease. Returns False if it was lost or the clocks disagree."""
        if not self._confirmed.compare(self.plain):
            return False
        key = (lease.name, lease.epoch)
        given = [*key, self._lease_s, lease.holder]
        row = self.plain.execute(_RENEW, given).fetchone()
        if row is None:
            self._look({lease.name})
            return False
        self._confirmed.numbers = max(self._confirmed.numbers, row[0])
        if key not in self.locked:
            self.locked |= self._try([key])  # the holder has reconnected
        self._renewed.add(key)
        return True

    def free(self, lease: Lease, *, in_order: bool) -> None:
        """Give up a role, if this process still holds it, and notify those who wait for it."""
        key = (lease.name, lease.epoch)
        with self.plain.transaction():
            freed = self.plain.execute(_FREE, [*key, lease.holder, int(in_order)]).rowcount
            if freed and self._locks:
                self.plain.execute(_TELL, [CHANNEL, lease.name])
        self._unlock(key)

    def holders(self) -> Sequence[Leader]:
        """Return every role."""
        self._confirmed.compare(self.plain)
        rows = self.plain.execute(_HOLDERS).fetchall()
        return [_holder(row) for row in rows]

    def introductions(self) -> Sequence[LeaderInfo]:
        """Return every held role, with what its holder published."""
        return lease_reader.introductions(self.plain)

    def introduce(self, role: Leader, about: str) -> None:
        """Replace what a role's holder publishes, if it still holds the role."""
        self.plain.execute(_INTRODUCE, [role.name, role.epoch, role.holder, about])

    def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a role's holder, or None for another epoch."""
        row = self.plain.execute(_REVEAL, [name, epoch]).fetchone()
        return None if row is None else bytes(row[0])

    def _look(self, names: Collection[str]) -> Mapping[str, _Seen]:
        """Read each role before taking any."""
        rows = self.plain.execute(_LOOK, [list(names)]).fetchall()
        seen = {name: _Seen(*found) for name, *found in rows}
        for name in names - seen.keys():
            self.plain.execute(_MAKE, [name])
            seen[name] = _Seen(epoch=0, over=True, in_order=True, reserved=0)
        for name, role in seen.items():
            self._confirmed.see(name, role.epoch)
            self._confirmed.numbers = max(self._confirmed.numbers, role.reserved)
        return seen

    def _take(self, asked: Application, role: _Seen) -> Lease | None:
        epoch = role.epoch
        try:
            with self.plain.transaction():
                if self.plain.execute(_SEIZE, [asked.name, epoch]).fetchone() is None:
                    return None
                lease = self._take_over(asked, role)
        except psycopg.Error as error:
            self._unlock((asked.name, epoch + 1))  # a lock outlives its transaction
            if isinstance(error, errors.LockNotAvailable):
                # The holder is inside a transaction, perhaps frozen. The server's timeouts do not
                # apply in a pipeline, where the session counts as active between statements.
                self.plain.execute(_END_SILENT, [SILENT_S])
                return None
            raise
        if lease is not None:
            self._confirmed.epochs[asked.name] = lease.epoch
            self._confirmed.lower.discard(asked.name)
        return lease

    def _take_over(self, asked: Application, role: _Seen) -> Lease | None:
        name, secret = asked.name, secrets.token_bytes(32)
        given = [name, self._process, asked.address, self._lease_s, role.epoch, int(not role.over)]
        row = self.plain.execute(_TAKE, [*given, asked.about(secret)]).fetchone()
        if row is None:
            return None
        taken = int(row[0])
        self.locked |= self._try([(name, taken)])
        self._renewed.add((name, taken))
        self.plain.execute(_HIDE, [name, taken, secret])
        used = self._confirmed.used(name, role.reserved, in_order=role.in_order)
        return Lease(
            name=name,
            epoch=taken,
            holder=self._process,
            lease_s=self._lease_s,
            secret=secret,
            numbers_used=used,
        )

    def _unlock(self, key: Key) -> None:
        """Release a lock if it is held."""
        if key in self.locked:
            self.locked.discard(key)
            if not self.plain.closed:
                self.plain.execute(_UNLOCK, key)

    def _try(self, keys: Iterable[Key]) -> set[Key]:
        """Take those locks that no session holds. Returns them."""
        wanted = list(keys)
        if not wanted or not self._locks:
            return set()
        names, epochs = [name for name, _ in wanted], [epoch for _, epoch in wanted]
        rows = self.plain.execute(_TRY_LOCKS, [names, epochs]).fetchall()
        return {(name, int(epoch)) for name, epoch, locked in rows if locked}


def _refuses(address: str) -> bool:
    """Return whether connections to an address are refused, because nobody listens there."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CALL_S):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # perhaps unreachable from here too
        return False


def _has_data(plain: Plain) -> bool:
    ready = select.poll()
    try:
        ready.register(plain.fileno(), select.POLLIN)
    except psycopg.Error:  # it was closed just now
        return True
    return bool(ready.poll(0))


def _holder(row: Sequence[Any]) -> Leader:
    name, holder, address, epoch, left_s = row
    return Leader(name=name, holder=holder, address=address, epoch=epoch, left_s=left_s)
