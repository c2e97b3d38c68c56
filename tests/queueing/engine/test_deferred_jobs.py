"""Jobs that run when nothing else waits, that are wanted by a time, or that wait too long."""

import asyncio
from math import inf
from pathlib import Path
from typing import Any

import pytest

from queueing.core.errors import Problem, ProblemKind
from queueing.core.jobs import LATER, JobEvent, JobState
from queueing.core.snapshot import WaitCause
from queueing.service.job_queue import JobQueue
from tests.fakes.clock import START
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time

MINUTE = 60.0


def one_gpu(url: str = "sqlite://", *, service_s: float = 5.0) -> Installation:
    """Return two models on one GPU that do not fit beside each other."""
    models = [image_model(name, vram_mb=16000, service_s=service_s) for name in ("flux", "sdxl")]
    world = Installation.of(models, [host("gpu", "comfy")], url=url)
    world.servers["comfy"].service_s = service_s
    return world


def asked(world: Installation, prompt: str, model: str = "flux", **fields: Any) -> Any:
    return world.new(model, prompt, **fields)


def order(world: Installation) -> list[str]:
    return [prompt for _, _, prompt in world.servers["comfy"].starts]


async def submit(queue: JobQueue, world: Installation, prompt: str, **fields: Any) -> Any:
    return await queue.submitter.submit(asked(world, prompt, **fields), limits=NO_LIMITS)


@pytest.mark.parametrize("model", ["flux", "sdxl"])
@in_virtual_time
async def test_a_later_job_runs_when_nothing_else_waits_for_its_gpu(model: str) -> None:
    """A night's images would take turns with waiting people, or unload their model."""
    world = one_gpu()
    async with world.queue() as queue:
        first = await submit(queue, world, "a")
        await until(lambda: "a" in order(world))
        later = await submit(queue, world, "later", model=model, lane=LATER)
        last = [await submit(queue, world, prompt) for prompt in "bcd"][-1]
        told = await queue.status.standings([later, last])
        assert (told[later.id].position, told[last.id].position) == (None, 3)
        reason = told[later.id].reason
        assert reason is not None
        assert (reason.why, reason.until) == (WaitCause.LATER, None)
        assert (await ended(queue, later)).state is JobState.COMPLETED
        assert (await queue.jobs.get(first.id) or first).state is JobState.COMPLETED
    assert order(world) == ["a", "b", "c", "d", "later"]


@in_virtual_time
async def test_a_later_job_runs_at_once_on_an_idle_gpu_and_after_a_restart(tmp_path: Path) -> None:
    """It would wait forever, or be forgotten with the process."""
    world = one_gpu(f"sqlite:///{tmp_path}/usher.db")
    async with world.queue() as queue:
        job = await submit(queue, world, "now", lane=LATER)
        await ended(queue, job)
        await queue.admin.pause(model="flux")
        job = await submit(queue, world, "paused", lane=LATER)
        await asyncio.sleep(60)
    async with world.queue() as queue:
        await queue.admin.resume(model="flux")
        assert (await ended(queue, job)).lane == LATER
    assert order(world) == ["now", "paused"]


@in_virtual_time
async def test_a_job_begins_in_time_although_others_wait(tmp_path: Path) -> None:
    """What is wanted at eight o'clock would still wait at nine on a busy evening."""
    world = one_gpu(f"sqlite:///{tmp_path}/usher.db", service_s=40.0)
    due_at = START + 30 * MINUTE
    async with world.queue() as queue:
        for number in range(50):  # more than half an hour
            await submit(queue, world, f"{number}")
        earlier = await submit(queue, world, "earlier", lane=LATER)
        job = await submit(queue, world, "due", lane=LATER, due_at=due_at)
        await asyncio.sleep(600)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert reason.until == due_at
    async with world.queue() as queue:  # and a restart keeps its moment
        done = await ended(queue, job)
        assert (done.finished_at or 0.0) <= due_at
        assert (done.started_at or 0.0) >= START + 590  # not as soon as it was asked
        assert (await queue.jobs.get(earlier.id) or earlier).state is JobState.PENDING


@in_virtual_time
async def test_it_is_said_at_once_where_a_moment_cannot_be_kept() -> None:
    """People would rely on a video that is not there in the morning."""
    world = one_gpu()
    async with world.queue() as queue:
        for number in range(40):
            await submit(queue, world, f"{number}")
        await asyncio.sleep(12)  # the first one runs
        now = world.clock.now()
        tight = await submit(queue, world, "tight", lane=LATER, due_at=now + 5)
        easy = await submit(queue, world, "easy", lane=LATER, due_at=now + 3600)
        await asyncio.sleep(1)
        told = await queue.status.standings([tight, easy])
        whys = [reason.why for job in (tight, easy) if (reason := told[job.id].reason)]
        assert whys == [WaitCause.LATE, WaitCause.LATER]


