"""Limits how many tokens a client can try, and knows which tokens could be guessed.

Counts by address and in memory. A token that was right before stays accepted from any address, so
guesses from a person's own address do not lock that person out.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.http.bucket import Bucket

WRONG_AT_ONCE = 20  # different wrong tokens from one address
_WRONG_EVERY_S = 30.0  # one more after that
_SHUT_S = 60.0
_ADDRESSES = 10_000  # after that, the least recent one is forgotten


@dataclass(slots=True)
class _Address:
    bucket: Bucket = field(
        default_factory=lambda: Bucket(per_s=1 / _WRONG_EVERY_S, burst=WRONG_AT_ONCE)
    )
    seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    shut_until: float = float("-inf")


class Guesses:
    """Wrong tokens by address; `now` is any steady clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_address: OrderedDict[str, _Address] = OrderedDict()
        self._right: set[bytes] = set()

    def may_try(self, address: str, token: str) -> bool:
        """Return whether a token from an address may be looked up at all."""
        tried = self._by_address.get(address)
        return tried is None or tried.shut_until <= self._now() or _digest(token) in self._right

    def right(self, token: str) -> None:
        """Note that the token identified a person."""
        self._right.add(_digest(token))

    def wrong(self, address: str, token: str) -> None:
        """Note that the token was wrong. A repeated token counts once: an old page resends it."""
        tried = self._by_address.setdefault(address, _Address())
        self._by_address.move_to_end(address)
        if len(self._by_address) > _ADDRESSES:
            self._by_address.popitem(last=False)
        digest = _digest(token)
        if digest in tried.seen:
            return
        tried.seen[digest] = None
        if len(tried.seen) > WRONG_AT_ONCE:
            tried.seen.popitem(last=False)
        if not tried.bucket.take(self._now()):
            tried.shut_until = self._now() + _SHUT_S


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
