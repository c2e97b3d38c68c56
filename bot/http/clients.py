"""Identifies visitors, checks Host headers, and limits wrong tokens and repeated log lines.

Only configured proxies may name the client, because anybody can write a forwarding header. Events
that visitors can cause are logged once a minute per kind.

Wrong tokens are counted in memory by address. A token that was right once is accepted from every
address, so other people's guesses from the same address do not lock its owner out.
"""

import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from backends.common.proxies import address_in

EVERY_S = 60.0

Kind = tuple[object, ...]


@dataclass(kw_only=True, slots=True)
class _Logged:
    at: float
    left_out: int = 0


_logged: dict[Kind, _Logged] = {}  # bounded by the number of log statements


def sparing(log: logging.Logger) -> logging.Logger:
    """Limit a log to one line of each kind per minute. The next line counts those left out."""
    if _is_due not in log.filters:
        log.addFilter(_is_due)
    return log


def forget() -> None:
    """Forget which lines were logged, for tests."""
    _logged.clear()


def _is_due(record: logging.LogRecord) -> bool:
    now, kind = time.monotonic(), _kind_of(record)
    last = _logged.get(kind)
    if last is not None and now < last.at + EVERY_S:
        last.left_out += 1
        return False
    _logged[kind] = _Logged(at=now)
    if last is not None and last.left_out:
        record.msg = f"{record.getMessage()} (and {last.left_out} more like this)"
        record.args = None
    return True


def _kind_of(record: logging.LogRecord) -> Kind:
    """Return a line's kind: the place of the log statement, and of its exception."""
    place: Kind = (record.pathname, record.lineno)
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return place
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    raised = innermost and (innermost.tb_frame.f_code.co_filename, innermost.tb_lineno)
    return (*place, type(error), raised)


_HOME = 64  # bits of an IPv6 address that a household shares; it counts as one visitor


class Clients:
    """Identifies visitors. `proxies` are addresses or networks such as "10.0.0.0/8"."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = tuple(ip_network(proxy) for proxy in proxies)

    def is_proxy(self, peer: str) -> bool:
        """Return whether a peer is one of the proxies."""
        address = address_in(peer)
        return address is not None and any(address in proxy for proxy in self._proxies)

    def of(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return a request's client. `forwarded` are the values of X-Forwarded-For, in order.

        Each proxy appends the address of its peer. So the client is the last address that is not a
        proxy's; the visitor may have invented those before it.
        """
        if self.is_proxy(peer):
            hops = [hop.strip() for value in forwarded for hop in value.split(",")]
            for hop in reversed(hops):
                if address_in(hop) is None:
                    break
                if not self.is_proxy(hop):
                    return home(hop)
        return home(peer)


def home(peer: str) -> str:
    """Return a visitor's key: the address, or the network of an IPv6 household."""
    address = address_in(peer)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _HOME), strict=False))
    return str(address or peer)


class TokenBucket:
    """Allows `burst` events at once, and `per_s` events per second after that."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level = float(burst)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Return whether another event is allowed at `now`, in seconds of any monotonic clock."""
        self._level = min(self._burst, self._level + (now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)


def host_allowed(header: str, *, loopback: bool, names: Collection[str]) -> bool:
    """Return whether a request's Host header names this server.

    A hostile site can point its own name at this address (DNS rebinding), and its pages would then
    be same-origin. It cannot do that with an IP address, so an IP address is allowed if the server
    listens on one.
    """
    name = _name_of(header)
    if name is None:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not loopback


def _name_of(header: str) -> str | None:
    """Return the name in a Host header, or None if it is invalid or contains user information."""
    if not _HOST.fullmatch(header):
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


WRONG_AT_ONCE = 20  # different wrong tokens from one address
_WRONG_EVERY_S = 30.0  # one more is allowed per period
_SHUT_S = 60.0
_ADDRESSES = 10_000  # beyond that, the address used least recently is forgotten


@dataclass(slots=True)
class _Address:
    bucket: TokenBucket = field(
        default_factory=lambda: TokenBucket(per_s=1 / _WRONG_EVERY_S, burst=WRONG_AT_ONCE)
    )
    seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    shut_until: float = float("-inf")


class LoginThrottle:
    """Limits wrong tokens by address. `now` is any monotonic clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_address: OrderedDict[str, _Address] = OrderedDict()
        self._right: set[bytes] = set()

    def may_try(self, address: str, token: str) -> bool:
        """Return whether a token from an address may be checked."""
        tried = self._by_address.get(address)
        return tried is None or tried.shut_until <= self._now() or _digest(token) in self._right

    def right(self, token: str) -> None:
        """Record that a token was right."""
        self._right.add(_digest(token))

    def wrong(self, address: str, token: str) -> None:
        """Record a wrong token. Repeats count once, because an old page keeps sending its token."""
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
