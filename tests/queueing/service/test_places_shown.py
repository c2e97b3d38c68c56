"""What people are told while they wait, compared with what happens then: places."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

from queueing.core.events import JobChanged, QueuesMoved
from queueing.core.jobs import LANES, Job, JobEvent, JobState
from queueing.core.snapshot import Rules
from queueing.core.status import Standing
from queueing.service.job_queue import JobQueue
from tests.samples import seeds
from tests.simulation.installation import Installation, ended, host, image_model, one_gpu
from tests.simulation.loop import in_virtual_time, run

MODELS = ("flux", "sdxl", "qwen")


def installation(rng: random.Random) -> Installation:
    """Return one or two GPUs for three models that do not fit beside each other."""
    gpus = [f"comfy-{n}" for n in range(rng.randint(1, 2))]
    models = [
        image_model(name, *gpus, vram_mb=9000, parallel=rng.choice((1, 1, 3))) for name in MODELS
    ]
    return Installation.of(models, [host(f"gpu-{n}", gpu) for n, gpu in enumerate(gpus)])


async def submit(world: Installation, queue: JobQueue, rng: random.Random, count: int) -> list[Job]:
    """Let people in all lanes ask, within some seconds."""
    jobs = []
    for n in range(count):
        model, lane = rng.choice(MODELS), rng.choice(LANES)
        jobs.append(await world.ask(queue, model, f"{n}", lane=lane, owner=f"web:{n}"))
        await asyncio.sleep(rng.choice((0.0, 0.0, 1.3)))
    return jobs


def places(standings: Mapping[int, Standing], model: str) -> list[tuple[int, int]]:
    """Return (place, id) of the waiting jobs of a model that have a place, in order."""
    return sorted(
        (standing.position, standing.job.id)
        for standing in standings.values()
        if standing.job.model == model and standing.position is not None
    )


@seeds(range(12))
def test_places_are_one_order_and_jobs_start_in_it(seeds: range) -> None:
    """Three people would be #1 of one queue, or a later one would start first."""
    for seed in seeds:
        print(f"seed {seed}")
        run(by_arrival(random.Random(seed)))


async def by_arrival(rng: random.Random) -> None:
    """Let forty jobs be served, and check all places whenever one of them may have begun."""
    world = installation(rng)
    async with world.queue() as queue:
        jobs = await submit(world, queue, rng, 40)
        shown: dict[int, int] = {}
        while open_jobs := await queue.jobs.open_jobs():
            standings = await queue.status.standings(open_jobs)
            order = orders(standings)
            for job_id, standing in standings.items():
                if standing.position is not None:
                    assert standing.position <= shown.get(job_id, standing.position)
                    shown[job_id] = standing.position
            await asyncio.sleep(0.7)
            for model, waiting in order.items():
                check_starts(world, waiting, model)
        assert {world.history(job.id)[-1] for job in jobs} == {JobEvent.COMPLETE}


def orders(standings: Mapping[int, Standing]) -> dict[str, list[int]]:
    """Return the jobs of each model in the order of their places, which are the first numbers."""
    order = {}
    for model in MODELS:
        told = places(standings, model)
        assert [place for place, _ in told] == list(range(1, len(told) + 1))
        order[model] = [job for _, job in told]
    return order


def check_starts(world: Installation, queue: list[int], model: str) -> None:
    """Check that the first jobs of a shown queue have started, and no others."""
    begun = [JobEvent.START in world.history(job_id) for job_id in queue]
    assert begun == sorted(begun, reverse=True), (model, queue, begun)


@seeds(range(8))
def test_places_in_fair_order_are_one_order_and_jobs_start_in_it(seeds: range) -> None:
    """A person would read that they are next, and another person's request would start."""
    for seed in seeds:
        print(f"seed {seed}")
        run(in_fair_order(random.Random(seed)))


async def in_fair_order(rng: random.Random) -> None:
    """Let forty jobs of three people run, and check places whenever exactly one has begun."""
    world = installation(rng)
    world.rules = Rules(order="fair", overtaken_s=rng.choice((5.0, 60.0, 1800.0)))
    async with world.queue() as queue:
        jobs, checked = [], 0
        for n in range(40):
            owner = rng.choice(("web:1", "web:1", "web:2", "web:3"))
            model, lane = rng.choice(MODELS), rng.choice(LANES)
            jobs.append(await world.ask(queue, model, f"{n}", lane=lane, owner=owner))
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.3)))
        while open_jobs := await queue.jobs.open_jobs():
            order = orders(await queue.status.standings(open_jobs))
            seen = len(world.events)
            await asyncio.sleep(0.3)
            changes = [e for e in world.events[seen:] if isinstance(e, JobChanged)]
            begun = {change.job.model for change in changes}
            # What starts or ends elsewhere in between may give turns to others.
            if len(begun) == 1 and {change.event for change in changes} == {JobEvent.START}:
                (model,) = begun
                check_starts(world, order[model], model)
                checked += 1
        assert checked
        assert {world.history(job.id)[-1] for job in jobs} == {JobEvent.COMPLETE}


