"""Cross-origin requests: what pages of the listed origins may send and read.

Pages of other origins are refused elsewhere and get no header of this kind.
"""

import re
from collections.abc import Collection

from aiohttp import web

_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
_STAINLESS = (
    "lang package-version os arch runtime runtime-version retry-count timeout read-timeout async "
    "helper-method poll-helper custom-poll-interval"
)
_SENT = (
    "authorization",
    "content-type",
    "accept",
    "idempotency-key",
    "last-event-id",
    "prefer",
    "x-api-key",
    "openai-organization",
    "openai-project",
    "openai-beta",
    "http-referer",
    "x-title",
    *(f"x-stainless-{name}" for name in _STAINLESS.split()),
)
"""The headers that any page of a listed origin may send; a preflight may ask for more of them."""
_READ = (
    "retry-after",
    "x-should-retry",
    "x-request-id",
    "x-usher-job",
    "x-usher-waited-s",
    "location",
    "content-disposition",
)
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~, -]{1,4000}", re.ASCII)
_KEPT_S = 600  # how long browsers remember a preflight


class Cors:
    """Answers preflights, and adds the headers that let a page read a response."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def preflight(self, request: web.Request) -> web.Response | None:
        """Return the answer to a preflight of a listed origin; None for any other request."""
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        if request.headers.get("Origin") not in self._origins:
            return None
        asked = request.headers.get("Access-Control-Request-Headers", "")
        more = asked.casefold().split(",") if _NAMES.fullmatch(asked) else []
        names = dict.fromkeys([*_SENT, *filter(None, map(str.strip, more))])
        return web.Response(
            status=204,
            headers={
                "Access-Control-Allow-Methods": _METHODS,
                "Access-Control-Allow-Headers": ", ".join(names),
                "Access-Control-Max-Age": str(_KEPT_S),
            },
        )

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers to a response that is about to be sent."""
        if not self._origins:
            return
        response.headers.add("Vary", "Origin")
        origin = request.headers.get("Origin", "")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(_READ)
