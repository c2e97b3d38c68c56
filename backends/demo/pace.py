"""How fast a stand-in works, and whom it tells."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from queueing.core.ports import Report
from queueing.core.requests import Output


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The time of one step of so many, in seconds, and where progress is reported."""

    step_s: Callable[[int], float]
    report: Report


class Beat:
    """Keeps the time of steps: what a stand-in does between two of them is a part of the next.

    A busy machine draws slowly; a job would take longer than the demo's configuration says, and
    people would be told a wrong end.
    """

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def step(self) -> None:
        """Wait until the next step is over, not at all if it should have been already."""
        self._due += self._step_s
        await asyncio.sleep(max(0.0, self._due - self._loop.time()))


async def known(output: Output) -> Output:
    """Return a result that is there already, in place of a real server's download."""
    return output
