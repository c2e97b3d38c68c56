"""What a process does about posts over one session, and the locks that go with it."""

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

CHANNEL = "usher_posts"
_KEY = "hashtext('usher ' || current_schema() || ' ' || $1::text)"
_MAKE = (
    "INSERT INTO posts (name, holder, address, epoch, until) VALUES ($1, '', '', 0, 0)"
    " ON CONFLICT (name) DO NOTHING"
)
# clock_timestamp(): now() is when the transaction began
_LOOK = (
    "SELECT name, epoch, holder = '' OR until <= extract(epoch FROM clock_timestamp()),"
    " holder = '', (SELECT reserved FROM deleted_jobs), address FROM posts WHERE name = ANY($1)"
)
_TRY_LOCKS = (
    "SELECT name, epoch,"
    " pg_try_advisory_lock(hashtext('usher ' || current_schema() || ' ' || name), epoch)"
    " FROM unnest($1::text[], $2::int[]) AS held (name, epoch)"
)
_UNLOCK = f"SELECT pg_advisory_unlock({_KEY}, $2::int)"
_SEIZE = "SELECT 1 FROM posts WHERE name = $1 AND epoch = $2 FOR UPDATE NOWAIT"
_TAKE = (
    "UPDATE posts SET holder = $2, address = $3, epoch = epoch + 1,"
    " until = extract(epoch FROM clock_timestamp()) + $4, about = $7"
    " WHERE name = $1 AND epoch = $5"
    " AND ($6::bigint = 1 OR holder = '' OR until <= extract(epoch FROM clock_timestamp()))"
    " RETURNING epoch"
)
_HIDE = (
    "INSERT INTO post_secrets (name, epoch, secret) VALUES ($1, $2, $3)"
    " ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, secret = excluded.secret"
)
_RENEW = (
    "UPDATE posts SET until = extract(epoch FROM clock_timestamp()) + $3"
    " WHERE name = $1 AND epoch = $2 AND holder = $4 RETURNING (SELECT reserved FROM deleted_jobs)"
)
_FREE = (
    "UPDATE posts SET holder = CASE WHEN $4::bigint = 1 THEN '' ELSE holder END, until = 0"
    " WHERE name = $1 AND epoch = $2 AND holder = $3"
)
_INTRODUCE = "UPDATE posts SET about = $4 WHERE name = $1 AND epoch = $2 AND holder = $3"
_TELL = "SELECT pg_notify($1, $2)"
_END_SILENT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user"
    " AND state = 'active' AND wait_event = 'ClientRead'"
    " AND state_change < clock_timestamp() - $1 * interval '1 second'"
)
_HOLDERS = (
    "SELECT name, holder, address, epoch,"
    " greatest(0, until - extract(epoch FROM clock_timestamp()))::float8 FROM posts ORDER BY name"
)
_REVEAL = "SELECT secret FROM post_secrets WHERE name = $1 AND epoch = $2"

SILENT_S = 2.0
"""How long a session may pause between statements sent together while another waits for a post."""

COMES_BACK_S = 0.75
"""How long a lock is left to a holder whose session broke; longer than `bot.app.cluster.leases.DOUBT_S`."""

CALL_S, CALL_EVERY_S = 0.3, 1.0
"""How long a holder without a session is called, and how often: leases are renewed meanwhile."""

COMPARE_EVERY_S = 2.0
"""How often the clocks are compared at most."""

Key = tuple[str, int]
"""A post's name and the epoch that a lock stands for."""


@dataclass
class Application:
    """A post that is applied for, and what became of it."""

    name: str
    address: str
    about: About
    done: bool = False
    lease: Lease | None = None