@in_virtual_time
async def test_in_a_fair_order_a_newcomer_goes_before_a_flood_and_all_are_told() -> None:
    """The flood would go on as before, or its owner would read a wrong place."""
    world = one_gpu(image_model("flux"))
    world.rules = Rules(order="fair")
    async with world.queue() as queue:
        flood = [await world.ask(queue, "flux", f"{n}") for n in range(5)]
        await asyncio.sleep(12)  # the first one runs
        light = await world.ask(queue, "flux", "light", owner="web:2")
        told = await queue.status.standings([*flood[1:], light])
        assert [told[job.id].position for job in (*flood[1:], light)] == [2, 3, 4, 5, 1]
        done_at = [ends.at for job in (light, *flood[1:]) if (ends := told[job.id].ends)]
        assert len(done_at) == 5
        assert done_at == sorted(done_at)
        await asyncio.sleep(1)
        moved = [e for e in world.events if isinstance(e, QueuesMoved) and "flux" in e.models]
        assert moved
        await ended(queue, flood[-1])
    starts = [prompt for _, _, prompt in world.servers["comfy"].starts]
    assert starts == ["0", "light", "1", "2", "3", "4"]


@in_virtual_time
async def test_an_admin_puts_a_job_first_in_a_fair_order_too() -> None:
    """`/move` would report success and change nothing."""
    world = one_gpu(image_model("flux"))
    world.rules = Rules(order="fair")
    async with world.queue() as queue:
        flood = [await world.ask(queue, "flux", f"{n}") for n in range(3)]
        await asyncio.sleep(12)
        light = await world.ask(queue, "flux", "light", owner="web:2")
        await queue.admin.move_first(flood[2].id)
        await asyncio.sleep(0.5)
        told = await queue.status.standings([*flood[1:], light])
        assert [told[job.id].position for job in (flood[2], light, flood[1])] == [1, 2, 3]
        await ended(queue, flood[1])
    starts = [prompt for _, _, prompt in world.servers["comfy"].starts]
    assert starts == ["0", "2", "light", "1"]


@in_virtual_time
async def test_what_an_admin_put_first_stays_first_after_a_restart(tmp_path: Path) -> None:
    """The admin's order would only apply until the next update of the bot."""
    world = one_gpu(image_model("flux"))
    world.rules = Rules(order="fair")
    world.url = f"sqlite:///{tmp_path}/usher.db"
    async with world.queue() as queue:
        used = await world.ask(queue, "flux", "used")
        await ended(queue, used)
        await queue.admin.pause(model="flux")
        flood = [await world.ask(queue, "flux", f"{n}") for n in range(3)]
        light = await world.ask(queue, "flux", "light", owner="web:2")
        await queue.admin.move_first(flood[2].id)
    async with world.queue() as queue:
        await queue.admin.resume(model="flux")
        await asyncio.sleep(0.5)
        told = await queue.status.standings([flood[0], light])
        assert [told[job.id].position for job in (light, flood[0])] == [1, 2]
        await ended(queue, flood[1])
    starts = [prompt for _, _, prompt in world.servers["comfy"].starts]
    assert starts == ["used", "2", "light", "0", "1"]


@in_virtual_time
async def test_a_fair_order_knows_after_a_restart_who_used_the_gpus(tmp_path: Path) -> None:
    """A restart would make the owner of a flood a newcomer."""
    url = f"sqlite:///{tmp_path}/usher.db"
    world = one_gpu(image_model("flux"), url=url)
    world.rules = Rules(order="fair")
    async with world.queue() as queue:
        job = await world.ask(queue, "flux", "first")
        await ended(queue, job)
        await queue.admin.pause(model="flux")
        for owner in ("web:1", "web:2"):
            await world.ask(queue, "flux", owner, owner=owner)
    async with world.queue() as queue:
        await queue.admin.resume(model="flux")
        for waiting in await queue.jobs.open_jobs():
            await ended(queue, waiting)
    assert [prompt for _, _, prompt in world.servers["comfy"].starts][1:] == ["web:2", "web:1"]


@in_virtual_time
async def test_somebody_with_precedence_raises_a_place_and_is_counted() -> None:
    """A place would rise and nothing would say why."""
    world = one_gpu(image_model("flux"))
    async with world.queue() as queue:
        await queue.admin.pause(model="flux")
        waiting = await world.ask(queue, "flux", "a", lane="relaxed")
        await asyncio.sleep(1)
        before = (await queue.status.standings([waiting]))[waiting.id]
        assert (before.position, before.overtaken) == (1, 0)
        vip = await world.ask(queue, "flux", "b", lane="vip")
        assert vip.state is JobState.PENDING
        await asyncio.sleep(1)
        after = (await queue.status.standings([waiting]))[waiting.id]
        assert (after.position, after.overtaken) == (2, 1)
