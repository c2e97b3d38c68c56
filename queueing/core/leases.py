"""Posts: duties that one process of an installation holds at a time, and the port to them.

A process holds a post by a lease in the database, in the database's time. Every time a post changes
hands its epoch rises, and the database refuses what is written under an older one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A post as one process holds it, until another takes it under the next epoch.

    `holder` names the process for people. `secret` is drawn for this epoch: a process that knows it
    reads the same database. `lease_s` is how long it holds the post without a renewal. Job numbers
    up to `numbers_used` may have been given out, although the database may not know them any more.
    """

    name: str
    epoch: int
    holder: str
    lease_s: float
    secret: bytes = field(default=b"", repr=False)
    numbers_used: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """A post as every process can read it. `left_s` is what remains of the lease, 0 if it is over.

    `holder` names the process for people, empty if the post is free; `address` is where it listens
    to the others.
    """

    name: str
    holder: str
    address: str
    epoch: int
    left_s: float


About = Callable[[bytes], str]
"""Returns what a holder tells the others about itself; given the secret of its epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderInfo:
    """A post that is held, as another process reads it: its holder, and what that told."""

    post: Leader
    about: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerLook:
    """A database on a server before it is used: who holds which post, and what is open.

    `open_jobs` counts by model what waits or runs. Both are empty before the first start. `off_s` is
    how far the server's clock is ahead of this machine's.
    """

    held: Sequence[LeaderInfo] = ()
    open_jobs: Mapping[str, int] = field(default_factory=dict)
    off_s: float = 0.0


def nothing(_: bytes) -> str:
    """Tell nothing: the `About` of a post whose holders need not agree."""
    return ""


class PostReader(Protocol):
    """The posts as people are shown them."""

    async def posts(self) -> Sequence[Leader]:
        """Return every post there is, held or free. Raises `StoreError`."""


class LeaseStore(Protocol):
    """The posts in the database. Every call raises `StoreError` while it is away."""

    async def take(self, name: str, *, address: str, about: About = nothing) -> Lease | None:
        """Take a post if it is free or its lease is over, and return it under a new epoch.

        `about` returns what is noted beside it for the others. A post whose holder's session has ended is free before its lease is over. None if another
        process holds it.
        """

    async def renew(self, lease: Lease) -> bool:
        """Prolong a lease; return False if another process has taken the post meanwhile."""

    def intact(self, lease: Lease) -> bool:
        """Return at once, from memory, whether no process can take the post before its lease is over.

        False after the session has ended whose end frees the post, until `renew` has mended that.
        """

    async def free(self, lease: Lease, *, in_order: bool = True) -> None:
        """Give a post up at once, if it is still held. Idempotent.

        It is not `in_order` where the database may have lost what it had confirmed.
        """

    async def holders(self) -> Sequence[Leader]:
        """Return every post that was ever held, by name."""

    async def introductions(self) -> Sequence[LeaderInfo]:
        """Return every post that is held now, by name, with what its holder told."""

    async def introduce(self, post: Leader, about: str) -> None:
        """Replace what is told of a post's holder; nothing if another process holds it by now."""

    async def secret(self, name: str, epoch: int) -> bytes | None:
        """Return the secret of a post's holder, None once another epoch has begun."""

    async def local_host(self) -> str:
        """Return the address from which this machine reaches the database."""

    async def freed(self, within_s: float) -> None:
        """Wait until a post may have become free, at most that long; never raises."""
