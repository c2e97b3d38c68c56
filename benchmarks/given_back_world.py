"""A replay on hosts that are given back to their owners, and what left them because it was idle."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from benchmarks.schedule import Replay, rare_collections
from benchmarks.trace import JobOutcome, Outcome, Trace
from queueing.core.catalog import Catalog, HostSpec
from queueing.core.jobs import Job
from queueing.core.standings import Promised
from queueing.core.world import Leaving, Plan, World
from queueing.engine import scheduler as router
from queueing.service.jobqueue import JobQueue
from tests.simulation import loop as virtual

Kept = Mapping[str, Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Left:
    """A copy that left because it was idle."""

    at: float
    model: str


@dataclass(frozen=True, slots=True)
class Told:
    """A moment that a person was told; `renewed` where that was because a card had come back."""

    index: int
    promised: Promised
    renewed: bool = False


class GivenBack(Replay):
    """A replay on hosts that are given back."""

    def __init__(
        self, trace: Trace, change: Callable[[HostSpec], HostSpec], *, promises: bool = True
    ) -> None:
        super().__init__(trace, "full", promises=promises)
        self.left: list[Left] = []
        self.told: list[Told] = []
        self.untold = 0  # how many were told nothing at their acceptance
        self._change = change
        self._decide = self.watch

    def catalog(self) -> Catalog:
        """Return the trace's installation with hosts that are given back."""
        known = self.trace.catalog()
        return Catalog(known.models.values(), map(self._change, known.hosts.values()))

    def plan(self, world: World) -> Plan:
        """Ask the planner, and note what leaves because it is idle."""
        answer = self._decide(world)
        self.left += [
            Left(world.now, evict.model) for evict in answer.evictions if evict.why is Leaving.IDLE
        ]
        return answer

    async def _promises(self, queue: JobQueue, jobs: Sequence[Job]) -> dict[int, float | None]:
        found = await super()._promises(queue, jobs)
        for index, at in found.items():
            self.tell(index, at)
        return found

    def tell(self, index: int, at: float | None, *, renewed: bool = False) -> None:
        """Note what a person is told now."""
        if at is None:
            self.untold += 1
        else:
            now = asyncio.get_running_loop().time()
            self.told.append(Told(index, Promised(given_at=now, done_at=at), renewed))

    def kept(self, outcome: Outcome, kind: Callable[[Told, JobOutcome], str]) -> Kept:
        """Return by kind whether each moment told came true; those of jobs that were done."""
        found: dict[str, list[bool]] = {}
        for told in self.told:
            job = outcome.jobs[told.index]
            if job.finished_s is not None and job.state == "completed":
                right = told.promised.kept(job.finished_s)
                found.setdefault(kind(told, job), []).append(right)
        return found

    def hosts_of(self, model: str) -> set[str]:
        """Return the hosts a model may be loaded on."""
        known = self.trace.hosts_of()
        return {host for name in self.ledger.models[model].backends for host in known[name]}

    def played(self) -> Outcome:
        """Replay the trace to its end in virtual time."""
        with patch.object(router, "plan", self.plan), rare_collections():
            return virtual.run(self.run())


class Table:
    """Prints how many promises were kept, a row for each trace, and sums them up."""

    def __init__(self, kinds: Sequence[str], counts: Sequence[str]) -> None:
        self._sums: dict[str, list[bool]] = {kind: [] for kind in kinds}
        self._blank = " " * 8 * len(counts)
        heads = "".join(f"{head:>8}" for head in counts)
        print(f"{'trace':<20}{heads}{''.join(f'{kind:>12}' for kind in kinds)}")

    def row(self, name: str, counts: Sequence[int], found: Kept) -> None:
        """Print a row."""
        for kind, each in found.items():
            self._sums[kind] += each
        print(
            f"{name:<20}{''.join(f'{count:8}' for count in counts)}{self._cells(found)}", flush=True
        )

    def end(self, judged: Sequence[str], enough: float) -> bool:
        """Print the sums; return whether enough of each of these kinds were kept."""
        print(f"{'all':<20}{self._blank}{self._cells(self._sums)}")
        return all(sum(self._sums[kind]) >= enough * len(self._sums[kind]) for kind in judged)

    def _cells(self, found: Kept) -> str:
        each = [found.get(kind, ()) for kind in self._sums]
        return "".join(f"{sum(kept):>6}/{len(kept):<5}" for kept in each)
