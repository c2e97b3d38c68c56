"""What the contract suite of `queueing.core.ports.Backend` needs from each kind of backend.

A kind brings a module `harness_<kind>.py` with `HARNESSES`: by name, a function that opens a
harness. The suite collects them in `test_backend.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import uuid4

from queueing.core.catalog import ModelSpec
from queueing.core.ports import Backend
from queueing.core.requests import File, Request, Work


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A backend with its server, and what can be asked of them.

    `quick` ends soon; `long` runs until it is stopped; `files` belong to both. `absent` passes `check` but the server
    lacks it; `unusable` does not pass. `busy` tells whether the server works on anything, `die`
    kills it. None where a kind has no such thing. `remembers` tells whether the server can be
    asked for an attempt later.
    """

    backend: Backend
    model: ModelSpec
    quick: Request
    long: Request
    busy: Callable[[], Awaitable[bool]]
    files: tuple[File, ...] = ()
    absent: ModelSpec | None = None
    unusable: ModelSpec | None = None
    die: Callable[[], Awaitable[None]] | None = None
    remembers: bool = False

    def work(self) -> Work:
        """Return a new attempt at the quick request."""
        return self.asking(self.quick)

    def long_work(self) -> Work:
        """Return a new attempt at the long request."""
        return self.asking(self.long)

    def asking(self, request: Request) -> Work:
        """Return a new attempt at a request with the same files."""
        return Work(key=str(uuid4()), request=request, files=self.files)


Opens = Callable[[], AbstractAsyncContextManager[Harness]]


async def until(condition: Callable[[], Awaitable[bool]], *, within_s: float = 60.0) -> None:
    """Return when a server's state is as wished; fail after `within_s`."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110  # another process cannot signal
            await asyncio.sleep(0.01)
