"""What promises are worth on cards that other programs take: stays drawn by lot, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import inf

from benchmarks.given_back_world import GivenBack, Table, Told
from benchmarks.servers import Ledger, index_of
from benchmarks.trace import JobOutcome, Trace
from queueing.core.catalog import HostSpec
from queueing.core.host_activity import HostActivity
from queueing.core.jobs import JobState
from queueing.core.ports import CardLook
from queueing.service.jobqueue import JobQueue

LEAST_MB = 1000
GAME_MB = (3000, 12_000)
PAUSE_SHARE = (0.15, 0.45)  # of the time in which requests come: from one stay to the next
STAY_SHARE = (0.05, 0.2)
FOLLOWS_S = 4.0  # after which what people are shown follows what is expected
KINDS = ("unforeseen", "during", "back", "after", "others")
JUDGED = KINDS[1:]


@dataclass(frozen=True, slots=True)
class Stay:
    """A program on a card, in seconds from the trace's start."""

    begins_s: float
    ends_s: float
    mb: int


Stays = Mapping[str, Sequence[Stay]]


def drawn_stays(trace: Trace, seed: int) -> Stays:
    """Return by host when another program takes its card."""
    span_s = max(job.at for job in trace.jobs)
    return {host.name: _stays(random.Random(f"{seed}-{host.name}"), span_s) for host in trace.hosts}


def _stays(rng: random.Random, span_s: float) -> Sequence[Stay]:
    found: list[Stay] = []
    at = rng.uniform(*PAUSE_SHARE) * span_s
    while at < span_s:
        ends_s = at + rng.uniform(*STAY_SHARE) * span_s
        found.append(Stay(round(at), round(ends_s), rng.randint(*GAME_MB)))
        at = ends_s + rng.uniform(*PAUSE_SHARE) * span_s
    return found


class GameCards:
    """The cards of a trace, with the programs that stay there: what a driver would tell."""

    def __init__(self, stays: Stays, ledger: Ledger) -> None:
        self._stays = stays
        self._ledger = ledger

    def _game_mb(self, host: str) -> int:
        now = asyncio.get_running_loop().time()
        return sum(stay.mb for stay in self._stays[host] if stay.begins_s <= now < stay.ends_s)

    async def use(self, host: HostSpec, _loaded: frozenset[str]) -> CardLook | None:
        """Return what the largest of the other programs holds."""
        return CardLook(others_mb=self._game_mb(host.name))

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return a card's memory and what is free of it."""
        held = sum(self._ledger.cards[host.name].held.values())
        return host.vram_mb, max(0, host.vram_mb - held - self._game_mb(host.name))


@dataclass(slots=True)
class Rest:
    """A time in which the queue left a card to another program; `begins_s` is when that came."""

    host: str
    begins_s: float
    seen_s: float
    over_s: float = inf


class GameRun(GivenBack):
    """A replay in which other programs take cards, and what was told of jobs on the way."""

    def __init__(self, trace: Trace, stays: Stays) -> None:
        super().__init__(trace, lambda host: replace(host, yields_above_mb=LEAST_MB))
        self.stays = stays
        self.cards = self.memory = GameCards(stays, self.ledger)
        self.rests: list[Rest] = []
        self._shown: dict[int, float | None] = {}  # the last moment shown of each job
        self._looks: set[asyncio.Task[None]] = set()
        self._resting: set[str] = set()

    @asynccontextmanager
    async def _queue(self) -> AsyncIterator[JobQueue]:
        async with super()._queue() as queue:

            def notice(hosts: Mapping[str, HostActivity]) -> None:
                if self._note_rests(hosts):
                    look = asyncio.create_task(self._look(queue))
                    self._looks.add(look)
                    look.add_done_callback(self._looks.discard)

            queue.hosts.subscribe(notice)
            yield queue
            for look in self._looks:
                look.cancel()

    def _note_rests(self, hosts: Mapping[str, HostActivity]) -> bool:
        """Note which hosts began or ceased to yield; return whether one did."""
        now, before = asyncio.get_running_loop().time(), set(self._resting)
        for name, activity in hosts.items():
            yields = activity.rest == "yielding"
            if yields and name not in self._resting:
                stay = max(stay.begins_s for stay in self.stays[name] if stay.begins_s <= now)
                self.rests.append(Rest(name, stay, now))
                self._resting.add(name)
            elif not yields and name in self._resting:
                next(
                    rest for rest in self.rests if rest.host == name and rest.over_s == inf
                ).over_s = now
                self._resting.remove(name)
        return self._resting != before

    async def _look(self, queue: JobQueue) -> None:
        """Show those who wait what has become of their moments, at once and once that is settled."""
        await self._show(queue, {index for index, shown in self._shown.items() if shown is None})
        await asyncio.sleep(FOLLOWS_S)
        await self._show(queue, set(self._shown))

    async def _show(self, queue: JobQueue, indexes: set[int]) -> None:
        opened = [self._ids[index] for index in sorted(indexes - self.states.keys())]
        jobs = [job for each in opened if (job := await queue.jobs.get(each)) is not None]
        waiting = [job for job in jobs if job.state is JobState.PENDING]
        standings = await queue.status.standings(waiting)
        for job in waiting:
            self.tell(index_of(job.request), standings[job.id].done_at, renewed=True)

    def tell(self, index: int, at: float | None, *, renewed: bool = False) -> None:
        """Note what a person is told now, if it is another moment than before."""
        if not renewed or (at is not None and at != self._shown[index]):
            super().tell(index, at, renewed=renewed)
        self._shown[index] = at

    def kind(self, told: Told, job: JobOutcome) -> str:
        """Return what could be known of other programs when a moment was told."""
        hosts, began = self.hosts_of(job.model), job.started_s or 0.0
        at = told.promised.given_at
        near = [rest for rest in self.rests if rest.host in hosts]
        taken = [rest for rest in near if rest.seen_s <= at < rest.over_s]
        begun = any(rest.seen_s > at and rest.begins_s < began for rest in near)
        freed = any(rest.over_s <= began for rest in taken)
        if begun or (freed and len(taken) < len(hosts)):
            return "unforeseen"
        if told.renewed:
            return "back"
        if taken:
            return "during"
        return "after" if any(rest.over_s <= at for rest in near) else "others"


def compare_games(traces: Iterable[tuple[str, Trace]], seed: int, enough: float) -> bool:
    """Print how many promises were kept; return whether enough of each kind were."""
    table = Table(KINDS, ("stays", "untold"))
    for name, trace in traces:
        run = GameRun(trace, drawn_stays(trace, seed))
        found = run.kept(run.played(), run.kind)
        table.row(name, (len(run.rests), run.untold), found)
    return table.end(JUDGED, enough)
