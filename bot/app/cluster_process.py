"""One of several processes on a database: runs the queue, chats and API while it holds their roles.

The queue is one role and each chat another, so different processes may hold them. The chats and the
API of a process reach the queue over the process's connection to the leader, even if the same
process runs the queue.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace

from bot.app import assembly
from bot.app.app import chats_served, gateway_of
from bot.app.assembly import SharedParts
from bot.app.cluster.agreement import Agreement
from bot.app.cluster.leases import QUEUE, GivesWay, HeldLease, LeaseKeeper
from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.queue_server import QueueListener, QueueServer
from bot.app.cluster.remote_queue import RemoteQueue
from bot.app.local_queue import open_queue, serving
from bot.app.metering import Meters
from bot.app.setup import BotSetup
from bot.app.supervisor import beside, keep_served
from bot.core.errors import AddressTaken, ChatRefused
from bot.platforms.registry import platform_of
from queueing.core.concurrency import TaskGroup, timeout
from queueing.core.errors import StoreError
from queueing.core.leases import LeaseReader
from queueing.store.jobs.job_reader import StoredFiles
from queueing.store.sql.database import Database

log = logging.getLogger(__name__)

HAND_OVER_S = 0.2
"""How long running jobs, and then last messages, may take on shutdown. Another process continues.
"""

UNREACHED_S = 30.0
"""How long a chat waits for the queue before it is left to another process."""
UNREACHABLE = "the process that holds the queue cannot be reached from here"

AGAIN_S = 2
"""Pause before the API starts again after the database could not be opened."""

Watched = Callable[[Callable[[], str | None]], AbstractContextManager[None]]
"""Inside the block, adds a check to those that the heartbeat reports."""


@dataclass(frozen=True, eq=False, repr=False)
class ClusterProcess:
    """Runs the roles of one process."""

    setup: BotSetup
    _: KW_ONLY
    keeper: LeaseKeeper
    entrance: QueueListener
    link: QueueConnection
    agreement: Agreement
    shown: LeaseReader
    watched: Watched
    meters: Meters | None = None
    _refused: set[str] = field(default_factory=set, init=False)

    async def run(self, roles: Sequence[str], *, serves_api: bool) -> None:
        """Apply for roles, do their work, and serve the API, until cancelled.

        Raises an `ExceptionGroup` with what ends the process: `BadModel`, or `ChatRefused` if none
        of its chats can be used.
        """
        chats = [name for name in roles if name != QUEUE]
        async with TaskGroup() as tasks:
            if QUEUE in roles:
                tasks.create_task(self._keep(QUEUE, self._do_queue))
            for name in chats:
                tasks.create_task(self._keep(name, self._chat(name, chats)))
            if serves_api and self.setup.in_force.config.api is not None:
                tasks.create_task(self._serve_programs())

    async def _keep(self, name: str, duty: Callable[[HeldLease], Awaitable[None]]) -> None:
        about = self.agreement.about(name)
        await self.keeper.serve(name, duty, address=self.entrance.address, about=about)

    # ------------------------------------------------------------ the queue

    async def _do_queue(self, lease: HeldLease) -> None:
        setup = self.setup
        async with AsyncExitStack() as stack:
            database = await setup.open_database(stack, lease=lease.stored)
            parts = await open_queue(setup, database, stack, lambda: lease.held)
            server = QueueServer(
                parts.queue, secret=lease.stored.secret, held=lambda: lease.left_s > 0
            )
            stack.enter_context(self.watched(database.look_at_file))
            async with (
                beside(database.fenced()),
                serving(setup, parts, self.meters),
                self.entrance.admitting(server),
            ):
                await parts.queue.run()

    # ------------------------------------------------------------ chats

    def _chat(self, name: str, chats: Sequence[str]) -> Callable[[HeldLease], Awaitable[None]]:
        async def duty(lease: HeldLease) -> None:
            try:
                await self._do_chat(name, lease)
            except BaseExceptionGroup as group:  # from the tasks that serve a chat
                refused, others = group.split(ChatRefused)
                if refused is None or others is not None:
                    raise
                if taken := refused.subgroup(AddressTaken):
                    raise GivesWay(str(taken.exceptions[0])) from None
                # Refused by the chat's service, so another process would be refused too.
                self._refused.add(name)
                if self._refused.issuperset(chats):
                    raise

        return duty

    async def _do_chat(self, name: str, lease: HeldLease) -> None:
        setup = self.setup
        await self._reached()
        async with AsyncExitStack() as stack:
            database = await setup.open_database(stack, lease=lease.stored)
            files = StoredFiles(database)
            queue = RemoteQueue(self.link, files, lease)
            stack.callback(queue.leave)
            stack.enter_context(self.link.reading(name))
            given = await self._given(stack, database, queue)
            admission = assembly.admission(given)
            fittings = assembly.fittings(given, admission, lease)
            platform = platform_of(name, setup.in_force.config.chats, fittings)
            async with (
                beside(database.fenced()),
                chats_served(given, admission, (platform,), lease=lease, settle_s=HAND_OVER_S),
            ):
                await self.link.out_of_reach(UNREACHED_S)
                raise GivesWay(UNREACHABLE)

    async def _reached(self) -> None:
        """Wait until the queue is connected. Raises `GivesWay` on timeout."""
        try:
            async with timeout(UNREACHED_S):
                await self.link.connected()
        except TimeoutError:
            raise GivesWay(UNREACHABLE) from None

    # ------------------------------------------------------------ programs

    async def _serve_programs(self) -> None:
        """Serve the API, retrying while the database is unavailable."""
        while True:
            await self.link.connected()
            try:
                await self._serve_api()
            except StoreError as error:
                log.warning("cannot serve the API, retrying in %d s: %s", AGAIN_S, error)
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def _serve_api(self) -> None:
        setup = self.setup
        async with AsyncExitStack() as stack:
            database = await setup.open_database(stack, shared=True)
            queue = RemoteQueue(self.link, StoredFiles(database))
            given = await self._given(stack, database, queue)
            gateway = gateway_of(setup, given, assembly.admission(given))
            if gateway is not None:
                await keep_served(gateway.run)

    async def _given(
        self, stack: AsyncExitStack, database: Database, queue: RemoteQueue
    ) -> SharedParts:
        """Build the shared parts of a role.

        Until the stack ends, heartbeat, dashboard and reloads use them.
        """
        setup = self.setup
        made = await setup.groundwork(database, queue, self.meters)
        given = replace(made, roles=self.shown)
        stack.enter_context(setup.desk.offering(assembly.operator_records(given)))
        stack.enter_context(self.watched(database.look_at_file))
        stack.enter_context(setup.reloader.applying(given.stored.audit))
        return given
