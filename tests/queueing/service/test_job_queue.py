"""The front of the queue, with everything behind it, in virtual time."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from queueing.core.errors import LimitReached, NotCapable, Refused
from queueing.core.events import QueuesMoved
from queueing.core.jobs import JobEvent, JobState
from queueing.core.requests import Capability, Chat, ChatMessage, File
from queueing.core.snapshot import WaitCause
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.clock import VirtualClock
from tests.simulation.installation import (
    NO_LIMITS,
    Installation,
    ended,
    flux_or_sdxl,
    host,
    image_model,
    one_gpu,
    until,
)
from tests.simulation.loop import in_virtual_time, run

MANY_TURNS = 20  # of the loop, in which no time passes
IMAGE = File(name="a.png", mime="image/png", data=b"png")


# ------------------------------------------------------------ accepting


@in_virtual_time
async def test_a_request_with_images_needs_a_model_that_can_see() -> None:
    """Images would be sent to models that ignore them or fail."""
    text_only = replace(image_model("llm"), capabilities=frozenset({Capability.TEXT_TO_TEXT}))
    installation = one_gpu(text_only, image_model("flux"))
    chat = Chat(messages=(ChatMessage(role="user", text="what is this?", images=(0,)),))
    async with installation.queue() as queue:
        with pytest.raises(NotCapable) as refusal:
            await queue.submitter.submit(
                replace(installation.new("llm", ""), request=chat, files=(IMAGE,)),
                limits=NO_LIMITS,
            )
        assert refusal.value.capability == Capability.VISION
        with pytest.raises(NotCapable):
            await installation.ask(queue, "flux", "like this", files=(IMAGE,))


@in_virtual_time
async def test_a_models_own_limit_bounds_its_line() -> None:
    """A queue would grow without end although the configuration limits it."""
    installation = one_gpu(image_model("flux", max_waiting=2))
    installation.servers["comfy"].up = False
    async with installation.queue() as queue:
        for prompt in ("a", "b"):
            await installation.ask(queue, "flux", prompt)
        with pytest.raises(LimitReached) as refusal:
            await installation.ask(queue, "flux", "c")
        assert refusal.value.scope == "queue"


@in_virtual_time
async def test_a_discovered_model_can_be_used_at_once_and_replaces_none() -> None:
    """Models that a server gains would need a restart, or overwrite configured ones."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        before = queue.models.offer
        assert queue.models.offer is before, "nothing has changed: it is asked for at every step"
        configured = queue.models.offer.catalog.models["flux"]
        queue.models.extend([image_model("new"), image_model("FLUX", service_s=99.0)])
        assert queue.models.offer.catalog.models["flux"] == configured
        assert "FLUX" not in queue.models.offer.catalog.models
        job = await installation.ask(queue, "new", "cat")
        assert (await ended(queue, job)).state is JobState.COMPLETED


# ------------------------------------------------------------ cancelling


@pytest.mark.parametrize("offloads", [False, True])
@in_virtual_time
async def test_a_model_larger_than_every_gpu_is_taken_where_a_server_offloads(
    *, offloads: bool
) -> None:
    """A job would wait forever for memory that will never be free, or be refused needlessly."""
    gpu = host("gpu", "comfy", vram_mb=8000)
    gpu = replace(gpu, backends=(replace(gpu.backends[0], offloads=offloads),))
    installation = Installation.of([image_model("flux", vram_mb=16000)], [gpu])
    installation.servers["comfy"].sizes["flux"] = 7900  # the rest stays in the machine's memory
    async with installation.queue() as queue:
        submitting = installation.ask(queue, "flux", "cat")
        if not offloads:
            with pytest.raises(Refused, match="no server can run flux"):
                await submitting
            return
        assert (await ended(queue, await submitting)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_job_that_is_slower_than_usual_promises_a_later_end() -> None:
    """A large first image would be "done now" for minutes, and so would the jobs behind it."""
    installation = Installation.of(
        [image_model("flux", service_s=5.0)], [host("gpu", "comfy", serial=True)]
    )
    server = installation.servers["comfy"]
    server.service_s, server.progress_every_s = 300.0, 2.0
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "large")
        behind = await installation.ask(queue, "flux", "small")
        await until(lambda: server.running)
        began = VirtualClock().now()
        await asyncio.sleep(30)
        standings = await queue.status.standings(await queue.jobs.open_jobs())
        ends, later = (standings[each.id].ends for each in (job, behind))
        assert ends is not None
        assert ends.at == pytest.approx(began + 300, abs=15)
        assert later is not None
        assert later.at > ends.at


