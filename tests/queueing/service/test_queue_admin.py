"""What an admin stops, empties and moves, and people's fair shares, end to end."""

import asyncio
from pathlib import Path

import pytest

from queueing.core.errors import (
    BackendError,
    ProblemKind,
    Refused,
    StoreError,
    Unavailable,
    UnknownModel,
)
from queueing.core.events import Forgotten, JobChanged, QueuesMoved
from queueing.core.jobs import Job, JobState, SubmitLimits
from queueing.core.snapshot import WaitCause
from queueing.core.status import Pauses
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.simulation.installation import (
    FlakyStore,
    Installation,
    ended,
    host,
    image_model,
    until,
)
from tests.simulation.loop import in_virtual_time


def two_hosts(**fields: str) -> Installation:
    """Return flux on one host, and sdxl on both; a host holds one model at a time."""
    models = [
        image_model("flux", "comfy", vram_mb=16000, aliases=("f",)),
        image_model("sdxl", "comfy", "other", vram_mb=16000),
    ]
    return Installation.of(models, [host("gpu-1", "comfy"), host("gpu-2", "other")], **fields)


async def ask(queue: JobQueue, installation: Installation, model: str, *prompts: str) -> list[Job]:
    return [await installation.ask(queue, model, each) for each in prompts]


def prompts(installation: Installation, server: str = "comfy") -> list[str]:
    return [prompt for _, _, prompt in installation.servers[server].starts]


# ---------------------------------------------------------------- pauses


@in_virtual_time
async def test_a_paused_model_says_so_and_promises_no_time() -> None:
    """People would be promised a time that no one knows."""
    installation = two_hosts()
    installation.servers["comfy"].service_s = 20.0
    async with installation.queue() as queue:
        jobs = await ask(queue, installation, "flux", "a", "b", "c")
        await until(lambda: installation.servers["comfy"].running)
        assert await queue.admin.pause(model="F") == Pauses(models=frozenset({"flux"}))
        await asyncio.sleep(60)
        assert prompts(installation) == ["a"]
        standing = (await queue.status.standings(jobs[1:]))[jobs[1].id]
        assert standing.reason is not None
        assert (standing.reason.why, standing.reason.host) == (WaitCause.PAUSED, None)
        assert (standing.position, standing.ends) == (1, None)
        flux, sdxl = queue.status.snapshot().models
        assert (flux.paused, sdxl.paused) == (True, False)
        assert await queue.admin.resume(model="flux") == Pauses()
        for job in jobs:
            await ended(queue, job, within_s=70)
    assert prompts(installation) == ["a", "b", "c"]


@in_virtual_time
async def test_people_are_told_at_once_that_their_line_is_paused() -> None:
    """Status messages would count down to a start that does not come."""
    installation = two_hosts()
    async with installation.queue() as queue:
        await ask(queue, installation, "flux", "a", "b")
        await until(lambda: installation.servers["comfy"].running)
        installation.events.clear()
        await queue.admin.pause()
        await asyncio.sleep(0.1)
        moved = [event for event in installation.events if isinstance(event, QueuesMoved)]
        assert any("flux" in event.models for event in moved)


@in_virtual_time
async def test_a_host_that_is_paused_while_it_loads_ends_its_load_and_starts_nothing() -> None:
    """A pause would cut a load short, or the loaded model begin to work all the same."""
    installation = two_hosts()
    async with installation.queue() as queue:
        await ask(queue, installation, "flux", "a")
        await until(lambda: installation.servers["comfy"].loading)
        await queue.admin.pause(host="gpu-1")
        await asyncio.sleep(60)
        assert installation.servers["comfy"].memory == {"flux"}
        assert prompts(installation) == []
        assert [each.paused for each in queue.status.snapshot().hosts] == [True, False]


@in_virtual_time
async def test_a_pause_before_the_queue_runs_adds_to_those_of_the_last_run(tmp_path: Path) -> None:
    """An early command would resume everything that was paused."""
    installation = two_hosts(url=f"sqlite:///{tmp_path}/usher.db")
    async with installation.queue() as queue:
        await queue.admin.pause(model="flux")
    store = JobStore(await open_database(installation.url, inline=True))
    early = installation.build(store, installation.connect())
    both = Pauses(models=frozenset({"flux"}), hosts=frozenset({"gpu-2"}))
    assert await early.admin.pause(host="gpu-2") == both
    await store.aclose()
    async with installation.queue() as queue:
        await asyncio.sleep(1)
        assert queue.status.snapshot().paused == both


