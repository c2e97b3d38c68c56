"""PostgresPosts: who does what, in a table, in the server's time.

Beside its row a holder keeps an advisory lock, which goes with its session: when a process ends, the
next one need not wait for the lease. The lock's key contains the epoch, so that a holder that was
frozen for long cannot get in the way of its successor. Lease and epoch suffice without it.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
from psycopg import errors

from queueing.core.errors import StoreError
from queueing.core.posts import PostHolder, Tenure
from queueing.store.postgres.address import read_address
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.failures import explain, is_away
from queueing.store.postgres.session import connect, local_host

T = TypeVar("T")

CHANNEL = "usher_posts"
_KEY = "hashtext('usher ' || current_schema() || ' ' || $1::text)"
_MAKE = (
    "INSERT INTO posts (name, holder, address, epoch, until) VALUES ($1, '', '', 0, 0)"
    " ON CONFLICT (name) DO NOTHING"
)
# clock_timestamp(): now() is when the transaction began
_LOOK = (
    "SELECT epoch, holder = '' OR until <= extract(epoch FROM clock_timestamp())"
    " FROM posts WHERE name = $1"
)
_TRY_LOCK = f"SELECT pg_try_advisory_lock({_KEY}, $2::int)"
_LOCK = f"SELECT pg_advisory_lock({_KEY}, $2::int)"
_UNLOCK = f"SELECT pg_advisory_unlock({_KEY}, $2::int)"
_TAKE = (
    "UPDATE posts SET holder = $2, address = $3, epoch = epoch + 1,"
    " until = extract(epoch FROM clock_timestamp()) + $4"
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
    " WHERE name = $1 AND epoch = $2 AND holder <> ''"
)
_FREE = "UPDATE posts SET holder = '', until = 0 WHERE name = $1 AND epoch = $2"
_TELL = "SELECT pg_notify($1, $2)"
_HOLDERS = (
    "SELECT name, holder, address, epoch,"
    " greatest(0, until - extract(epoch FROM clock_timestamp()))::float8 FROM posts ORDER BY name"
)
_REVEAL = "SELECT secret FROM post_secrets WHERE name = $1 AND epoch = $2"


class PostgresPosts:
    """`Posts` on a server, over a session of its own; a second one hears of posts that are freed.

    `quick` allows locks and notices: without them a successor waits for the lease, and for its next
    look. Every call is made in a thread; one that is cancelled goes on there.
    """

    def __init__(self, url: str, *, process: str, lease_s: float, quick: bool = True) -> None:
        self._address = read_address(url)
        self._process = process
        self._lease_s = lease_s
        self._quick = quick
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="posts")
        self._hearing = ThreadPoolExecutor(1, thread_name_prefix="posts-freed")
        self._session: Plain | None = None
        self._listener: Plain | None = None
        self._locked: set[tuple[str, int]] = set()
        self._stopping = threading.Event()

    async def take(self, name: str, *, address: str) -> Tenure | None:
        """Take a post if it is free or its lease is over. Raises `StoreError`."""
        return await self._call(lambda plain: self._take(plain, name, address))

    async def renew(self, tenure: Tenure) -> bool:
        """Prolong a lease; return False if it was lost. Raises `StoreError`."""
        return await self._call(lambda plain: self._renew(plain, tenure))

    async def free(self, tenure: Tenure) -> None:
        """Give a post up. Raises `StoreError`."""
        await self._call(lambda plain: self._free(plain, tenure))

    async def holders(self) -> Sequence[PostHolder]:
        """Return every post that was ever held, by name. Raises `StoreError`."""
        return await self._call(_holders)

    async def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a post's holder. Raises `StoreError`."""
        return await self._call(lambda plain: _secret(plain, name, epoch))

    async def local_host(self) -> str:
        """Return the address from which this machine reaches the server. Raises `StoreError`.

        It is 127.0.0.1 where the server is reached over a file of this machine.
        """
        return await self._call(local_host)

    async def freed(self, within_s: float) -> None:
        """Wait until a post may have become free, at most that long."""
        began = asyncio.get_running_loop().time()
        heard = False
        if self._quick:
            loop = asyncio.get_running_loop()
            heard = await loop.run_in_executor(self._hearing, self._heard, within_s)
        left_s = began + within_s - asyncio.get_running_loop().time()
        if not heard and left_s > 0:
            await asyncio.sleep(left_s)

    async def aclose(self) -> None:
        """End the sessions; what is still held becomes free as with a crash. Idempotent."""
        self._stopping.set()
        for pool in (self._calls, self._hearing):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._end)

    # ------------------------------------------------------------ in the thread

    async def _call(self, work: Callable[[Plain], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._calls, self._tried, work)

    def _tried(self, work: Callable[[Plain], T]) -> T:
        """Do something over the session; once more over a new one if the old one was lost.

        Raises `StoreError`.
        """
        known = self._session
        try:
            if self._session is None:
                self._locked.clear()
                self._session = self._begin()
            return work(self._session)
        except psycopg.Error as error:
            self._drop()
            if is_away(error) and known is not None:
                return self._tried(work)
            explained = explain(error)
            if isinstance(explained, StoreError):
                raise explained from error
            raise StoreError(str(error)) from error

    def _drop(self) -> None:
        """End the session; its locks go with it, the leases remain."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _begin(self) -> Plain:
        session = connect(self._address)
        ms = max(1, round(self._lease_s * 1000))
        for name, most_ms in (
            ("statement_timeout", ms),
            ("lock_timeout", max(1, ms // 3)),
            ("idle_in_transaction_session_timeout", max(1, ms // 3)),
            ("idle_session_timeout", ms),  # frees the lock of a process that no longer speaks
            ("tcp_user_timeout", ms),
        ):
            session.execute(f"SET {name} = {most_ms}")
        return session

    def _take(self, plain: Plain, name: str, address: str) -> Tenure | None:
        plain.execute(_MAKE, [name])
        seen, over = plain.execute(_LOOK, [name]).fetchone() or (0, False)
        gone = not over and self._lock(plain, name, seen)
        try:
            if not over and not gone:
                return None
            given = [name, self._process, address, self._lease_s, seen, int(gone)]
            return self._take_over(plain, name, given)
        except errors.LockNotAvailable:  # its holder is frozen inside a transaction
            return None
        finally:
            if gone and not plain.closed:
                plain.execute(_UNLOCK, [name, seen])

    def _take_over(self, plain: Plain, name: str, given: Sequence[object]) -> Tenure | None:
        secret = secrets.token_bytes(32)
        with plain.transaction():
            row = plain.execute(_TAKE, given).fetchone()
            if row is None:
                return None
            epoch = int(row[0])
            if self._quick:
                plain.execute(_LOCK, [name, epoch])
                self._locked.add((name, epoch))
            plain.execute(_HIDE, [name, epoch, secret])
        return Tenure(name=name, epoch=epoch, secret=secret)

    def _lock(self, plain: Plain, name: str, epoch: int) -> bool:
        """Take the lock of an epoch; return whether its holder's session had left it."""
        if not self._quick or (name, epoch) in self._locked:
            return False
        row = plain.execute(_TRY_LOCK, [name, epoch]).fetchone()
        return row is not None and bool(row[0])

    def _renew(self, plain: Plain, tenure: Tenure) -> bool:
        name, epoch = tenure.name, tenure.epoch
        if plain.execute(_RENEW, [name, epoch, self._lease_s]).rowcount != 1:
            return False
        if self._lock(plain, name, epoch):
            self._locked.add((name, epoch))  # this session is a new one
        return True

    def _free(self, plain: Plain, tenure: Tenure) -> None:
        key = (tenure.name, tenure.epoch)
        with plain.transaction():
            freed = plain.execute(_FREE, key).rowcount
            if freed and self._quick:
                plain.execute(_TELL, [CHANNEL, tenure.name])
        if key in self._locked:
            plain.execute(_UNLOCK, key)
            self._locked.discard(key)

    def _heard(self, within_s: float) -> bool:
        """Return whether a post was freed within a time."""
        try:
            if self._listener is None or self._listener.closed:
                self._listener = connect(self._address)
                self._listener.execute(f"LISTEN {CHANNEL}")
            if self._stopping.is_set():
                return False
            return any(True for _ in self._listener.notifies(timeout=within_s, stop_after=1))
        except (psycopg.Error, StoreError):
            return False

    def _end(self) -> None:
        for each in (self._session, self._listener):
            if each is not None:
                each.close()


def _holders(plain: Plain) -> Sequence[PostHolder]:
    return [
        PostHolder(name=name, holder=holder, address=address, epoch=epoch, left_s=left_s)
        for name, holder, address, epoch, left_s in plain.execute(_HOLDERS).fetchall()
    ]


def _secret(plain: Plain, name: str, epoch: int) -> bytes | None:
    row = plain.execute(_REVEAL, [name, epoch]).fetchone()
    return None if row is None else bytes(row[0])
