"""Measures how late the event loop is: whatever keeps it busy delays everything else."""

import asyncio
from collections.abc import Callable

EVERY_S = 0.5


async def watch_loop(observe: Callable[[float], None]) -> None:
    """Report until cancelled by how many seconds each timer was late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        observe(max(0.0, loop.time() - due))
