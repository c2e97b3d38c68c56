"""What people are told while they wait, compared with what happens then: reasons."""

import asyncio
import random
from dataclasses import dataclass

from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import ModelStatus
from tests.samples import seeds
from tests.simulation.installation import Installation, ended, host, image_model
from tests.simulation.loop import run

MODELS = ("flux", "sdxl", "qwen")


@dataclass(frozen=True)
class Begun:
    """A job began on a server."""

    at: float
    model: str
    backend: str
    queued_at: float


def installation() -> Installation:
    """Return a GPU that holds one of the three models at a time."""
    models = [image_model(name, vram_mb=16000) for name in MODELS]
    return Installation.of(models, [host("gpu", "comfy")])


async def crowd(
    world: Installation, rng: random.Random, told: list[tuple[float, Reason]]
) -> list[Begun]:
    """Let people ask for five minutes, recording each second why models wait; return all starts."""
    async with world.queue() as queue:
        for _ in range(300):
            if rng.random() < 0.15:
                model = rng.choices(MODELS, (5, 3, 1))[0]
                await world.ask(queue, model, "x")
            await asyncio.sleep(1)
            now = world.clock.now()
            standings = await queue.status.standings(await queue.jobs.open_jobs())
            models = {status.name: status for status in queue.status.snapshot().models}
            for standing in standings.values():
                if standing.position == 1 and standing.reason is not None:
                    told.append((now, standing.reason))
                    check_same(standing.reason, models[standing.job.model])
        for job in await queue.jobs.open_jobs():
            await ended(queue, job)
        jobs = await queue.jobs.history("web:1", limit=500)
    starts = [
        Begun(job.started_at or 0.0, job.model, job.backend or "", job.queued_at) for job in jobs
    ]
    return sorted(starts, key=lambda begun: begun.at)


def check_same(reason: Reason, status: ModelStatus) -> None:
    """Check that a message and the list name the same in the same second."""
    of_list = status.reason
    assert of_list is not None
    assert (reason.why, reason.host, reason.other) == (of_list.why, of_list.host, of_list.other)


@seeds(range(6))
def test_the_model_that_a_reason_names_as_busy_is_busy(seeds: range) -> None:
    """The reason "flux is busy on gpu" would be shown while jobs of another model run there."""
    for seed in seeds:
        print(f"seed {seed}")
        world = installation()
        told: list[tuple[float, Reason]] = []
        starts = run(crowd(world, random.Random(seed), told))
        assert WaitCause.ROOM_BUSY in {reason.why for _, reason in told}
        for at, reason in told:
            if reason.why is WaitCause.ROOM_BUSY and reason.other:
                check_busy(starts, at, reason, world)


def check_busy(starts: list[Begun], at: float, reason: Reason, world: Installation) -> None:
    """Check that the model said to be busy has begun there, and nothing else since."""
    there = [
        begun.model
        for begun in starts
        if begun.at <= at and world.catalog.host_of[begun.backend] == reason.host
    ]
    assert there, (at, reason)
    assert there[-1] == reason.other, (at, reason)