@in_virtual_time
async def test_a_job_that_has_not_begun_in_time_ends_once(tmp_path: Path) -> None:
    """A person would get yesterday's image, or be told twice, or never after a restart."""
    world = one_gpu(f"sqlite:///{tmp_path}/usher.db")
    async with world.queue() as queue:
        await queue.admin.pause(model="flux")
        soon = await submit(queue, world, "soon", wait_s=100.0)
        kept = await submit(queue, world, "kept")
        other = await submit(queue, world, "other", model="sdxl", wait_s=100.0)
        late = await submit(queue, world, "late", wait_s=1000.0)
        await asyncio.sleep(99)
        assert (await queue.jobs.get(soon.id) or soon).state is JobState.PENDING
        await asyncio.sleep(2)
        failed = await queue.jobs.get(soon.id)
        assert failed is not None
        assert failed.state is JobState.FAILED
        problem = Problem.read(failed.error or "")
        assert (problem.what, problem.values) == (ProblemKind.WAITED, {"minutes": 2})
        assert (await queue.jobs.get(other.id) or other).state is JobState.COMPLETED
    await asyncio.sleep(2000)
    async with world.queue() as queue:
        assert (await ended(queue, late)).state is JobState.FAILED
        assert (await queue.jobs.get(kept.id) or kept).state is JobState.PENDING
    assert world.history(soon.id).count(JobEvent.FAIL) == 1
    assert world.history(late.id).count(JobEvent.FAIL) == 1


def two_servers() -> Installation:
    """Return a GPU shared by two servers, whose models do not fit beside each other."""
    models = [
        image_model("flux", "comfy", vram_mb=16000, load_s=40.0),
        image_model("sdxl", "other", vram_mb=16000, load_s=40.0),
    ]
    world = Installation.of(models, [host("gpu", "comfy", "other")])
    for server in world.servers.values():
        server.load_s = 40.0
    return world


@in_virtual_time
async def test_what_cannot_begin_is_no_reason_to_leave_a_gpu_idle() -> None:
    """A night's images would wait until a server is started that no one misses."""
    world = two_servers()
    async with world.queue() as queue:
        world.servers["other"].die(restart_s=-1)
        await asyncio.sleep(60)
        waits = await submit(queue, world, "waits", model="sdxl")
        later = await submit(queue, world, "later", lane=LATER)
        assert (await ended(queue, later, within_s=600)).state is JobState.COMPLETED
        assert (await queue.jobs.get(waits.id) or waits).state is JobState.PENDING


async def stream(queue: JobQueue, world: Installation, every_s: float, for_s: float) -> list[float]:
    """Ask for a model again and again; return how long each request waited."""
    jobs = []
    for number in range(int(for_s / every_s)):
        jobs.append(await submit(queue, world, f"{number}", model="sdxl"))
        await asyncio.sleep(every_s)
    done = [await ended(queue, job) for job in jobs]
    return [(job.started_at or 0.0) - job.queued_at for job in done]


@pytest.mark.parametrize(
    "every_s", [70.0, *(pytest.param(each, marks=pytest.mark.thorough) for each in (30.0, 110.0))]
)
@in_virtual_time
async def test_no_one_waits_for_a_load_of_a_later_job(every_s: float) -> None:
    """In every pause it would unload the model that is in demand, and never run itself."""
    world = two_servers()
    async with world.queue() as queue:
        asking = asyncio.create_task(stream(queue, world, every_s, 3000.0))
        await asyncio.sleep(300)
        later = [await submit(queue, world, f"later-{n}", lane=LATER) for n in range(3)]
        waited_s = await asking
        assert max(waited_s[2:]) <= 1.0  # the first ones waited for their own load
        done = [await ended(queue, job) for job in later]
        assert all(job.state is JobState.COMPLETED for job in done)
    assert len(world.servers["comfy"].loads) == 1


@in_virtual_time
async def test_a_line_of_later_jobs_takes_one_pause_an_hour() -> None:
    """It would never run on a busy server, or be in the way at every pause from then on."""
    world = two_servers()
    async with world.queue() as queue:
        asking = asyncio.create_task(stream(queue, world, 70.0, 3 * 3600.0))
        await asyncio.sleep(300)
        later = [await submit(queue, world, f"later-{n}", lane=LATER) for n in range(30)]
        waited_s = await asking
        pauses = len(world.servers["comfy"].loads)
        assert pauses == 2  # one after each full hour
        assert sum(seconds > 1.0 for seconds in waited_s[1:]) <= 2 * pauses
        jobs = [await queue.jobs.get(job.id) or job for job in later]
        assert min(job.started_at or inf for job in jobs) - jobs[0].queued_at <= 3600 + 600
        assert sum(job.state is JobState.COMPLETED for job in jobs) >= pauses


@in_virtual_time
async def test_two_models_of_later_jobs_take_turns() -> None:
    """One of them would be served to its end, however many jobs come, and the other never."""
    world = two_servers()
    async with world.queue() as queue:
        for number in range(450):
            await submit(queue, world, f"many-{number}", lane=LATER)
        other = [
            await submit(queue, world, f"few-{number}", model="sdxl", lane=LATER)
            for number in range(3)
        ]
        done = [await ended(queue, job) for job in other]
        assert max((job.started_at or 0.0) - job.queued_at for job in done) <= 1200
