"""A clock that follows the running event loop, and the time in which nothing could run."""

import asyncio
from pathlib import Path

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class VirtualClock:
    """Tells a fixed date plus the loop's own time; with the virtual loop, virtual time."""

    def __init__(self, start: float = START) -> None:
        self._start = start

    def now(self) -> float:
        return self._start + asyncio.get_running_loop().time()


class SetClock:
    """A clock that goes when it is set."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


def kept_waiting_s() -> float:
    """Return how long this thread was ready to run and had no processor, since it began.

    Patiences of others that are short by nature must not count it: on a busy machine it is most of
    the time. Only Linux tells it; elsewhere it is none.
    """
    try:
        _, waited_ns, _ = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(waited_ns) / 1e9
