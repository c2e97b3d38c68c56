"""What clients say of themselves in headers: how long they wait, and whether they come again."""

import re

from aiohttp import web

AGAIN_S = 10.0
"""How long the job of a broken call waits for its caller: SDKs retry within 8 s."""
PATIENCE_MARGIN_S = 5.0
"""How long before a client's time-out the headers are sent."""
LEAST_PATIENCE_S = 1.0
_PATIENCES = ("x-stainless-read-timeout", "x-stainless-timeout")


def clients_patience_s(request: web.Request) -> float:
    """Return how long the client says it waits for the next byte; Node's waits for the headers."""
    announced = [request.headers.get(name, "") for name in _PATIENCES]
    return min(map(_positive, announced))


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return float("inf")
    return max(LEAST_PATIENCE_S, number) if number > 0 else float("inf")


def headers_within_s(request: web.Request) -> float:
    """Return how long the headers may be delayed, so that they arrive before the client leaves."""
    patience_s = clients_patience_s(request)
    return max(patience_s / 2, patience_s - PATIENCE_MARGIN_S)


def leaves(request: web.Request) -> bool:
    """Return whether the caller wishes to fetch the result later, by `Prefer: respond-async`."""
    given = ",".join(request.headers.getall("Prefer", []))
    return any(wish.strip().casefold() == "respond-async" for wish in re.split("[,;]", given))


def comes_again_s(request: web.Request) -> float:
    """Return how long a client may take to retry a broken call: 0 unless it is an SDK."""
    return AGAIN_S if "x-stainless-retry-count" in request.headers else 0.0
