"""Tells that a server has gone away, however soon it is back: a connection to it breaks.

Nothing is sent, so a server that accepts work and never does it shows its end here as well.
"""

import asyncio
from contextlib import suppress

CONNECT_S = 5.0
AT_ONCE_S = 1.0  # a connection that ends sooner found nobody behind a forwarder
AGAIN_S = 5.0  # between connections that end at once though the server has not gone


async def gone(host: str, port: int) -> None:
    """Return when nobody is there to connect to, if only for the moment of a restart.

    Servers and proxies end silent connections after a while; then the next one is accepted, and
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
    """Hold a connection until the other side ends it; False when there is none to be had."""
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except OSError:  # a timeout is one
        return False
    try:
        with suppress(OSError):
            while await reader.read(4096):  # some say why they end it
                pass
    finally:
        writer.close()
    return True
