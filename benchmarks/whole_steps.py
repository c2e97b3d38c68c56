"""Which steps of the event loop let everything else wait, while `benchmarks.whole --profile` runs.

Measured in processor time, so that other programs on the machine make none longer. The search for
garbage is counted apart: it may come in the middle of any step.
"""

import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self
from unittest.mock import patch

LONG_S = 0.010


class Steps:
    """Watches the event loop of this thread until its block ends."""

    def __init__(self) -> None:
        self._long: defaultdict[str, list[float]] = defaultdict(list)  # seconds, by what it was
        self._looks: list[float] = []  # for garbage, in seconds
        self._began = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        step = asyncio.Handle._run  # noqa: SLF001  # where every step begins and ends

        def timed(handle: asyncio.Handle) -> None:
            name, began = _name(handle), time.thread_time()
            step(handle)
            took_s = time.thread_time() - began
            if took_s > LONG_S:
                self._long[name].append(took_s)

        self._timing = patch.object(asyncio.Handle, "_run", timed)
        self._timing.start()
        gc.callbacks.append(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no longer."""
        gc.callbacks.remove(self._look)
        self._timing.stop()

    def _look(self, phase: str, _found: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._looks.append(time.thread_time() - self._began)

    def lines(self, jobs: int) -> Sequence[str]:
        """Return what was seen as lines of a table."""
        looks = f"the search for garbage, in all of these, ms; the longest {_ms(self._looks)} ms"
        most_first = sorted(self._long.items(), key=lambda each: -max(each[1]))
        return [
            f"{looks:<57}{sum(self._looks) * 1000 / jobs:>8.3f}",
            *(
                f"steps beyond {LONG_S * 1000:.0f} ms: {len(took)} of {name}, the longest {_ms(took)} ms"
                for name, took in most_first
            ),
        ]


def _ms(seconds: Sequence[float]) -> str:
    return f"{max(seconds, default=0.0) * 1000:.1f}"


def _name(handle: asyncio.Handle) -> str:
    """Return what a step belongs to: the coroutine of its task, or the function it calls."""
    called: Any = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001  # as above
    task = getattr(called, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task))
    return str(getattr(called, "__qualname__", called))
