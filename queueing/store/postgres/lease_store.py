"""PostgresLeases: leases in a table, measured by the server's clock.

A holder also has an advisory lock, which ends with its session: when a process ends, its successor
need not wait for the lease to expire. The lock's key contains the epoch, so that a holder which was
frozen for long cannot block its successor. The lease and the epoch alone are sufficient for safety.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import psycopg

from queueing.core.errors import StoreError
from queueing.core.leases import About, Leader, LeaderInfo, Lease, nothing
from queueing.store.postgres.failures import explain, is_away
from queueing.store.postgres.lease_session import CHANNEL, Application, Confirmed, Key, LeaseSession
from queueing.store.postgres.session import connect, local_host, read_address

if TYPE_CHECKING:
    from queueing.store.postgres.connection import Plain

T = TypeVar("T")


class PostgresLeases:
    """`LeaseStore` on a server, over a separate session. A second session listens for freed roles.

    `quick` enables locks and notifications. Without them, a successor waits until the lease has
    expired and its next poll. Every call runs in a thread, and a cancelled call continues there.
    Roles that are requested at the same time are read together.
    """

    def __init__(
        self,
        url: str,
        *,
        process: str,
        lease_s: float,
        quick: bool = True,
        compared: Callable[[float], None] = lambda _off_s: None,
    ) -> None:
        """Create it; `compared` is called with how far the server's clock is ahead, in seconds."""
        self._address = read_address(url)
        self._process = process
        self._lease_s = lease_s
        self._quick = quick
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="roles")
        self._hearing = ThreadPoolExecutor(1, thread_name_prefix="roles-freed")
        self._session: LeaseSession | None = None
        self._listener: Plain | None = None
        self._listening: asyncio.Future[None] | None = None
        self._locked: set[Key] = set()
        self._confirmed = Confirmed()
        self._compared = compared
        self._asked: list[Application] = []
        self._taking: asyncio.Future[None] | None = None
        self._speaking = False
        self._stopping = threading.Event()

    async def take(self, name: str, *, address: str, about: About = nothing) -> Lease | None:
        """Take a role if it is free or its lease has expired. Raises `StoreError`."""
        asked = Application(name, address, about)
        self._asked.append(asked)
        try:
            await asyncio.sleep(0)  # lets all requests of this moment arrive
            while not asked.done:
                if self._taking is None or self._taking.done():
                    self._taking = asyncio.ensure_future(self._call(self._take_asked))
                taking = self._taking
                await asyncio.wait({taking})
                taking.result()
        finally:
            self._asked.remove(asked)
        return asked.lease

    async def renew(self, lease: Lease) -> bool:
        """Extend a lease. Returns False if it was lost. Raises `StoreError`."""
        return await self._call(lambda session: session.renew(lease))

    def intact(self, lease: Lease) -> bool:
        """Return at once whether the session that guards a role is alive, or not needed."""
        session = self._session
        if session is None:
            return not self._quick
        return session.intact(lease, speaking=self._speaking)

    async def free(self, lease: Lease, *, in_order: bool = True) -> None:
        """Give up a role. Raises `StoreError`; the lock is then not taken again on reconnecting."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._calls, self._free, lease, in_order)

    async def holders(self) -> Sequence[Leader]:
        """Return every role that was ever held, by name. Raises `StoreError`."""
        return await self._call(LeaseSession.holders)

    async def introductions(self) -> Sequence[LeaderInfo]:
        """Return every held role, with what its holder published. Raises `StoreError`."""
        return await self._call(LeaseSession.introductions)

    async def introduce(self, role: Leader, about: str) -> None:
        """Replace what a role's holder publishes. Raises `StoreError`."""
        await self._call(lambda session: session.introduce(role, about))

    async def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a role's holder. Raises `StoreError`."""
        return await self._call(lambda session: session.secret(name, epoch))

    async def local_host(self) -> str:
        """Return the address from which this machine reaches the server. Raises `StoreError`.

        It is 127.0.0.1 if the server is reached through a Unix socket.
        """
        return await self._call(lambda session: local_host(session.plain))

    async def freed(self, within_s: float) -> None:
        """Wait until a role may have become free, for at most `within_s`. Wakes all who wait."""
        if not self._quick:
            await asyncio.sleep(within_s)
            return
        if self._listening is None or self._listening.done():
            loop = asyncio.get_running_loop()
            self._listening = loop.run_in_executor(self._hearing, self._hear, within_s)
        await asyncio.wait({self._listening}, timeout=within_s)

    async def aclose(self) -> None:
        """Close the sessions. Roles still held become free as after a crash. Idempotent."""
        self._stopping.set()
        for pool in (self._calls, self._hearing):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._end)

    # ------------------------------------------------------------ in the thread

    async def _call(self, work: Callable[[LeaseSession], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._calls, self._tried, work)

    def _tried(self, work: Callable[[LeaseSession], T]) -> T:
        """Do work over the session. Retries once over a new session if the old one is lost.

        Raises `StoreError`.
        """
        known = self._session
        self._speaking = True
        try:
            if self._session is None:
                self._session = self._begin()
            return self._run(work, self._session)
        except psycopg.Error as error:
            if is_away(error):  # other failures leave the session and its locks intact
                self._drop()
                if known is not None:
                    return self._tried(work)
            explained = explain(error)
            if isinstance(explained, StoreError):
                raise explained from error
            raise StoreError(str(error)) from error
        finally:
            self._speaking = False
            if self._stopping.is_set() and self._session is not None:
                self._session.plain.close()  # it may have begun after `aclose`

    def _run(self, work: Callable[[LeaseSession], T], session: LeaseSession) -> T:
        result = work(session)
        self._compared(self._confirmed.off_s)
        return result

    def _free(self, lease: Lease, in_order: bool) -> None:
        try:
            self._tried(lambda session: session.free(lease, in_order=in_order))
        except StoreError:  # without the lock, others need not wait for the lease to expire
            self._locked.discard((lease.name, lease.epoch))
            raise

    def _drop(self) -> None:
        """Close the session. Its locks end with it, but the leases remain."""
        if self._session is not None:
            self._locked = self._session.locked
            self._session.plain.close()
            self._session = None

    def _begin(self) -> LeaseSession:
        plain = connect(self._address)
        ms = max(1, round(self._lease_s * 1000))
        try:
            for name, most_ms in (
                ("statement_timeout", ms),
                ("lock_timeout", max(1, ms // 10)),  # leases of other roles must be renewed in time
                ("idle_in_transaction_session_timeout", max(1, ms // 3)),
                ("idle_session_timeout", ms),  # frees the lock of a process that went silent
                ("tcp_user_timeout", ms),
            ):
                plain.execute(f"SET {name} = {most_ms}")
            return LeaseSession(
                plain,
                process=self._process,
                lease_s=self._lease_s,
                locks=self._quick,
                locked=self._locked,
                confirmed=self._confirmed,
            )
        except BaseException:
            plain.close()
            raise

    def _take_asked(self, session: LeaseSession) -> None:
        session.take_all([each for each in tuple(self._asked) if not each.done])

    def _hear(self, within_s: float) -> None:
        """Wait until a role is freed, for at most `within_s`."""
        try:
            if self._listener is None or self._listener.closed:
                self._listener = connect(self._address)
                self._listener.execute(f"LISTEN {CHANNEL}")
            if not self._stopping.is_set():
                any(True for _ in self._listener.notifies(timeout=within_s, stop_after=1))
        except (psycopg.Error, StoreError):
            self._stopping.wait(within_s)
        finally:
            if self._stopping.is_set() and self._listener is not None:
                self._listener.close()

    def _end(self) -> None:
        if self._session is not None:
            self._session.plain.close()
        if self._listener is not None:
            self._listener.close()
