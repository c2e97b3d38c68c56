"""Roles in memory, in the time of the event loop; any number of processes share one table."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from queueing.core.errors import StoreError
from queueing.core.leases import About, Leader, LeaderInfo, Lease, nothing

COMES_BACK_S = 0.75
"""How long a role is left to a holder whose session broke."""


@dataclass
class RoleTable:
    """The table that all processes see."""

    lease_s: float
    rows: dict[str, Leader] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    sessions: dict[str, set[str]] = field(default_factory=dict)
    left_since: dict[str, float] = field(default_factory=dict)
    free: asyncio.Event = field(default_factory=asyncio.Event)

    @staticmethod
    def now() -> float:
        """Return the database's time."""
        return asyncio.get_running_loop().time()


class FakeRoles:
    """One process's access to the table.

    `away`: the database cannot be reached; `slow_s`: its delay.
    """

    def __init__(self, table: RoleTable, process: str) -> None:
        self.table = table
        self.process = process
        self.away = False
        self.mute = False
        self.slow_s = 0.0
        self.in_order: list[bool] = []
        table.sessions[process] = set()

    async def take(self, name: str, *, address: str, about: About = nothing) -> Lease | None:
        """Take a role if it is free."""
        await self._reach()
        table = self.table
        row = table.rows.get(name)
        if row is not None and row.holder and table.until[name] > table.now():
            if name in table.sessions[row.holder]:
                table.left_since.pop(name, None)
                return None
            if table.now() - table.left_since.setdefault(name, table.now()) < COMES_BACK_S:
                return None
        epoch = 1 if row is None else row.epoch + 1
        table.rows[name] = Leader(
            name=name, holder=self.process, address=address, epoch=epoch, left_s=0
        )
        table.until[name] = table.now() + table.lease_s
        for session in table.sessions.values():
            session.discard(name)
        table.sessions[self.process].add(name)
        table.about[name] = about(_secret(name, epoch))
        return Lease(
            name=name,
            epoch=epoch,
            holder=self.process,
            lease_s=self.table.lease_s,
            secret=_secret(name, epoch),
        )

    async def renew(self, lease: Lease) -> bool:
        """Extend a lease."""
        await self._reach()
        if not self._holds(lease):
            return False
        self.table.until[lease.name] = self.table.now() + self.table.lease_s
        self.table.sessions[self.process].add(lease.name)
        return True

    def intact(self, lease: Lease) -> bool:
        """Return whether the session is intact."""
        return lease.name in self.table.sessions[self.process]

    async def free(self, lease: Lease, *, in_order: bool = True) -> None:
        """Give a role up."""
        await self._reach()
        self.in_order.append(in_order)
        if self._holds(lease):
            self.table.rows[lease.name] = replace(self.table.rows[lease.name], holder="")
            self.table.free.set()

    async def holders(self) -> Sequence[Leader]:
        """Return every role."""
        await self._reach()
        left = {name: max(0.0, at - self.table.now()) for name, at in self.table.until.items()}
        return [replace(row, left_s=left[name]) for name, row in sorted(self.table.rows.items())]

    async def introductions(self) -> Sequence[LeaderInfo]:
        """Return the introductions of all roles that are held."""
        return [
            LeaderInfo(
                role=row, about=self.table.about[row.name], secret=_secret(row.name, row.epoch)
            )
            for row in await self.holders()
            if row.holder and row.left_s
        ]

    async def introduce(self, role: Leader, about: str) -> None:
        """Replace a holder's introduction."""
        await self._reach()
        row = self.table.rows[role.name]
        if (row.holder, row.epoch) == (role.holder, role.epoch):
            self.table.about[role.name] = about

    async def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a role's holder."""
        await self._reach()
        row = self.table.rows.get(name)
        held = row is not None and row.holder and row.epoch == epoch
        return _secret(name, epoch) if held else None

    async def local_host(self) -> str:
        """Return an address of this machine."""
        await self._reach()
        return "127.0.0.1"

    async def freed(self, within_s: float) -> None:
        """Wait until a role may be free."""
        self.table.free.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.table.free.wait()

    def end_session(self) -> None:
        """Let the database notice that this process is gone."""
        self.table.sessions[self.process].clear()

    def _holds(self, lease: Lease) -> bool:
        row = self.table.rows[lease.name]
        return row.holder == self.process and row.epoch == lease.epoch

    async def _reach(self) -> None:
        if self.mute:
            await asyncio.Event().wait()
        await asyncio.sleep(self.slow_s)
        if self.away:
            raise StoreError("the database does not answer")


def _secret(name: str, epoch: int) -> bytes:
    return f"{name}:{epoch}".encode()
