"""Stopping in order: the first signal asks running work to stop, the second ends the process."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from bot.app import event_loop, logs

_STOPPING = (signal.SIGINT, signal.SIGTERM)


def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Run until it ends or SIGINT or SIGTERM arrives; a second signal ends the process at once.

    The first one cancels the work, which then stops in order: running jobs get their grace.
    """

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        logs.watch_loop(loop)
        task = asyncio.ensure_future(work)

        def stop() -> None:
            task.cancel()
            print("stopping; once more to stop at once", file=sys.stderr)

        with _on_signal(lambda: loop.call_soon_threadsafe(stop)):
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise

    event_loop.run(watched())
    gc.freeze()  # the process ends: scanning all objects once more costs 0.3 s
    return 0


@contextmanager
def _on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first signal; the next one meets the system's own handling.

    `stop` is called in the middle of any code, a write to the log included, so it must be safe
    there. Writing to the same stream is not: it raises, and the signal would be lost.
    """

    def first(*_: object) -> None:
        for number in _STOPPING:
            signal.signal(number, signal.SIG_DFL)
        stop()

    # signal.signal also works on Windows, where the loop's own handlers do not exist
    before = {number: signal.signal(number, first) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
