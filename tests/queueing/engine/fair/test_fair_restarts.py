"""The bound of a fair order applies across restarts, which would otherwise reset it."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from queueing.core.jobs import Job
from queueing.core.snapshot import Rules
from queueing.service.job_queue import JobQueue
from tests.samples import seeds
from tests.simulation.installation import NO_LIMITS, Installation, image_model, one_gpu, until
from tests.simulation.loop import in_virtual_time, run

TAKES_S = 10.0
BOUND_S = 90.0
PATIENT = 5  # jobs of one person who waits behind all others


@dataclass
class Crowd:
    """One person with some jobs, and a new one every ten seconds: the first would never be next."""

    there: Installation
    patient: list[Job] = field(default_factory=list)
    came: int = 0

    async def ask(self, queue: JobQueue, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            await self.submit(queue, f"new-{self.came}")
            self.came += 1
            await asyncio.sleep(TAKES_S)

    async def begin(self, queue: JobQueue) -> None:
        for _ in range(PATIENT + 1):
            self.patient.append(await self.submit(queue, "patient"))

    async def submit(self, queue: JobQueue, owner: str) -> Job:
        return await queue.submitter.submit(
            self.there.new("flux", "cat", owner=owner), limits=NO_LIMITS
        )


def fair(folder: Path) -> Installation:
    """Return a server with one model, whose queue is in fair order and survives a restart."""
    there = one_gpu(image_model("flux", service_s=TAKES_S, load_s=1.0))
    there.servers["comfy"].service_s = TAKES_S
    there.rules = Rules(order="fair", overtaken_s=BOUND_S)
    there.url = f"sqlite:///{folder}/queue.sqlite"
    return there


async def started(queue: JobQueue, jobs: list[Job]) -> list[Job]:
    found = [await queue.jobs.get(job.id) for job in jobs]
    return [job for job in found if job is not None and job.started_at is not None]


def runs(queue: JobQueue) -> set[str]:
    return {each.owner for each in queue.status.snapshot().running}


@seeds(range(4))
def test_no_one_waits_longer_than_the_bound_although_it_restarts(
    seeds: range, tmp_path: Path
) -> None:
    """A restart every few minutes would make a person wait as long as new people come."""
    for seed in seeds:
        print(f"seed {seed}")
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        run(restarted(fair(folder), Random(seed)))


async def restarted(there: Installation, chance: Random) -> None:
    """Restart every few minutes; those who came first must begin within the bound."""
    crowd, loop = Crowd(there), asyncio.get_running_loop()
    restarts = 0
    found: list[Job] = []
    began_at = there.clock.now()
    while len(found) <= PATIENT and restarts < 30:
        async with there.queue() as queue:
            if not crowd.patient:
                await crowd.begin(queue)
            await crowd.ask(queue, loop.time() + chance.uniform(30.0, 60.0))
            found = await started(queue, crowd.patient)
        restarts += 1
    assert restarts > 1
    assert len(found) == PATIENT + 1
    for place, job in enumerate(found):
        assert job.started_at is not None
        by_arrival_s = place * TAKES_S
        lost_s = restarts * TAKES_S  # a job that a restart breaks off begins again
        assert job.started_at - began_at <= by_arrival_s + BOUND_S + lost_s + 5.0


@in_virtual_time
async def test_those_who_come_after_a_restart_were_overtaken_by_no_one(tmp_path: Path) -> None:
    """Places are assigned again: new jobs would go first, as if they had waited for the bound."""
    there = fair(tmp_path)
    crowd, loop = Crowd(there), asyncio.get_running_loop()
    async with there.queue() as queue:
        await crowd.begin(queue)
        await crowd.ask(queue, loop.time() + 75.0)
        await until(lambda: runs(queue) == {"patient"})
    async with there.queue() as queue:
        await until(lambda: runs(queue))
        (first, *_) = [await crowd.submit(queue, "patient") for _ in range(3)]
        light = [await crowd.submit(queue, owner) for owner in ("an", "bob")]
        await asyncio.sleep(15 * TAKES_S)
        *before, last = [job.started_at for job in await started(queue, [*light, first])]
        assert last is not None
        assert len(before) == 2
        assert all(at is not None and at < last for at in before)
