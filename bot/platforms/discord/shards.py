"""Shards: how a bot's servers are shared among several connections to Discord; pure.

Discord decides by a server's id which connection hears of it. Direct messages go to the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_TIMESTAMP_FROM_BIT = 22  # the bits below number the ids of one millisecond


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """The shards one client connects: `only` that one, or all `count`.

    Without a `count` they are as many as Discord asks for at that moment, and all of them.
    """

    count: int | None = None
    only: int | None = None

    @property
    def ids(self) -> list[int] | None:
        """Which they are, None for all."""
        return None if self.count is None or self.only is None else [self.only]

    @property
    def share(self) -> float:
        """Which share of all shards they are."""
        return 1.0 if self.ids is None or self.count is None else 1 / self.count

    @property
    def first(self) -> bool:
        """Whether the shard is among them that does what one alone must do."""
        return self.ids is None or self.only == 0

    def serves(self, chat: str, within: Sequence[str]) -> bool:
        """Return whether a chat belongs to one of these shards."""
        if self.ids is None or self.count is None:
            return True
        return shard_of(chat, within, self.count) == self.only


ALL_SHARDS = Shards()


def shard_of(chat: str, within: Sequence[str], count: int) -> int:
    """Return the shard of a chat, by the server it is part of; the first if it is part of none.

    The first also has the chats of jobs so old that their server was not stored with them: any
    shard's process can write to any channel.
    """
    if chat.startswith("@") or not within or not within[0].isdecimal():
        return 0
    return (int(within[0]) >> _TIMESTAMP_FROM_BIT) % count
