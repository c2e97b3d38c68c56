"""A model is ready, needs loading or is absent, in the words its waiting jobs show."""

import asyncio

from queueing.core.jobs import JobState
from queueing.core.status import Readiness
from queueing.service.job_queue import JobQueue
from tests.simulation.installation import image_model, one_gpu
from tests.simulation.loop import in_virtual_time


def now(queue: JobQueue) -> dict[str, Readiness]:
    return {model.name: model.readiness for model in queue.status.snapshot().models}


@in_virtual_time
async def test_a_model_is_what_its_waiting_jobs_show() -> None:
    """A list would say something about a model that contradicts its own jobs."""
    installation = one_gpu(*(image_model(name, vram_mb=16000) for name in ("flux", "sdxl", "tiny")))
    async with installation.queue() as queue:
        assert set(now(queue).values()) == {Readiness.ABSENT}
        for model in ("flux", "flux", "sdxl", "flux", "sdxl"):
            await installation.ask(queue, model, "a cat")
        seen = set[tuple[str, str]]()

        async def ended() -> bool:
            jobs = await queue.jobs.open_jobs()
            standings = await queue.status.standings(jobs)
            models = now(queue)
            for each in standings.values():
                if each.job.state is JobState.PENDING and each.shown != "pending":
                    seen.add((each.shown, models[each.job.model].value))
            return not jobs

        for _ in range(500):
            if await ended():
                break
            await asyncio.sleep(0.5)
        assert seen == {("needs-loading", "needs-loading"), ("ready", "ready")}
        assert now(queue)["tiny"] is Readiness.ABSENT