@in_virtual_time
async def test_a_pause_that_cannot_be_stored_does_not_take_effect() -> None:
    """An admin would read of an error while the machines are paused."""
    installation = two_hosts()
    store = FlakyStore(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        store.failing.add("note_paused")
        with pytest.raises(StoreError):
            await queue.admin.pause()
        assert queue.status.snapshot().paused == Pauses()
        (job,) = await ask(queue, installation, "flux", "a")
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_unknown_names_are_refused() -> None:
    """A typing error would be stored and never found again."""
    installation = two_hosts()
    async with installation.queue() as queue:
        for unknown_host in (
            queue.admin.pause(host="nowhere"),
            queue.admin.drain("nowhere"),
            queue.admin.resume(host="nowhere"),
            queue.preloads.preload("flux", "nowhere"),
        ):
            with pytest.raises(Refused):
                await unknown_host
        for unknown_model in (
            queue.admin.pause(model="fluxx"),
            queue.preloads.preload("fluxx", None),
        ):
            with pytest.raises(UnknownModel):
                await unknown_model
        assert queue.status.snapshot().paused == Pauses()


# ---------------------------------------------------------------- draining


@in_virtual_time
async def test_draining_waits_for_a_load_under_way_and_for_every_job() -> None:
    """The promised memory would be occupied a moment later."""
    installation = two_hosts()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        (job,) = await ask(queue, installation, "flux", "a")
        await until(lambda: server.loading)
        await queue.admin.drain("gpu-1")
        assert not server.memory
        assert installation.gpus["gpu-1"].used_mb == 0
        assert not queue.status.snapshot().models[0].copies
        waiting = await queue.jobs.get(job.id)
        assert waiting is not None
        assert waiting.state is JobState.PENDING
        await queue.admin.resume(host="gpu-1")
        await ended(queue, job)
    assert not installation.violations


@in_virtual_time
async def test_two_admins_who_drain_one_host_are_both_told() -> None:
    """The second one would wait forever."""
    installation = two_hosts()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ask(queue, installation, "flux", "a")
        await until(lambda: server.running)
        async with asyncio.timeout(60):
            await asyncio.gather(queue.admin.drain("gpu-1"), queue.admin.drain("gpu-1"))
        assert not server.memory


@in_virtual_time
async def test_a_drain_says_when_a_server_may_still_hold_memory() -> None:
    """A person would start a game on a GPU that is full."""
    installation = two_hosts()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        (job,) = await ask(queue, installation, "flux", "a")
        await ended(queue, job)
        server.up = False
        with pytest.raises(Unavailable, match="comfy does not answer"):
            await queue.admin.drain("gpu-1")
        assert queue.status.snapshot().paused.hosts == {"gpu-1"}


@in_virtual_time
async def test_a_drain_names_what_must_be_unloaded_by_hand() -> None:
    """An old LM Studio would keep its model, and the bot wrongly report that it did so."""
    installation = two_hosts()
    installation.keepers = frozenset({"comfy"})
    async with installation.queue() as queue:
        (job,) = await ask(queue, installation, "flux", "a")
        await ended(queue, job)
        with pytest.raises(Unavailable, match="flux on comfy must be unloaded by hand"):
            await queue.admin.drain("gpu-1")
        assert installation.servers["comfy"].memory == {"flux"}


# ---------------------------------------------------------------- preloads


@in_virtual_time
async def test_a_preload_right_after_the_start_waits_for_the_first_look() -> None:
    """An admin would read "comfy is down: None" about a server that works."""
    installation = two_hosts()
    async with installation.queue() as queue:
        assert await queue.preloads.preload("flux", None) == "comfy"
        assert installation.servers["comfy"].memory == {"flux"}


@in_virtual_time
async def test_a_preload_on_a_dead_server_fails_as_soon_as_that_is_known() -> None:
    """An admin would wait forever for a server that is off."""
    installation = two_hosts()
    installation.servers["comfy"].up = False
    async with installation.queue() as queue:
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match=r"^comfy does not answer$"):
                await queue.preloads.preload("flux", None)
        installation.servers["comfy"].up = True
        await asyncio.sleep(60)
        assert not installation.servers["comfy"].loads


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Unavailable("connect: [Errno 111]"), ProblemKind.LOAD_STOPPED),
        (RuntimeError("bug"), ProblemKind.BUG),
        (BackendError("{'error': 'x'}\nTraceback …"), ProblemKind.LOAD_REFUSED),
    ],
)
@in_virtual_time
async def test_a_failed_preload_says_why_without_internals(
    error: Exception, says: ProblemKind
) -> None:
    """An admin would read a traceback, or the request would stay and load in a circle."""
    installation = two_hosts()
    installation.servers["comfy"].load_fates = lambda: error
    async with installation.queue() as queue:
        with pytest.raises(BackendError) as failed:
            await queue.preloads.preload("flux", None)
        assert failed.value.problem is not None
        assert failed.value.problem.what is says
        await asyncio.sleep(300)
        assert len(installation.servers["comfy"].loads) == 1