@dataclass
class Confirmed:
    """What the database had confirmed: less of it later means that it has gone back in time.

    `epochs` are the highest of each post, `numbers` the highest reserved job number. `lower` are the
    posts whose epoch has fallen since they were taken here. `off_s` is how far the server's clock is
    ahead.
    """

    epochs: dict[str, int] = field(default_factory=dict)
    numbers: int = 0
    lower: set[str] = field(default_factory=set)
    off_s: float = 0.0
    compared_at: float = -COMPARE_EVERY_S

    def compare(self, plain: Plain) -> bool:
        """Compare the clocks, now and then; return whether this machine's may hold a post."""
        now = time.monotonic()
        if now - self.compared_at >= COMPARE_EVERY_S:
            self.compared_at, was_off = now, is_off(self.off_s)
            self.off_s = lease_reader.clock_off_s(plain)
            if is_off(self.off_s) and not was_off:
                log.error("this process takes no post: %s", off_in_words(self.off_s))
        return not is_off(self.off_s)

    def see(self, name: str, epoch: int) -> None:
        """Note the epoch of a post, and report a database that has lost what it had confirmed."""
        known = self.epochs.get(name, 0)
        if epoch < known:
            self.lower.add(name)
            log.error(
                "the database has gone back in time: it knows the post %s up to epoch %d, and had"
                " %d before; a stand-by that lacked the last commits has taken over, or a backup was"
                " restored: jobs accepted since then may be lost",
                *(name, epoch, known),
            )
        self.epochs[name] = epoch

    def used(self, name: str, reserved: int, *, in_order: bool) -> int:
        """Return up to which number jobs may have been, unless those in the database are all.

        They are after a holder that stopped in order, in the database that it wrote.
        """
        certain = in_order and self.numbers <= reserved and name not in self.lower
        return 0 if certain else max(self.numbers, reserved)


class _Seen(NamedTuple):
    """A post as it was looked at: whether it is free, was given up in order, and its holder's address."""

    epoch: int
    over: bool
    in_order: bool
    reserved: int
    address: str = ""