@in_virtual_time
async def test_a_moment_in_which_a_job_starts_hides_no_promise_afterwards() -> None:
    """A person who asks as a job starts would see no time, nor would the queue for a while."""
    installation = one_gpu(image_model("flux", service_s=5.0))
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "warm"))
        for turns in range(MANY_TURNS):
            _first, behind = [
                await installation.ask(queue, "flux", f"{turns} {text}")
                for text in ("first", "second")
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            await queue.status.standings([behind])
            await asyncio.sleep(0.5)
            assert (await queue.status.standings([behind]))[behind.id].ends is not None
            await ended(queue, behind)


@in_virtual_time
async def test_cancelling_a_running_job_stops_the_server_and_frees_the_slot() -> None:
    """A GPU would keep drawing what no one wants while others wait."""
    installation = Installation.of([image_model("flux")], [host("gpu", "comfy", serial=True)])
    server = installation.servers["comfy"]
    server.service_s = 1000.0
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        other = await installation.ask(queue, "flux", "dog")
        await until(lambda: server.running)
        server.service_s = 5.0
        await queue.submitter.cancel(job.id)
        done = await ended(queue, other, within_s=20)
        assert server.cancelled == ["cat"]
        assert done.state is JobState.COMPLETED
        assert installation.history(job.id) == [None, JobEvent.START, JobEvent.CANCEL]


def test_a_cancel_that_meets_the_start_leaves_nothing_running() -> None:
    """A cancel at the wrong moment would leave a server working for no one."""

    async def scenario(turns: int) -> None:
        installation = one_gpu(image_model("flux"))
        server = installation.servers["comfy"]
        server.service_s = 1000.0
        async with installation.queue() as queue:
            warm = await installation.ask(queue, "flux", "warm")
            await until(lambda: server.running)
            await queue.submitter.cancel(warm.id)
            await asyncio.sleep(1)
            job = await installation.ask(queue, "flux", "cat")
            for _ in range(turns):
                await asyncio.sleep(0)
            await queue.submitter.cancel(job.id)
            await asyncio.sleep(5)
            assert not server.running
            assert installation.history(job.id)[-1] is JobEvent.CANCEL
            assert not any(model.running for model in queue.status.snapshot().models)

    for turns in range(12):
        print(f"after {turns} turns of the loop")
        run(scenario(turns))


# ------------------------------------------------------------ reporting


@in_virtual_time
async def test_a_waiting_person_sees_position_state_reason_and_time() -> None:
    """The status message would be wrong about whose turn it is, or why it takes so long."""
    installation = flux_or_sdxl()
    installation.servers["comfy"].service_s = 20.0
    async with installation.queue() as queue:
        jobs = [await installation.ask(queue, "flux", str(number)) for number in range(3)]
        await asyncio.sleep(1)
        loading = await queue.status.standings(jobs)
        assert [loading[job.id].shown for job in jobs] == ["needs-loading"] * 3
        assert [loading[job.id].position for job in jobs] == [1, 2, 3]
        reason = loading[jobs[0].id].reason
        assert reason is not None
        assert reason.why is WaitCause.LOADING
        await asyncio.sleep(10)
        running = await queue.status.standings(
            [job for each in jobs if (job := await queue.jobs.get(each.id)) is not None]
        )
        assert [running[job.id].shown for job in jobs] == ["processing", "ready", "ready"]
        assert [running[job.id].position for job in jobs] == [None, 1, 2]
        moments = [ends.at for job in jobs if (ends := running[job.id].ends)]
        assert len(moments) == 3
        assert moments == sorted(moments)
        done = await ended(queue, jobs[0])
        assert (await queue.status.standings([done]))[done.id].shown == "completed"


@in_virtual_time
async def test_a_job_in_the_overflow_has_no_place_in_line() -> None:
    """One person's tenth job would look as if it were next."""
    installation = flux_or_sdxl()
    limits = replace(NO_LIMITS, max_queued=1)
    async with installation.queue() as queue:
        await queue.submitter.submit(installation.new("flux", "a"), limits=limits)
        second = await queue.submitter.submit(installation.new("flux", "b"), limits=limits)
        standing = (await queue.status.standings([second]))[second.id]
        assert standing.overflow
        assert standing.shown == "pending"


def test_those_in_other_lanes_hear_of_an_arrival_that_goes_before_them() -> None:
    """Their places would stay unchanged until something else moved the queue."""

    async def moved_by(lane: str) -> bool:
        installation = flux_or_sdxl()
        async with installation.queue() as queue:
            await queue.admin.pause(model="flux")
            await installation.ask(queue, "flux", "a", lane="relaxed")
            await asyncio.sleep(12)
            installation.events.clear()
            await installation.ask(queue, "flux", "b", lane=lane)
            await asyncio.sleep(0.1)
            return any(isinstance(event, QueuesMoved) for event in installation.events)

    assert run(moved_by("vip"))
    assert not run(moved_by("relaxed"))  # one who comes to the end of a queue moves no one


@in_virtual_time
async def test_a_job_that_left_its_line_just_now_has_no_place_and_breaks_nobody_elses() -> None:
    """One slightly outdated message would keep all others from being updated."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:
        await queue.admin.pause(model="flux")
        first, second = [await installation.ask(queue, "flux", prompt) for prompt in "ab"]
        assert (await queue.status.standings([first, second]))[second.id].position == 2
        await queue.submitter.cancel(first.id)
        await asyncio.sleep(10)
        standings = await queue.status.standings([first, second])  # what we hold of it is older
        assert standings[first.id].position is None
        assert standings[second.id].position == 1


@in_virtual_time
async def test_a_listener_that_fails_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """One bug in the presenter would stop the queue."""
    installation = flux_or_sdxl()
    async with installation.queue() as queue:

        def broken(_event: object) -> None:
            raise RuntimeError

        queue.events.subscribe(broken)
        job = await installation.ask(queue, "flux", "cat")
        assert (await ended(queue, job)).state is JobState.COMPLETED
    assert "a listener failed" in caplog.text


@in_virtual_time
async def test_models_and_backends_tell_what_is_where() -> None:
    """`/models` and `/queue` would show another installation than this one."""
    installation = flux_or_sdxl()
    installation.servers["comfy"].service_s = 30.0
    async with installation.queue() as queue:
        for prompt in ("a", "b"):
            await installation.ask(queue, "flux", prompt)
        await installation.ask(queue, "sdxl", "c")
        await asyncio.sleep(12)
        flux, sdxl = queue.status.snapshot().models
        assert (flux.name, flux.running, flux.waiting) == ("flux", 1, 1)
        assert [copy.host for copy in flux.copies] == ["gpu"]
        assert flux.next_ends is not None
        assert (sdxl.waiting, sdxl.copies) == (1, ())
        assert sdxl.reason is not None
        assert sdxl.reason.why is WaitCause.ROOM_BUSY
        (backend,) = queue.status.snapshot().backends
        assert (backend.name, backend.up, backend.description) == ("comfy", True, "fake 1.0")


# ------------------------------------------------------------ in real time


async def test_the_same_works_with_threads_and_a_real_clock(tmp_path: Path) -> None:
    """The simulations would prove nothing about the program that people run."""
    installation = one_gpu(image_model("flux"))
    server = installation.servers["comfy"]
    server.load_s = server.service_s = 0.01
    store = JobStore(await open_database(f"sqlite:///{tmp_path / 'usher.db'}"))
    async with installation.queue(store) as queue:
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(3)]
        for job in jobs:
            assert (await ended(queue, job)).state is JobState.COMPLETED
    await store.aclose()
    assert not installation.violations
