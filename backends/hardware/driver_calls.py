"""Calls of a card's driver, which may hang for good."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import pynvml

from queueing.core.daemon_threads import in_daemon_thread

log = logging.getLogger(__name__)

HUNG = "the driver does not answer"

Value = TypeVar("Value")


class DriverCalls:
    """Makes one call at a time: a driver that hangs takes one thread and no more.

    Each fault is logged once, until what failed works again; `faults` remembers them.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        self._hangs = False
        self.faults: dict[str, str] = {}

    async def try_to(self, what: str, call: Callable[[], Value]) -> Value | None:
        """Return what a blocking call returns, None if it fails; `what` names it in the log."""
        try:
            found = await self.make(call)
        except (pynvml.NVMLError, OSError, ValueError) as error:  # a timeout is an OSError
            fault = str(error) or type(error).__name__
            if self.faults.get(what) != fault:
                self.faults[what] = fault
                log.warning("cannot %s: %s", what, fault)
            return None
        self.faults.pop(what, None)
        return found

    async def make(self, call: Callable[[], Value]) -> Value:
        """Return what a blocking call returns, or raise what it raises.

        Raises `TimeoutError` when it takes too long, and at once while an earlier call still hangs.
        """
        async with self._turn:
            if self._hangs:
                raise TimeoutError(HUNG)
            self._hangs = True
            answer = in_daemon_thread(call, "driver")
            answer.add_done_callback(self._ended)
            ended, _ = await asyncio.wait([answer], timeout=self._timeout_s)
            if not ended:
                raise TimeoutError(HUNG)
            return answer.result()

    def _ended(self, _: object) -> None:
        self._hangs = False
