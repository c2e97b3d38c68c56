"""What people are told while they wait, held against what happens then: places."""

import asyncio
import random
from collections.abc import Mapping

import pytest

from queueing.core.jobs import LANES, Job, JobEvent, JobState
from queueing.core.standings import Standing
from queueing.service.jobqueue import JobQueue
from tests.simulation.installation import NO_LIMITS, Installation, host, image_model
from tests.simulation.loop import run

MODELS = ("flux", "sdxl", "qwen")


def installation(rng: random.Random) -> Installation:
    """Return one or two cards for three models that do not fit beside each other."""
    cards = [f"comfy-{n}" for n in range(rng.randint(1, 2))]
    models = [
        image_model(name, *cards, vram_mb=9000, parallel=rng.choice((1, 1, 3))) for name in MODELS
    ]
    return Installation.of(models, [host(f"gpu-{n}", card) for n, card in enumerate(cards)])


async def submit(world: Installation, queue: JobQueue, rng: random.Random, count: int) -> list[Job]:
    """Let people of all lanes ask, within some seconds."""
    jobs = []
    for n in range(count):
        new = world.new(rng.choice(MODELS), f"{n}", lane=rng.choice(LANES), owner=f"web:{n}")
        jobs.append(await queue.submitter.submit(new, limits=NO_LIMITS))
        await asyncio.sleep(rng.choice((0.0, 0.0, 1.3)))
    return jobs


def places(standings: Mapping[int, Standing], model: str) -> list[tuple[int, int]]:
    """Return (place, id) of the jobs of a model that wait and are told one, in order."""
    return sorted(
        (standing.position, standing.job.id)
        for standing in standings.values()
        if standing.job.model == model and standing.position is not None
    )


@pytest.mark.parametrize("seed", range(12))
def test_places_are_one_order_and_jobs_start_in_it(seed: int) -> None:
    """Three people would be #1 of one line, or a later one would start first."""

    async def scenario() -> None:
        rng = random.Random(seed)
        world = installation(rng)
        async with world.queue() as queue:
            jobs = await submit(world, queue, rng, 40)
            shown: dict[int, int] = {}
            while open_jobs := await queue.jobs.open_jobs():
                standings = await queue.status.standings(open_jobs)
                for model in MODELS:
                    told = places(standings, model)
                    assert [place for place, _ in told] == list(range(1, len(told) + 1))
                for job_id, standing in standings.items():
                    if standing.position is not None:
                        assert standing.position <= shown.get(job_id, standing.position)
                        shown[job_id] = standing.position
                order = {model: [job for _, job in places(standings, model)] for model in MODELS}
                await asyncio.sleep(0.7)
                for model, line in order.items():
                    check_starts(world, line, model)
            assert {world.history(job.id)[-1] for job in jobs} == {JobEvent.COMPLETE}

    run(scenario())


def check_starts(world: Installation, line: list[int], model: str) -> None:
    """Check that of a line as shown the first ones have started, and no others."""
    begun = [JobEvent.START in world.history(job_id) for job_id in line]
    assert begun == sorted(begun, reverse=True), (model, line, begun)


def test_somebody_with_precedence_raises_a_place_and_is_counted() -> None:
    """A place would rise and nothing would say why."""

    async def scenario() -> None:
        world = Installation.of([image_model("flux")], [host("gpu", "comfy")])
        async with world.queue() as queue:
            await queue.admin.pause(model="flux")
            relaxed = world.new("flux", "a", lane="relaxed")
            waiting = await queue.submitter.submit(relaxed, limits=NO_LIMITS)
            await asyncio.sleep(1)
            before = (await queue.status.standings([waiting]))[waiting.id]
            assert (before.position, before.overtaken) == (1, 0)
            vip = await queue.submitter.submit(world.new("flux", "b", lane="vip"), limits=NO_LIMITS)
            assert vip.state is JobState.PENDING
            await asyncio.sleep(1)
            after = (await queue.status.standings([waiting]))[waiting.id]
            assert (after.position, after.overtaken) == (2, 1)

    run(scenario())
