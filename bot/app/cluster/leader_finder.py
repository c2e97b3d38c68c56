"""How a process finds the one that holds the queue: by the post's row in the database."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bot.app.cluster.protocol import NotTrusted, greet_holder
from bot.app.cluster.queue_server import NotServing, QueueListener
from bot.app.cluster.transport import Wire, WireBroken
from bot.http.addresses import host_and_port, is_loopback
from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError
from queueing.core.leases import Leader, LeaseStore

log = logging.getLogger(__name__)

QUEUE = "queue"
"""The post of the process that holds the queue."""
GREETING_S = 5.0
NONE_HOLDS = "no process holds the queue"
NOT_NOW = "does not serve the queue yet, or no longer"


class LeaderFinder:
    """Connects to the process that holds the queue, and notices when another one has taken it."""

    def __init__(
        self,
        posts: LeaseStore,
        entrance: QueueListener,
        call: Callable[[str], Awaitable[Wire]],
        *,
        look_every_s: float,
    ) -> None:
        self._posts = posts
        self._entrance = entrance
        self._call = call
        self._look_every_s = look_every_s
        self._epoch = 0
        self._told: str | None = None

    async def dial(self) -> Wire:
        """Connect to the holder. Raises `WireBroken`; why is logged once."""
        try:
            wire = await self._connected(await self._holder())
        except (WireBroken, NotTrusted, StoreError) as error:
            self._tell(str(error))
            raise WireBroken(error) from None
        self._told = None
        return wire

    async def moved(self) -> None:
        """Wait until the queue is under another epoch than that of the last connection."""
        while True:
            await asyncio.sleep(self._look_every_s)
            try:
                holder = await self._row()
            except StoreError:
                continue  # what it is under now cannot be known
            if holder is not None and holder.epoch != self._epoch:
                return

    async def _connected(self, holder: Leader) -> Wire:
        """Connect to a holder. Raises `WireBroken`, `NotTrusted`, `StoreError`."""
        secret = await self._posts.secret(QUEUE, holder.epoch)
        if secret is None:
            raise WireBroken(NONE_HOLDS)
        wire = await self._wire(holder)
        try:
            async with timeout(GREETING_S):
                await greet_holder(wire, secret)
        except BaseException as error:
            await wire.close()
            if isinstance(error, TimeoutError):
                raise WireBroken(f"{holder.address} accepts calls and says nothing") from None
            if isinstance(error, WireBroken):
                raise WireBroken(f"{holder.holder} {NOT_NOW}") from None
            raise
        self._epoch = holder.epoch
        return wire

    async def _wire(self, holder: Leader) -> Wire:
        try:
            if holder.address == self._entrance.address:
                return self._entrance.wire()
            return await self._call(holder.address)
        except NotServing:
            raise WireBroken(f"{holder.holder} {NOT_NOW}") from None
        except WireBroken as error:
            raise WireBroken(f"{holder.holder} cannot be reached: {error}{_hint(holder)}") from None

    async def _holder(self) -> Leader:
        row = await self._row()
        if row is None or not row.holder or not row.left_s or not row.address:
            raise WireBroken(NONE_HOLDS)
        return row

    async def _row(self) -> Leader | None:
        return next((each for each in await self._posts.holders() if each.name == QUEUE), None)

    def _tell(self, cause: str) -> None:
        if cause != self._told:
            usual = cause == NONE_HOLDS or cause.endswith(NOT_NOW)  # for a moment at each change
            log.log(logging.INFO if usual else logging.WARNING, "%s", cause)
        self._told = cause


def _hint(holder: Leader) -> str:
    """Say what is to be done about an address that only one machine can call."""
    if not is_loopback(host_and_port(holder.address)[0]):
        return ""
    return " (an address of that machine alone: if it is another one, set cluster.listen there)"
