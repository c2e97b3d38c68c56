"""A clock that follows the event loop, and the time for which a thread had no processor."""

import asyncio
from pathlib import Path

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class VirtualClock:
    """Returns a fixed date plus the loop's own time, which is virtual in the virtual loop."""

    def __init__(self, start: float = START) -> None:
        self._start = start

    def now(self) -> float:
        return self._start + asyncio.get_running_loop().time()


class SetClock:
    """A clock that advances only when it is set."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


def kept_waiting_s() -> float:
    """Return how long this thread was ready to run without a processor, since it began.

    Short time limits of others must not include it: on a busy machine it is most of the time. Only
    Linux reports it; elsewhere it is 0.
    """
    try:
        _, waited_ns, _ = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(waited_ns) / 1e9
