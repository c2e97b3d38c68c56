"""Finds the leader, the process that holds the queue, in the database."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

from bot.app.cluster.leases import QUEUE
from bot.app.cluster.protocol import NotTrusted, greet_holder
from bot.app.cluster.queue_server import NotServing, QueueListener
from bot.app.cluster.transport import Wire, WireBroken
from bot.http.addresses import host_and_port, is_loopback
from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError
from queueing.core.leases import Leader, LeaseStore

log = logging.getLogger(__name__)

GREETING_S = 5.0
NONE_HOLDS = "no process holds the queue"
NOT_NOW = "does not serve the queue yet, or no longer"


@dataclass(eq=False, repr=False)
class LeaderFinder:
    """Connects to the leader, and detects when another process becomes the leader."""

    roles: LeaseStore
    entrance: QueueListener
    call: Callable[[str], Awaitable[Wire]]
    _: KW_ONLY
    look_every_s: float
    _epoch: int = field(default=0, init=False)
    _logged: str | None = field(default=None, init=False)

    async def dial(self) -> Wire:
        """Connect to the leader. Raises `WireBroken`. Logs each cause once, until it changes."""
        try:
            wire = await self._connected(await self._holder())
        except (WireBroken, NotTrusted, StoreError) as error:
            self._log_once(str(error))
            raise WireBroken(error) from None
        self._logged = None
        return wire

    async def moved(self) -> None:
        """Wait until the queue's epoch differs from that of the last connection."""
        while True:
            await asyncio.sleep(self.look_every_s)
            try:
                holder = await self._row()
            except StoreError:
                continue  # the current epoch is unknown
            if holder is not None and holder.epoch != self._epoch:
                return

    async def _connected(self, holder: Leader) -> Wire:
        """Connect and authenticate. Raises `WireBroken`, `NotTrusted`, `StoreError`."""
        secret = await self.roles.secret(QUEUE, holder.epoch)
        if secret is None:
            raise WireBroken(NONE_HOLDS)
        wire = await self._wire(holder)
        try:
            async with timeout(GREETING_S):
                await greet_holder(wire, secret)
        except BaseException as error:
            await wire.close()
            if isinstance(error, TimeoutError):
                raise WireBroken(
                    f"{holder.address} accepts connections but does not answer"
                ) from None
            if isinstance(error, WireBroken):
                raise WireBroken(f"{holder.holder} {NOT_NOW}") from None
            raise
        self._epoch = holder.epoch
        return wire

    async def _wire(self, holder: Leader) -> Wire:
        try:
            if holder.address == self.entrance.address:
                return self.entrance.wire()
            return await self.call(holder.address)
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
        return next((each for each in await self.roles.holders() if each.name == QUEUE), None)

    def _log_once(self, cause: str) -> None:
        if cause != self._logged:
            # These two occur briefly at every change of leader.
            usual = cause == NONE_HOLDS or cause.endswith(NOT_NOW)
            log.log(logging.INFO if usual else logging.WARNING, "%s", cause)
        self._logged = cause


def _hint(holder: Leader) -> str:
    """Return a hint if only its own machine can reach the leader's address."""
    if not is_loopback(host_and_port(holder.address)[0]):
        return ""
    return (
        " (only that machine can use this address: if it is another one, set cluster.listen there)"
    )
