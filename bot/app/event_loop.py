"""The event loop of the commands: names are looked up in threads of their own.

Where the network is away, a look-up takes as long as the system waits for its name servers, 10 to
30 s by default. asyncio does them in the threads of `asyncio.to_thread`: a few names of servers and
chats would hold up every picture, and a stop.
"""

import asyncio
import socket
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from queueing.core.daemon_threads import in_daemon_thread
from queueing.core.undisturbed import undisturbed

if sys.platform == "win32":
    _Usual = asyncio.ProactorEventLoop
else:
    _Usual = asyncio.SelectorEventLoop

T = TypeVar("T")
Found = list[Any]  # of tuples, as `socket.getaddrinfo` returns them


class EventLoop(_Usual):
    """asyncio's loop, whose look-ups hold nothing up; the same one at the same time is made once."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[tuple[object, ...], asyncio.Future[Found]] = {}

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as asyncio calls it
        proto: int = 0,
        flags: int = 0,
    ) -> Found:
        """Return the addresses of a name. Raises `OSError`."""
        wanted = (host, port, family, type, proto, flags)
        lookup = self._lookups.get(wanted)
        if lookup is None:
            lookup = in_daemon_thread(partial(socket.getaddrinfo, *wanted), "lookup")
            self._lookups[wanted] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(wanted))
        return await undisturbed(lookup)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on such a loop and return what it returns, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(main)
