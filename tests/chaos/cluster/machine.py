"""A machine of the cluster: one life of the program after the other, behind its own cables."""

import asyncio
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

from tests.chaos.cluster.cable import Cable
from tests.chaos.cluster.child import CLOCK, HERE, HERE_NAME, PLAIN
from tests.chaos.crash_points import DISCORD
from tests.chaos.runs import STOPS_WITHIN_S, Fate, Launcher, Run

READY_WITHIN_S = 60.0
LOOK_S = 0.05
PROGRAM = "tests.chaos.cluster.child"
LIVES = 200  # of one machine, by the last part of an address


class Machine:
    """`usher run` on a machine, whose clock may be off by `clock_s`.

    `services` are the ports of the services behind cables, each with its cable's port, which is the
    same on every machine. `who` is the address it calls from, a different one in each life.
    """

    def __init__(
        self, number: int, services: Mapping[str, tuple[int, int]], *, clock_s: float, quick: bool
    ) -> None:
        self.number = number
        self.cables = {
            name: Cable(port, host=f"127.20.{number}.1", port=common_port)
            for name, (port, common_port) in services.items()
        }
        self.faults: list[str] = []
        self._clock_s = clock_s
        self._quick = quick
        self._api = 0
        self._life = 0
        self._silent = True
        self._stack = AsyncExitStack()
        self._launcher: Launcher | None = None
        self._run: Run | None = None

    async def __aenter__(self) -> Self:
        for cable in self.cables.values():
            await self._stack.enter_async_context(cable)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def install(self, folder: Path, config: str, *, api: int) -> None:
        """Prepare lives with a configuration; `api` is the port of the API."""
        self._api = api
        file = folder / f"config-{self.number}.yaml"
        file.write_text(config, encoding="utf-8")
        environment = {
            HERE: self.cables["telegram"].host,
            DISCORD: f"http://{HERE_NAME}:{self.cables['discord'].port}",
            CLOCK: str(self._clock_s),
            PLAIN: "" if self._quick else "yes",
        }
        self._launcher = await self._stack.enter_async_context(
            Launcher(
                file,
                folder / f"log-{self.number}.txt",
                program=PROGRAM,
                environment=environment,
            )
        )

    @property
    def who(self) -> str:
        """The address that this life calls from."""
        high, low = divmod(self._life, LIVES)
        return f"127.{self.number + 10}.{high}.{low + 1}"

    @property
    def pid(self) -> int | None:
        """The id of its process, or None while none runs."""
        return None if self._run is None or self._run.ended.done() else self._run.pid

    @property
    def speaks(self) -> bool:
        """Whether it can act now: it runs and is not frozen."""
        return not self._silent

    async def start(self) -> None:
        """Begin the next life."""
        assert self._launcher is not None
        self._life += 1
        for cable in self.cables.values():
            cable.source = self.who
        self._run = await self._launcher.begin(Fate())
        self._silent = False

    async def ready(self) -> None:
        """Wait until it has joined the others, as programs can tell; an ended process never has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WITHIN_S):
                while self.pid is not None:
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", self._api)
                    except OSError:
                        await asyncio.sleep(LOOK_S)
                    else:
                        writer.close()
                        return

    async def kill(self) -> None:
        """End it with kill -9."""
        assert self._run is not None
        self._silent = True
        self._run.kill()
        if (status := await self._run.ended) != -signal.SIGKILL:
            self.faults.append(f"machine {self.number} ended by itself with {status}")

    async def stop(self) -> None:
        """Stop it in order."""
        assert self._run is not None
        self._run.kill(signal.SIGTERM)
        await asyncio.wait([self._run.ended], timeout=STOPS_WITHIN_S)
        self._silent = True
        if not self._run.ended.done():
            self.faults.append(f"machine {self.number} does not stop in order")
            self._run.kill()
            await self._run.ended
        elif status := self._run.ended.result():
            self.faults.append(f"machine {self.number} stopped in order with {status}")

    def freeze(self) -> None:
        """Stop it from doing anything."""
        assert self._run is not None
        self._silent = True
        self._run.kill(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue."""
        assert self._run is not None
        self._run.kill(signal.SIGCONT)
        self._silent = False
