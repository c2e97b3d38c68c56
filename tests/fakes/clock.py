"""A clock that follows the running event loop."""

import asyncio

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class VirtualClock:
    """Tells a fixed date plus the loop's own time; with the virtual loop, virtual time."""

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()
