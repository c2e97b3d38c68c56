"""Detects that a server has gone away, even if it is back at once: a connection to it breaks.

Nothing is sent, so a server that accepts work and never does it is noticed here as well.
"""

import asyncio
from contextlib import suppress

from queueing.core.concurrency import timeout

CONNECT_S = 5.0
AT_ONCE_S = 1.0  # a connection that ends sooner found no server behind a forwarder
AGAIN_S = 5.0  # between connections that end at once although the server is still there


async def gone(host: str, port: int) -> None:
    """Return when there is nothing to connect to, even if only for the moment of a restart.

    Servers and proxies close idle connections after a while; if the next connection is accepted,
    that means nothing.
    """
    held = False
    while True:
        began = asyncio.get_running_loop().time()
        if not await _hold(host, port):
            return
        ended_at_once = asyncio.get_running_loop().time() - began < AT_ONCE_S
        if held and ended_at_once:
            return
        held = not ended_at_once
        if ended_at_once:
            await asyncio.sleep(AGAIN_S)


async def _hold(host: str, port: int) -> bool:
    """Hold a connection until the other side closes it; return False if none can be opened."""
    try:
        async with timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except OSError:  # includes timeouts
        return False
    try:
        with suppress(OSError):
            while await reader.read(4096):  # some servers say why they close it
                pass
    finally:
        writer.close()
    return True
