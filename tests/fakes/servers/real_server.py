"""Real inference servers as a test's own processes: started, killed, and started again."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def running(port: int, *command: str) -> AsyncIterator[Process]:
    """Run a server in its own process group, so that its children end with it."""
    process = await asyncio.create_subprocess_exec(
        *(*command, "--host", "127.0.0.1", "--port", str(port)),
        stdout=DEVNULL,
        stderr=DEVNULL,
        stdin=DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await kill(process)


async def kill(process: Process) -> None:
    """End a server and its children at once. Idempotent."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
