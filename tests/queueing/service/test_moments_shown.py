"""What people are told while they wait, compared with what else they are told: times."""

import asyncio
import random

from queueing.core.status import Standing
from queueing.service.job_queue import JobQueue
from tests.queueing.service.test_places_shown import installation, submit
from tests.samples import seeds
from tests.simulation.loop import run


@seeds([2, 0, 1, 3])
def test_no_job_is_done_before_its_turn(seeds: list[int]) -> None:
    """A message would say "ready at 01:24; your turn comes at about 01:25"."""
    for seed in seeds:
        print(f"seed {seed}")
        assert run(told_both(random.Random(seed))) > 20


async def told_both(rng: random.Random) -> int:
    """Check the times of every job each second; return how often a job was told both."""
    world, told = installation(rng), 0
    async with world.queue() as queue:
        for server in world.servers.values():
            server.service_s = rng.choice((3.0, 12.0, 25.0))  # not as configured
        await submit(world, queue, rng, 20)
        looks = 0
        while await queue.jobs.open_jobs():
            told += await check_all(queue)
            if rng.random() < 0.1 and looks < 200:
                await submit(world, queue, rng, 1)
            looks += 1
            await asyncio.sleep(1.0)
    return told


async def check_all(queue: JobQueue) -> int:
    """Check the times of every open job; return how many were told both."""
    standings = await queue.status.standings(await queue.jobs.open_jobs())
    return sum(check(standing) for standing in standings.values())


def check(standing: Standing) -> bool:
    """Check that a job's turn comes before its end; return whether it was told both."""
    starts, ends = standing.starts, standing.ends
    if starts is None or ends is None:
        return False
    assert starts.earliest <= ends.earliest
    assert ends.earliest <= ends.latest
    return True
