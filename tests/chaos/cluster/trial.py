"""A trial of several processes on one real PostgreSQL, in which the leader changes constantly.

It is judged as a trial of one process is, by what people see and servers do; and also that only one
process writes and one listens at any time, and how long the next one takes to follow.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg

from bot.app.setup import MIGRATIONS
from queueing.store.postgres.schema import migrate
from queueing.store.sql.migrations import QUEUE
from tests.chaos.cluster.child import HERE_NAME
from tests.chaos.cluster.cluster_verdict import ClusterVerdict
from tests.chaos.cluster.disturbances import Disturber
from tests.chaos.cluster.filling import FILLER, fill, with_filler
from tests.chaos.cluster.front import Front
from tests.chaos.cluster.ledger import INSTALL, SETTINGS, Heard, Ledger
from tests.chaos.cluster.machine import Machine
from tests.chaos.installations import FakeInstallation, Outages
from tests.chaos.trial import CHATS, STUCK_AFTER_S
from tests.chaos.verdict import Row
from tests.chaos.world import COLUMNS, World, as_rows
from tests.fakes.ports import port_of
from tests.fakes.programs.postgres_server import (
    NOT_INSTALLED,
    PostgresServer,
    binaries,
    running_server,
)

LEASE_S = 3.0
CLOCKS_S = (0.0, 30.0, -50.0)  # a process whose clock is more than a minute off does not lead
PAUSE_S = (0.5, 2.5)  # between disturbances
_JOBS = f"SELECT {COLUMNS} FROM jobs WHERE model <> '{FILLER}' ORDER BY id"
_LEADER = "SELECT holder FROM roles WHERE name = 'queue' AND holder <> ''"
_CLUSTER = f"""
cluster: {{{{lease_s: {LEASE_S}, listen: "{{listen}}", advertise: "{{advertise}}"}}}}
"""


class ClusterTrial:
    """A number of disturbances of several processes; `waiting` jobs are in the queue beforehand."""

    def __init__(
        self,
        folder: Path,
        *,
        processes: int,
        kills: int,
        seed: int,
        waiting: int = 0,
        quick: bool = True,
    ) -> None:
        self._folder = folder
        self._processes = processes
        self._kills = kills
        self._seed = seed
        self._waiting = waiting
        self._quick = quick
        self._random = Random(seed)
        self._installation = FakeInstallation()
        self._outages = Outages(self._installation.servers, Random(seed + 2), 1.0)
        self._heard: list[Heard] = []
        self._machines: list[Machine] = []
        self._port = port_of(self)
        self._database = ""

    async def run(self) -> ClusterVerdict:
        """Run it and return what it showed. Raises `RuntimeError` where there is no PostgreSQL."""
        programs = binaries()
        if programs is None:
            raise RuntimeError(NOT_INSTALLED)
        with running_server(programs, *SETTINGS) as server:
            async with AsyncExitStack() as stack:
                return await self._tried(server, stack)

    async def _tried(self, server: PostgresServer, stack: AsyncExitStack) -> ClusterVerdict:
        verdict = ClusterVerdict(kills=self._kills, stops=0)
        world = await World.begin(stack, self._installation, self._seed, processes=self._processes)
        self._database = _prepared(server)
        os.environ |= world.secrets
        await self._build(stack, server, world)
        disturber = Disturber(
            self._machines,
            server,
            self._random,
            lease_s=LEASE_S,
            leader=lambda: self._leader(server),
        )
        await self._live(world, server, disturber, verdict)
        rows = self._rows(server)
        ledger = Ledger.read(server, self._database)
        moments = ledger.moments()
        await world.judge(verdict, [_timed(row, moments) for row in rows])
        verdict.judge_cluster(ledger, self._heard, disturber.done)
        verdict.faults += [
            *disturber.faults,
            *(fault for each in self._machines for fault in each.faults),
        ]
        verdict.count_outages(self._outages.kills)
        return verdict

    async def _live(
        self, world: World, server: PostgresServer, disturber: Disturber, verdict: ClusterVerdict
    ) -> None:
        await asyncio.gather(*(machine.start() for machine in self._machines))
        await disturber.led()
        await fill(world.programs.ports, self._waiting)
        asking = world.asking(self._kills)
        for kind in disturber.draw(self._kills):
            await asyncio.sleep(self._random.uniform(*PAUSE_S))
            await disturber.disturb(kind)
            world.know(self._rows(server))
            self._outages.perhaps()
        await self._outages.over()
        asking.cancel()
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()  # a crowd that fails must not make a trial look good
        await self._quiet(world, server, verdict)
        verdict.faults += await world.web.last_look()
        for machine in self._machines:
            await machine.stop()

    async def _quiet(self, world: World, server: PostgresServer, verdict: ClusterVerdict) -> None:
        """Wait until nothing is left to do, or the rest does not become less."""
        least = world.left(self._rows(server))
        try:
            async with asyncio.timeout(STUCK_AFTER_S) as limit:
                while left := world.left(self._rows(server)):
                    if left < least:
                        least = left
                        limit.reschedule(asyncio.get_running_loop().time() + STUCK_AFTER_S)
                    await asyncio.sleep(0.3)
        except TimeoutError:
            verdict.faults.append(f"{least} requests do not end")

    # ------------------------------------------------------------ the machines

    async def _build(self, stack: AsyncExitStack, server: PostgresServer, world: World) -> None:
        entrance = port_of(self)
        services = {
            "database": (server.port, port_of(self)),
            "telegram": (_port(world.telegram.url), port_of(self)),
            "discord": (_port(world.discord.url), port_of(self)),
        }
        world.telegram.api.called_from = lambda who, what: self._hear(who, "telegram", what)
        world.discord.rest.called_from = lambda who, what: self._hear(who, "discord", what)
        world.discord.gateway.called_from = lambda who, what: self._hear(who, "discord", what)
        pages = [port_of(self) for _ in range(self._processes)]
        for number in range(self._processes):
            services["entrance"] = (port_of(self), entrance)
            machine = Machine(
                number, services, clock_s=CLOCKS_S[number % len(CLOCKS_S)], quick=self._quick
            )
            await stack.enter_async_context(machine)
            api = world.programs.ports[number]
            config = self._config(world, machine, pages[number], api)
            await machine.install(self._folder, config, api=api)
            self._machines.append(machine)
        await stack.enter_async_context(Front(world.web.port, pages, self._visited))

    def _config(self, world: World, machine: Machine, page: int, api: int) -> str:
        cable = machine.cables["database"]
        database = f"{cable.host}:{cable.port}/{self._database}"
        chats = CHATS.format(
            telegram=f"http://{HERE_NAME}:{machine.cables['telegram'].port}",
            web=page,
            api=api,
            database=f"postgresql://usher@{database}",
            most=500 + self._waiting,
        )
        reached = machine.cables["entrance"]
        cluster = _CLUSTER.format(
            listen=f"127.0.0.1:{reached.service_port}", advertise=f"{reached.host}:{reached.port}"
        )
        return with_filler(self._installation.config()) + chats + cluster

    def _hear(self, who: str, platform: str, what: str) -> None:
        """Record a call of a live process; what a dead one sent earlier is ignored."""
        if any(machine.who == who and machine.speaks for machine in self._machines):
            self._heard.append(Heard(at=time.time(), who=who, platform=platform, what=what))

    def _visited(self, number: int) -> None:
        self._hear(self._machines[number].who, "web", "answered a visitor")

    # ------------------------------------------------------------ the database

    def _leader(self, server: PostgresServer) -> int | None:
        """Return the number of the process that holds the queue's role, or None."""
        try:
            found = server.sql(_LEADER, database=self._database)
        except psycopg.Error:  # it restarts
            return None
        return int(found[0][0].split(":")[-2]) if found else None

    def _rows(self, server: PostgresServer) -> Sequence[Row]:
        return as_rows(server.sql(_JOBS, database=self._database))


def _prepared(server: PostgresServer) -> str:
    """Return a database with today's tables and triggers that record every change."""
    name = server.database()
    with psycopg.connect(server.url(name), cursor_factory=psycopg.RawCursor) as plain:
        migrate(plain, (QUEUE, MIGRATIONS))
    server.sql(*INSTALL, database=name)
    return name


def _timed(row: Row, moments: Mapping[int, tuple[float, float | None]]) -> Row:
    """Return a job with times by the server's clock, as the processes' clocks are shifted."""
    accepted_at, started_at = moments[row.id]
    return replace(row, queued_at=accepted_at, started_at=started_at)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
