"""Roles that one process of an installation holds at a time, and the interface to their leases.

A process holds a role through a lease in the database, timed by the database's clock. Every time a
role changes hands its epoch rises, and the database refuses writes under an older epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A role as one process holds it, until another process takes it under the next epoch.

    `holder` names the process for people. `secret` is random and new in each epoch. Knowing it
    proves that a process reads the same database. `lease_s` is how long the lease lasts without a
    renewal. Job ids up to `numbers_used` may have been given out, even if the database has lost
    them.
    """

    name: str
    epoch: int
    holder: str
    lease_s: float
    secret: bytes = field(default=b"", repr=False)
    numbers_used: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """A role as every process can read it.

    `left_s` is the time left of its lease, 0 if it has expired. `holder` names the process for
    people, empty if the role is free. `address` is where it listens for the other processes.
    """

    name: str
    holder: str
    address: str
    epoch: int
    left_s: float


About = Callable[[bytes], str]
"""Given the secret of the epoch, returns what the holder publishes to the other processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderInfo:
    """A held role as another process reads it: its holder, and what the holder published."""

    role: Leader
    about: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerLook:
    """State of a database on a server before this process uses it: held roles and open jobs.

    `open_jobs` counts waiting and running jobs by model. It and `held` are empty before the first
    start. `off_s` is how far the server's clock is ahead of this machine's, in seconds.
    """

    held: Sequence[LeaderInfo] = ()
    open_jobs: Mapping[str, int] = field(default_factory=dict)
    off_s: float = 0.0


def nothing(_: bytes) -> str:
    """Publish nothing: the `About` of a role whose holders need not agree on a configuration."""
    return ""


class LeaseReader(Protocol):
    """Reads the roles, to show them to people."""

    async def roles(self) -> Sequence[Leader]:
        """Return every known role, held or free. Raises `StoreError`."""


class LeaseStore(Protocol):
    """The leases in the database. Every call raises `StoreError` if it is unavailable."""

    async def take(self, name: str, *, address: str, about: About = nothing) -> Lease | None:
        """Take a role if it is free or its lease has expired, under a new epoch.

        Returns None if another process holds it. What `about` returns is stored with the lease for
        the other processes. A role whose holder's database session has ended is free before its
        lease expires.
        """

    async def renew(self, lease: Lease) -> bool:
        """Prolong a lease. Returns False if another process has taken the role."""

    def intact(self, lease: Lease) -> bool:
        """Return whether no other process can take the role before the lease expires. No I/O.

        Returns False once the session that guards the role is lost, until `renew` replaces it.
        """

    async def free(self, lease: Lease, *, in_order: bool = True) -> None:
        """Give up a role at once, if this process still holds it. Idempotent.

        `in_order` is False if the database may have lost writes it had confirmed.
        """

    async def holders(self) -> Sequence[Leader]:
        """Return every role that was ever held, by name."""

    async def introductions(self) -> Sequence[LeaderInfo]:
        """Return every held role, by name, with what its holder published."""

    async def introduce(self, role: Leader, about: str) -> None:
        """Replace what a role's holder publishes.

        Does nothing if another process has taken the role.
        """

    async def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a role's holder, None once another epoch has begun."""

    async def local_host(self) -> str:
        """Return the address from which this machine reaches the database."""

    async def freed(self, within_s: float) -> None:
        """Wait until a role may have become free, but no longer than `within_s`. Never raises."""
