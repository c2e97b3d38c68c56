"""What promises are worth on machines that sleep when they are idle, and wake for a job."""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.given_back_world import GivenBack, Table, Told
from benchmarks.servers import TraceServer
from benchmarks.trace import JobOutcome, Trace
from queueing.core.catalog import HostSpec, SleepSpec, WakeSpec

SINKS_S = 5.0  # until the servers of a machine that is told to sleep are away
WAKES_S = (15, 90)  # a machine's usual time until its servers answer
KEEP_SHARE = 0.5
WAKES_SHARE = (0.8, 1.3)  # of it, by chance, each time
KINDS = ("waking", "others", "sleepless")


class SleepyMachines:
    """The machines of a trace: they sleep when told, and wake when called.

    Each takes about the same time whenever it wakes. In half of them models outlast the sleep.
    """

    def __init__(self, servers: Mapping[str, Sequence[TraceServer]], seed: int) -> None:
        self._servers = servers
        self._rng = {name: random.Random(f"{seed}-{name}") for name in servers}
        self._usual_s = {name: rng.randint(*WAKES_S) for name, rng in self._rng.items()}
        self._keeps = {name: rng.random() < KEEP_SHARE for name, rng in self._rng.items()}
        self._called: set[str] = set()
        self.awake = dict.fromkeys(servers, True)
        self.slept = 0

    async def wake(self, host: HostSpec) -> None:
        """Wake a machine some time after the first call that it can hear."""
        name = host.machine_name
        if not self.awake[name] and name not in self._called:
            self._called.add(name)
            takes_s = self._usual_s[name] * self._rng[name].uniform(*WAKES_SHARE)
            asyncio.get_running_loop().call_later(takes_s, partial(self._set, name, up=True))

    async def sleep(self, host: HostSpec) -> None:
        """Put a machine to sleep."""
        self.slept += 1
        sinks = partial(self._set, host.machine_name, up=False)
        asyncio.get_running_loop().call_later(SINKS_S, sinks)

    def _set(self, name: str, *, up: bool) -> None:
        self._called.discard(name)
        self.awake[name] = up
        for server in self._servers[name]:
            server.up = up
            if not self._keeps[name]:
                server.forget()


class SleepRun(GivenBack):
    """A replay on machines that sleep after an idle time."""

    def __init__(self, trace: Trace, after_s: float, seed: int) -> None:
        wake = WakeSpec(mac="001a2b3c4d5e")
        sleep = SleepSpec(after_s=after_s, command=("suspend",))
        super().__init__(trace, lambda host: replace(host, wake=wake, sleep=sleep))
        self._sleepy = SleepyMachines(self._by_machine(), seed)
        self.machines = self._sleepy
        self._woke: set[int] = set()  # told while none of its machines was awake

    def _by_machine(self) -> Mapping[str, Sequence[TraceServer]]:
        cards = self.catalog().machines
        return {
            name: [self.servers[b] for b in dict.fromkeys(b.name for c in of for b in c.backends)]
            for name, of in cards.items()
        }

    @property
    def slept(self) -> int:
        """How often a machine was put to sleep."""
        return self._sleepy.slept

    def tell(self, index: int, at: float | None, *, renewed: bool = False) -> None:
        """Note what a person is told now, and whether a machine had to wake for it."""
        hosts = self.catalog().hosts
        on = self.hosts_of(self.trace.jobs[index].model)
        if not any(self._sleepy.awake[hosts[name].machine_name] for name in on):
            self._woke.add(index)
        super().tell(index, at, renewed=renewed)

    def kind(self, told: Told, _job: JobOutcome) -> str:
        """Return whether a machine had to wake first."""
        return "waking" if told.index in self._woke else "others"


def compare_sleep(
    traces: Iterable[tuple[str, Trace]], after_s: float, seed: int, enough: float
) -> bool:
    """Print how many promises were kept; return whether enough were for which a machine had to wake."""
    table = Table(KINDS, ("sleeps", "untold"))
    for name, trace in traces:
        run = SleepRun(trace, after_s, seed)
        found = run.kept(run.played(), run.kind)
        plain = GivenBack(trace, lambda host: host)
        sleepless = plain.kept(plain.played(), lambda _told, _job: "sleepless")
        table.row(name, (run.slept, run.untold), {**found, **sleepless})
    return table.end(("waking",), enough)