@in_virtual_time
async def test_a_preload_that_found_no_room_ends_when_the_model_is_to_be_unloaded() -> None:
    """Its message would say forever that the model is about to be loaded."""
    installation = two_hosts()
    async with installation.queue() as queue:
        await queue.preloads.preload("sdxl", "gpu-1")  # fills the GPU, and stays
        waiting = asyncio.ensure_future(queue.preloads.preload("flux", None))
        await asyncio.sleep(60)
        assert not waiting.done()
        await queue.preloads.unload("flux", None)
        with pytest.raises(Refused, match="other_wish"):
            await waiting
        await queue.preloads.unload("sdxl", None)
        await asyncio.sleep(60)
        assert "flux" not in installation.servers["comfy"].memory


@in_virtual_time
async def test_a_model_unloaded_while_it_loads_leaves_when_it_is_loaded() -> None:
    """It would stay in memory that an admin wanted, after being reported as absent."""
    installation = two_hosts()
    async with installation.queue() as queue:
        waiting = asyncio.ensure_future(queue.preloads.preload("flux", None))
        await until(lambda: installation.servers["comfy"].loads)
        assert await queue.preloads.unload("flux", None) == ["comfy"]
        with pytest.raises(Refused, match="other_wish"):
            await waiting
        await asyncio.sleep(120)
        assert not installation.servers["comfy"].memory
        await queue.preloads.preload("flux", None)
        await asyncio.sleep(120)
        assert "flux" in installation.servers["comfy"].memory


@in_virtual_time
async def test_of_two_wishes_about_a_model_that_loads_the_later_one_holds() -> None:
    """A model that an admin wants to stay would be unloaded by an outdated order."""
    installation = two_hosts()
    async with installation.queue() as queue:
        waiting = asyncio.ensure_future(queue.preloads.preload("flux", None))
        await until(lambda: installation.servers["comfy"].loads)
        await queue.preloads.unload("flux", None)
        assert await queue.preloads.preload("flux", None) == "comfy"
        await asyncio.sleep(120)
        assert "flux" in installation.servers["comfy"].memory
        assert len(installation.servers["comfy"].loads) == 1
        await asyncio.gather(waiting, return_exceptions=True)


@in_virtual_time
async def test_a_preload_avoids_paused_hosts_and_models() -> None:
    """A preload would wait forever, or take back a GPU that was given to a person."""
    installation = two_hosts()
    async with installation.queue() as queue:
        await queue.admin.pause(host="gpu-1")
        assert await queue.preloads.preload("sdxl", None) == "other"
        with pytest.raises(Refused, match="paused: names gpu-1"):
            await queue.preloads.preload("flux", None)
        await queue.admin.pause(model="flux")
        with pytest.raises(Refused, match="paused: names flux"):
            await queue.preloads.preload("flux", "gpu-1")
        await queue.admin.pause()
        with pytest.raises(Refused, match="all_paused"):
            await queue.preloads.preload("sdxl", None)


# ---------------------------------------------------------------- a fair share


