"""Machines that sleep and are woken in virtual time, and the servers on them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from queueing.core.errors import Unavailable
from queueing.core.ports import HostControl
from queueing.core.specs import HostSpec
from tests.fakes.servers.backend import FakeServer

TAKES_S = 40.0


@dataclass
class FakeHostControl(HostControl):
    """Machines with their servers; `takes_s` until a call has an effect, None for never."""

    servers: Mapping[str, FakeServer]
    takes_s: float | None = TAKES_S
    deaf: int = 0  # calls that are lost
    refuses: bool = False
    sinks_s: float = 5.0
    calls: list[float] = field(default_factory=list)
    asleep: list[float] = field(default_factory=list)

    async def wake(self, host: HostSpec) -> None:
        loop = asyncio.get_running_loop()
        self.calls.append(loop.time())
        if self.takes_s is not None and len(self.calls) > self.deaf:
            loop.call_later(self.takes_s, self._set, host, True)

    async def sleep(self, host: HostSpec) -> None:
        if self.refuses:
            raise Unavailable("suspend ended with status 1")
        loop = asyncio.get_running_loop()
        self.asleep.append(loop.time())
        loop.call_later(self.sinks_s, self._set, host, False)

    def _set(self, host: HostSpec, up: bool) -> None:  # a callback
        for backend in host.backends:
            self.servers[backend.name].up = up
