"""What the web chat lets in: the names it answers to, the pages it trusts, how much and how often.

Pure: it judges headers and counts, and does nothing.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from bot.chat.api.base import PLAYED

PAGE_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' blob:; "  # blob: shows a picture before it is sent
    "media-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"  # Chromium then refuses innerHTML altogether
)
_SCHEMES = ("http", "https")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d{1,5})?", re.ASCII)
FILE_POLICY = "default-src 'none'; sandbox"

HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",  # no other page embeds these pictures
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

# Shown or played in the page; anything else is only offered as a download, SVG and HTML above
# all.
INLINE_TYPES = PLAYED | {"image/png", "image/jpeg", "image/webp", "image/gif", "image/avif"}


def host_allowed(header: str, *, loopback: bool, names: Collection[str]) -> bool:
    """Return whether a request's Host header names this server.

    A hostile site can point its own name at this address (DNS rebinding) and would then be
    same-origin; it cannot do that with an address, so addresses are safe when listening on one.
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


def origin_allowed(origin: str | None, host: str, scheme: str | None = None) -> bool:
    """Return whether a request comes from this server's own page.

    Browsers name the page's origin on every WebSocket and POST, always in the same spelling;
    another site's or another port's is refused, and so is a client that names none. `scheme` is how
    a proxy was reached, if it says so.
    """
    schemes = (scheme,) if scheme in _SCHEMES else _SCHEMES
    return bool(host) and origin in {f"{each}://{host.lower()}" for each in schemes}


def bare_name(name: str) -> str:
    """Return an untrusted file name without a path and without invisible characters."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in bare if char.isprintable())
    return printable.strip(". ")[-100:] or "file"


def _name_of(header: str) -> str | None:
    """Return the name in a Host header; None for an invalid one, such as one with user information."""
    if not _HOST.fullmatch(header):
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


class Bucket:
    """Lets `burst` things through at once and `per_s` a second after that."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level = float(burst)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Return whether one more may pass at `now`, in seconds of any steady clock."""
        self._level = min(self._burst, self._level + (now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True
