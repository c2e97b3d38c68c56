"""Watches one attempt: how long its server may be silent before the attempt is given up."""

import asyncio
from collections.abc import Awaitable, Callable

from queueing.core.catalog import Timeouts
from queueing.core.ports import Fetch, Report
from queueing.core.requests import Progress


class NeverBegan(TimeoutError):
    """A server accepted work and showed no sign of it within `first_s`."""


async def watched(
    call: Callable[[Report], Awaitable[Fetch]], timeouts: Timeouts, report: Report
) -> Fetch:
    """Await `call(report)` as long as signs of progress arrive in time.

    Raises `NeverBegan` when the first sign is missing, `TimeoutError` when the server falls silent
    later or takes longer than `total_s`; the call is cancelled then.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    signs = 0

    def deadline() -> float | None:
        silent_s = timeouts.idle_s if signs else timeouts.first_s
        ends = [loop.time() + silent_s] if silent_s is not None else []
        if timeouts.total_s is not None:
            ends.append(began + timeouts.total_s)
        return min(ends, default=None)

    def noted(progress: Progress) -> None:
        nonlocal signs
        if watching and not limit.expired():
            signs += (
                progress.ahead is None
            )  # other work moves: the server is alive, but this attempt has not begun
            limit.reschedule(deadline())
            report(progress)

    watching = True
    limit = asyncio.timeout_at(deadline())
    try:
        async with limit:
            return await call(noted)
    except TimeoutError:
        if not limit.expired():
            raise
        silent_for = f"after {loop.time() - began:.0f} s"
        if not signs and loop.time() - began < (timeouts.total_s or float("inf")):
            raise NeverBegan(f"no sign of progress {silent_for}") from None
        raise TimeoutError(f"given up {silent_for}, {signs} signs of progress") from None
    finally:
        # A late report must not reschedule an expired timeout: asyncio raises for that.
        watching = False