class LeaseSession:
    """The posts over one session. `locks` allows locks and notices; `process` is for people.

    `locked` are the locks of the session before, which this one takes again at once. `confirmed` is
    what is known from before.
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
        self._called: dict[str, float] = {}  # when the holder at an address was called last

    def take_all(self, asked: Sequence[Application]) -> None:
        """Decide applications: all posts are looked at together, and none is waited for."""
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
                post = seen[each.name]
                if post.over or ((each.name, post.epoch) in left and self._is_gone(each, post)):
                    each.lease = self._take(each, post)
                each.done = True
        finally:
            for key in gone if not self.plain.closed else ():
                self.plain.execute(_UNLOCK, key)

    def _is_gone(self, asked: Application, post: _Seen) -> bool:
        """Return whether the holder of a lock that was left has ended for certain.

        The server may have ended the session of one that lives and is only cut off from it: it does
        its duty until its lease is over. Where it listened, nobody may listen any more, or this
        process. Nothing is known of one without an address but its session.
        """
        if post.address in {"", asked.address}:
            return True
        now = time.monotonic()
        if now - self._called.get(post.address, -CALL_EVERY_S) < CALL_EVERY_S:
            return False
        self._called[post.address] = now
        return _refuses(post.address)

    def _left_for_good(self, looked_at: Collection[Key], gone: Collection[Key]) -> set[Key]:
        """Return those locks that were without a session for so long that none comes back.

        A holder whose session broke takes its lock again over a new one, or stops in time.
        """
        now = time.monotonic()
        for key in looked_at:
            if key in gone:
                self._left_since.setdefault(key, now)
            else:
                self._left_since.pop(key, None)
        return {key for key in gone if now - self._left_since[key] >= COMES_BACK_S}

    def intact(self, lease: Lease, *, speaking: bool) -> bool:
        """Return whether this session holds the lock of a post that it found its own, and stands.

        While it is not `speaking`, the server sends nothing but its end.
        """
        if not self._locks:
            return True
        key = (lease.name, lease.epoch)
        if key not in self.locked or key not in self._renewed or self.plain.closed:
            return False
        return speaking or not _says_something(self.plain)

    def renew(self, lease: Lease) -> bool:
        """Prolong a lease; return False if it was lost, or the clock is not to be believed."""
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
            self.locked |= self._try([key])  # its holder's session is a new one
        self._renewed.add(key)
        return True

    def free(self, lease: Lease, *, in_order: bool) -> None:
        """Give a post up, if it is still held, and tell those who wait for it."""
        key = (lease.name, lease.epoch)
        with self.plain.transaction():
            freed = self.plain.execute(_FREE, [*key, lease.holder, int(in_order)]).rowcount
            if freed and self._locks:
                self.plain.execute(_TELL, [CHANNEL, lease.name])
        self._unlock(key)

    def holders(self) -> Sequence[Leader]:
        """Return every post."""
        self._confirmed.compare(self.plain)
        rows = self.plain.execute(_HOLDERS).fetchall()
        return [_holder(row) for row in rows]

    def introductions(self) -> Sequence[LeaderInfo]:
        """Return every post that is held now, with what its holder told."""
        return lease_reader.introductions(self.plain)

    def introduce(self, post: Leader, about: str) -> None:
        """Replace what is told of a post's holder, if it still holds the post."""
        self.plain.execute(_INTRODUCE, [post.name, post.epoch, post.holder, about])

    def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a post's holder."""
        row = self.plain.execute(_REVEAL, [name, epoch]).fetchone()
        return None if row is None else bytes(row[0])

    def _look(self, names: Collection[str]) -> Mapping[str, _Seen]:
        """Return what there is to know of each post before it is taken."""
        rows = self.plain.execute(_LOOK, [list(names)]).fetchall()
        seen = {name: _Seen(*found) for name, *found in rows}
        for name in names - seen.keys():
            self.plain.execute(_MAKE, [name])
            seen[name] = _Seen(epoch=0, over=True, in_order=True, reserved=0)
        for name, post in seen.items():
            self._confirmed.see(name, post.epoch)
            self._confirmed.numbers = max(self._confirmed.numbers, post.reserved)
        return seen

    def _take(self, asked: Application, post: _Seen) -> Lease | None:
        epoch = post.epoch
        try:
            with self.plain.transaction():
                if self.plain.execute(_SEIZE, [asked.name, epoch]).fetchone() is None:
                    return None
                lease = self._take_over(asked, post)
        except psycopg.Error as error:
            self._unlock((asked.name, epoch + 1))  # a lock outlives its transaction
            if isinstance(error, errors.LockNotAvailable):
                # Its holder is within a transaction, perhaps frozen. Between statements that are sent
                # together no time-out of the server counts: for it the session is at work.
                self.plain.execute(_END_SILENT, [SILENT_S])
                return None
            raise
        if lease is not None:
            self._confirmed.epochs[asked.name] = lease.epoch
            self._confirmed.lower.discard(asked.name)
        return lease

    def _take_over(self, asked: Application, post: _Seen) -> Lease | None:
        name, secret = asked.name, secrets.token_bytes(32)
        given = [name, self._process, asked.address, self._lease_s, post.epoch, int(not post.over)]
        row = self.plain.execute(_TAKE, [*given, asked.about(secret)]).fetchone()
        if row is None:
            return None
        taken = int(row[0])
        self.locked |= self._try([(name, taken)])
        self._renewed.add((name, taken))
        self.plain.execute(_HIDE, [name, taken, secret])
        used = self._confirmed.used(name, post.reserved, in_order=post.in_order)
        return Lease(
            name=name,
            epoch=taken,
            holder=self._process,
            lease_s=self._lease_s,
            secret=secret,
            numbers_used=used,
        )

    def _unlock(self, key: Key) -> None:
        """Give up a lock, if it is held."""
        if key in self.locked:
            self.locked.discard(key)
            if not self.plain.closed:
                self.plain.execute(_UNLOCK, key)

    def _try(self, keys: Iterable[Key]) -> set[Key]:
        """Take those locks that no session holds."""
        wanted = list(keys)
        if not wanted or not self._locks:
            return set()
        names, epochs = [name for name, _ in wanted], [epoch for _, epoch in wanted]
        rows = self.plain.execute(_TRY_LOCKS, [names, epochs]).fetchall()
        return {(name, int(epoch)) for name, epoch, locked in rows if locked}


def _refuses(address: str) -> bool:
    """Return whether a machine answers that nobody listens at an address of it."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CALL_S):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # cut off, perhaps, as the server was from it
        return False


def _says_something(plain: Plain) -> bool:
    ready = select.poll()
    try:
        ready.register(plain.fileno(), select.POLLIN)
    except psycopg.Error:  # it was closed at this moment
        return True
    return bool(ready.poll(0))


def _holder(row: Sequence[Any]) -> Leader:
    name, holder, address, epoch, left_s = row
    return Leader(name=name, holder=holder, address=address, epoch=epoch, left_s=left_s)