@in_virtual_time
async def test_one_persons_flood_waits_in_the_overflow_and_enters_job_by_job() -> None:
    """One person's ten jobs would come before everyone else's first job."""
    installation = two_hosts()
    server = installation.servers["comfy"]
    limits = SubmitLimits(max_queued=2)
    async with installation.queue() as queue:
        flood = [
            await queue.submitter.submit(
                installation.new("flux", f"a{n}", owner="ada"), limits=limits
            )
            for n in range(5)
        ]
        bobs = [
            await queue.submitter.submit(
                installation.new("flux", f"b{n}", owner="bob"), limits=limits
            )
            for n in range(2)
        ]
        standings = await queue.status.standings(flood)
        assert [standings[job.id].overflow for job in flood] == [False] * 2 + [True] * 3
        await until(lambda: server.finished["a0"])
        await asyncio.sleep(1)
        standing = (await queue.status.standings(flood[2:3]))[flood[2].id]
        assert (standing.overflow, standing.shown) == (False, "ready")
        for job in (*flood, *bobs):
            assert (await ended(queue, job)).state is JobState.COMPLETED
    assert prompts(installation) == ["a0", "a1", "b0", "b1", "a2", "a3", "a4"]


@in_virtual_time
async def test_a_person_is_told_when_a_job_leaves_their_overflow() -> None:
    """A message would say "waiting behind your other jobs" for a job in the queue."""
    installation = two_hosts()
    async with installation.queue() as queue:
        await queue.admin.pause(model="sdxl")  # so nothing else moves that queue
        limits = SubmitLimits(max_queued=1)
        await queue.submitter.submit(installation.new("sdxl", "c", owner="bob"), limits=limits)
        first = await queue.submitter.submit(
            installation.new("flux", "a", owner="ada"), limits=limits
        )
        second = await queue.submitter.submit(
            installation.new("sdxl", "b", owner="ada"), limits=limits
        )
        await asyncio.sleep(1)
        installation.events.clear()
        await ended(queue, first)
        await asyncio.sleep(0.1)
        moved = [event for event in installation.events if isinstance(event, QueuesMoved)]
        assert any("sdxl" in event.models for event in moved)
        standing = (await queue.status.standings([second]))[second.id]
        assert (standing.overflow, standing.position) == (False, 2)


# ---------------------------------------------------------------- options, history, forgetting


@in_virtual_time
async def test_options_are_those_of_every_server_that_may_run_the_model() -> None:
    """An option would work or not depending on where a job happens to run."""
    installation = two_hosts()
    async with installation.queue() as queue:
        assert queue.models.offer.options_of("sdxl") is None
        installation.servers["comfy"].options = frozenset({"seed", "steps"})
        queue.models.extend(())  # the offer is made anew, as after each discovery
        assert queue.models.offer.options_of("sdxl") == frozenset({"seed", "steps"})
        installation.servers["other"].options = frozenset({"steps", "width"})
        queue.models.extend(())  # the offer is made anew, as after each discovery
        assert queue.models.offer.options_of("sdxl") == frozenset({"steps"})
        assert queue.models.offer.options_of("F") == frozenset({"seed", "steps"})
        with pytest.raises(UnknownModel):
            queue.models.offer.options_of("nothing")


@in_virtual_time
async def test_a_running_job_is_forgotten_without_a_trace_on_its_server() -> None:
    """A server would keep drawing for a person who is gone, or its late end would crash the bot."""
    installation = two_hosts()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        mine = await ask(queue, installation, "flux", "a", "b", "c")
        theirs = await installation.ask(queue, "flux", "d", owner="bob")
        await until(lambda: server.running)
        assert await queue.erasure.forget("web:1") == 3
        assert await queue.jobs.open_jobs("web:1") == []
        assert (await ended(queue, theirs)).state is JobState.COMPLETED
        assert server.cancelled == ["a"]
        assert await queue.erasure.forget("web:1") == 0
        late = [
            event
            for event in installation.events[installation.events.index(_forgotten(installation)) :]
            if isinstance(event, JobChanged) and event.job.id in {job.id for job in mine}
        ]
        assert late == []


def _forgotten(installation: Installation) -> Forgotten:
    return next(event for event in installation.events if isinstance(event, Forgotten))
