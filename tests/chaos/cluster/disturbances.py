"""Disturbances of a cluster: processes end or freeze, cables fall silent or break, servers stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.chaos.cluster.machine import Machine
from tests.fakes.programs.postgres_server import PostgresServer

KINDS: Mapping[str, int] = {
    "kill": 6,
    "stop": 4,
    "freeze": 3,
    "silence": 3,
    "cut": 3,
    "apart": 2,
    "server": 2,
    "all": 1,
}
"""Each kind with how often it is drawn beside the others."""
ENDS = frozenset({"kill", "stop"})
SEPARATES = frozenset({"freeze", "silence", "cut"})
AT_THE_LEADER = 0.7  # of the disturbances of one machine
FOLLOWS_WITHIN_S = 30.0
LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Disturbance:
    """A disturbance that was carried out, from one UNIX time to another.

    `leads`: it happened to the process that held the queue's role.
    """

    kind: str
    who: str
    leads: bool
    began_at: float
    ended_at: float


class Disturber:
    """Disturbs a cluster repeatedly; `leader` returns the process that holds the queue's role."""

    def __init__(
        self,
        machines: Sequence[Machine],
        server: PostgresServer,
        random: Random,
        *,
        lease_s: float,
        leader: Callable[[], int | None],
    ) -> None:
        self._machines = machines
        self._server = server
        self._random = random
        self._lease_s = lease_s
        self._leader = leader
        self.done: list[Disturbance] = []
        self.faults: list[str] = []

    def draw(self, count: int) -> list[str]:
        """Return the kinds of this many disturbances: first each kind once, then by weight."""
        drawn: list[str] = self._random.sample(list(KINDS), len(KINDS))
        drawn += self._random.choices(list(KINDS), list(KINDS.values()), k=max(0, count))
        return drawn[:count]

    async def disturb(self, kind: str) -> None:
        """Carry out one disturbance; returns when it is over and a process leads."""
        leader = await self.led()
        await asyncio.gather(*(each.ready() for each in self._machines))
        others = [each for each in self._machines if each is not leader]
        at_the_leader = leader is not None and self._random.random() < AT_THE_LEADER
        victim = leader if at_the_leader and leader is not None else self._random.choice(others)
        deeds: Mapping[str, Callable[[Machine], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "freeze": self._freeze,
            "silence": self._silence,
            "cut": self._cut,
            "apart": self._set_apart,
            "server": self._restart_server,
            "all": self._kill_all,
        }
        who, began_at = victim.who, time.time()
        await deeds[kind](victim)
        self.done.append(
            Disturbance(
                kind=kind,
                who=who,
                leads=victim is leader,
                began_at=began_at,
                ended_at=time.time(),
            )
        )

    async def led(self) -> Machine | None:
        """Return the machine that leads, as soon as there is one."""
        try:
            async with asyncio.timeout(FOLLOWS_WITHIN_S):
                while True:
                    pid = self._leader()
                    for machine in self._machines:
                        if pid is not None and machine.pid == pid:
                            return machine
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            self.faults.append(f"no process led after {self.done[-1:]}")
            return None

    # ------------------------------------------------------------ the deeds

    async def _kill(self, victim: Machine) -> None:
        await victim.kill()
        await self._while(self.led())
        await victim.start()

    async def _stop(self, victim: Machine) -> None:
        await victim.stop()
        await self._while(self.led())
        await victim.start()

    async def _freeze(self, victim: Machine) -> None:
        victim.freeze()
        await self._for_a_while()
        victim.thaw()

    async def _silence(self, victim: Machine) -> None:
        victim.cables["database"].silence()
        await self._for_a_while()
        victim.cables["database"].mend()

    async def _cut(self, victim: Machine) -> None:
        victim.cables["database"].cut()
        if self._random.random() < 0.5:  # a connection that breaks, and can be made again
            await asyncio.sleep(self._random.uniform(0.0, 0.3))
        else:
            await self._for_a_while()
        victim.cables["database"].mend()

    async def _set_apart(self, victim: Machine) -> None:
        """Cut the cable by which the other processes reach a process, or let it fall silent."""
        cable = victim.cables["entrance"]
        if self._random.random() < 0.5:
            cable.silence()
        else:
            cable.cut()
        await self._for_a_while()
        cable.mend()

    async def _restart_server(self, _: Machine) -> None:
        how = self._random.choice(["immediate", "immediate", "fast"])
        await asyncio.to_thread(self._server.stop, how)
        await asyncio.sleep(self._random.choice([0.0, 0.5, self._lease_s + 1.0]))
        await asyncio.to_thread(self._server.start)

    async def _kill_all(self, _: Machine) -> None:
        await asyncio.gather(*(each.kill() for each in self._machines))
        await asyncio.gather(*(each.start() for each in self._machines))

    async def _while(self, following: Awaitable[object]) -> None:
        """Wait until another process follows, and some time more or less."""
        await following
        await asyncio.sleep(self._random.uniform(0.0, 1.0))

    async def _for_a_while(self) -> None:
        """Wait mostly for longer than a lease, and sometimes for less."""
        short = self._random.random() < 0.2
        share = self._random.uniform(0.2, 0.9) if short else self._random.uniform(1.4, 2.5)
        await asyncio.sleep(self._lease_s * share)
