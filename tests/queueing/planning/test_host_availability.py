"""Quiet hours: what begins before them, what happens in them, what people are promised."""

import asyncio
from dataclasses import replace

import pytest

from queueing.core.jobs import Job, JobState
from queueing.core.quiet_hours import QuietHours, QuietSpan, WeeklyWindow
from queueing.core.snapshot import (
    BackendView,
    EvictionCause,
    HostView,
    Plan,
    Reason,
    WaitCause,
    is_open_ended,
)
from queueing.forecast.durations import DurationEstimate
from queueing.forecast.forecast import Forecast
from queueing.planning.hosts import LEAD_S
from queueing.planning.planner import plan, preload_waits_for
from queueing.service.job_queue import JobQueue
from tests.fakes.clock import START
from tests.queueing.planning.worlds import GB, NOW, copy, jobs, model, queue, world
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time, run

EVERY_DAY = frozenset(range(7))


def quiet(begins_in_s: float, ends_in_s: float, *, open_s: float = 60000.0) -> HostView:
    """Return a host of 20 GB with quiet hours."""
    spans = (QuietSpan(NOW + begins_in_s, NOW + ends_in_s),)
    return HostView(
        name="h1", usable_mb=20 * GB, budget_mb=20 * GB, quiet=spans, longest_open_s=open_s
    )


def leaving(answer: Plan) -> list[str]:
    return [evict.model for evict in answer.evictions if evict.why is EvictionCause.QUIET]


# ---------------------------------------------------------------- the rule


def test_nothing_begins_in_quiet_hours_and_all_that_is_idle_leaves() -> None:
    """A person would come home to a GPU that draws images for others."""
    waiting = model("flux", queue(jobs("flux", 5.0)))
    copies = (copy("flux", vram_mb=5 * GB), copy("sdxl", vram_mb=5 * GB, pinned=True))
    busy = copy("qwen", vram_mb=5 * GB, running=1)
    names = (model("sdxl", vram_mb=5 * GB), model("qwen", vram_mb=5 * GB))
    answer = plan(world(waiting, *names, copies=(*copies, busy), hosts=(quiet(-60, 600),)))
    assert answer.starts == ()
    assert answer.loads == ()
    assert leaving(answer) == ["flux", "sdxl"]
    assert answer.reasons["flux"] == Reason(
        why=WaitCause.QUIET, model="flux", host="h1", until=NOW + 600
    )
    assert answer.look_at is not None
    assert answer.look_at <= NOW + 600


def test_the_gpu_is_empty_when_they_begin() -> None:
    answer = plan(world(model("flux"), copies=(copy("flux"),), hosts=(quiet(LEAD_S, 600),)))
    assert leaving(answer) == ["flux"]
    soon = plan(world(model("flux"), copies=(copy("flux"),), hosts=(quiet(LEAD_S + 5, 600),)))
    assert leaving(soon) == []
    assert soon.look_at == NOW + 5


@pytest.mark.parametrize(("left_s", "begins"), [(10.0, True), (9.0, False)])
def test_a_job_begins_only_if_it_will_be_done_by_then(left_s: float, *, begins: bool) -> None:
    waiting = model("flux", queue(jobs("flux", 5.0)), service_s=10.0)
    gpu = quiet(left_s + LEAD_S, 600)
    answer = plan(world(waiting, copies=(copy("flux"),), hosts=(gpu,)))
    assert bool(answer.starts) is begins
    if not begins:
        span = gpu.quiet[0]
        assert answer.reasons["flux"] == Reason(
            why=WaitCause.QUIET_SOON,
            model="flux",
            host="h1",
            since=span.begins_at,
            until=span.ends_at,
        )


def test_what_is_known_of_a_job_counts_more_than_its_model() -> None:
    """A video of a minute may still be made when the usual ten minutes are no longer left."""
    (short,) = jobs("video", 5.0)
    there = world(
        model("video", queue((short,)), service_s=600.0),
        copies=(copy("video"),),
        hosts=(quiet(120, 600),),
    )
    assert plan(there).starts == ()
    assert plan(replace(there, job_s={(short.id, "b1"): 60.0})).starts != ()


@pytest.mark.parametrize(("left_s", "begins"), [(40.0, True), (39.0, False)])
def test_a_load_begins_only_if_a_job_is_done_after_it(left_s: float, *, begins: bool) -> None:
    """A model would be loaded for a minute, and unloaded without having done anything."""
    waiting = model("flux", queue(jobs("flux", 5.0)), load_s=30.0, service_s=10.0)
    answer = plan(world(waiting, hosts=(quiet(left_s + LEAD_S, 600),)))
    assert bool(answer.loads) is begins
    assert (answer.reasons["flux"].why is WaitCause.QUIET_SOON) is not begins


def test_no_host_is_reserved_for_what_it_has_no_time_for() -> None:
    """An overdue model would close the cutoffs of the others and then not be loaded."""
    late = model("flux", queue(jobs("flux", 900.0)), load_s=300.0, service_s=10.0)
    hot = model("sdxl", queue(jobs("sdxl", 5.0)))
    copies = (copy("sdxl", running=0),)
    answer = plan(world(late, hot, copies=copies, hosts=(quiet(200, 600),)))
    assert answer.reservations == ()
    assert [start.job.model for start in answer.starts] == ["sdxl"]


def test_another_host_serves_meanwhile() -> None:
    waiting = model("flux", queue(jobs("flux", 5.0)), on=("b1", "b2"))
    gpus = (quiet(-60, 600), HostView(name="h2", usable_mb=20 * GB, budget_mb=20 * GB))
    servers = (BackendView(name="b1", host="h1"), BackendView(name="b2", host="h2"))
    answer = plan(world(waiting, hosts=gpus, backends=servers))
    assert [load.backend for load in answer.loads] == ["b2"]


def test_a_job_longer_than_a_host_is_ever_open_does_not_wait_for_ever() -> None:
    """If a host is open for an hour a day, a video of two hours would never be made."""
    video = model("video", queue(jobs("video", 5.0)), load_s=60.0, service_s=7200.0)
    early = plan(world(video, hosts=(quiet(3500, 80000, open_s=3600.0),)))
    assert early.loads != ()
    ready = world(video, copies=(copy("video"),), hosts=(quiet(3400, 80000, open_s=3600.0),))
    assert plan(ready).starts != ()
    late = plan(world(video, copies=(copy("video"),), hosts=(quiet(600, 80000, open_s=3600.0),)))
    assert late.starts == ()
    assert late.reasons["video"].why is WaitCause.QUIET_SOON


def test_an_admins_load_waits_for_the_end_and_is_told_so() -> None:
    wanted = model("flux", wanted_by_admin=("b1",))
    asked = world(wanted, hosts=(quiet(-60, 600),))
    assert plan(asked).loads == ()
    reason = preload_waits_for(asked, "flux")
    assert reason is not None
    assert (reason.why, reason.until) == (WaitCause.QUIET, NOW + 600)
    soon = preload_waits_for(world(wanted, hosts=(quiet(30, 600),)), "flux")
    assert soon is not None
    assert soon.why is WaitCause.QUIET_SOON


def test_a_pause_by_an_admin_is_told_rather_than_the_quiet_hours_behind_it() -> None:
    gpu = replace(quiet(-60, 600), paused=True)
    answer = plan(world(model("flux", queue(jobs("flux", 5.0))), hosts=(gpu,)))
    assert answer.reasons["flux"].why is WaitCause.PAUSED


# ---------------------------------------------------------------- what is said


def test_a_wait_for_quiet_hours_has_a_known_end() -> None:
    """People would be promised a time while a game holds the GPU, or none for quiet hours."""
    busy = Reason(why=WaitCause.QUIET, model="flux", host="gpu-1", until=2.0)
    soon = Reason(why=WaitCause.QUIET_SOON, model="flux", host="gpu-1", since=1.0, until=2.0)
    game = Reason(why=WaitCause.YIELDING, model="flux", host="gpu-1", since=1.0)
    assert not is_open_ended(busy)
    assert not is_open_ended(soon)
    assert is_open_ended(game)


# ---------------------------------------------------------------- what is promised


def ten_seconds(_job: Job, _backend: str) -> DurationEstimate:
    return DurationEstimate(samples=9, median_s=10.0, mean_s=10.0, spread_s=1.0)


def promised_in_s(there: object, job: Job, place: int) -> float:
    expected = Forecast(there, ten_seconds).of(job, place)  # type: ignore[arg-type]
    assert expected is not None
    return expected.done_at - NOW


def test_promises_reach_over_quiet_hours() -> None:
    """Half of a queue would be promised for the evening that its owner keeps free."""
    heads = jobs("flux", 5.0, 4.0, 3.0)
    waiting = model("flux", queue(heads), load_s=30.0, service_s=10.0)
    there = world(waiting, copies=(copy("flux"),), hosts=(quiet(25 + LEAD_S, 600),))
    assert promised_in_s(there, heads[0], 1) == pytest.approx(10)
    assert promised_in_s(there, heads[1], 2) == pytest.approx(20)
    assert promised_in_s(there, heads[2], 3) == pytest.approx(600 + 30 + 10)
    within = world(waiting, hosts=(quiet(-10, 600),))
    assert promised_in_s(within, heads[0], 1) == pytest.approx(600 + 30 + 10)


# ---------------------------------------------------------------- a queue


def daily(begins_min: int, ends_min: int) -> QuietHours:
    return QuietHours((WeeklyWindow(EVERY_DAY, begins_min, ends_min),), "UTC")


def installation(hours: QuietHours) -> Installation:
    """Return a GPU whose clock reads 00:00 at the start."""
    return Installation.of([image_model("flux")], [replace(host("gpu", "comfy"), quiet=hours)])


async def submit(there: Installation, queue: JobQueue, prompt: str) -> Job:
    return await there.ask(queue, "flux", prompt)


def test_a_queue_keeps_the_gpu_free_and_goes_on_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """From 0:10 to 1:00 nothing runs; what waits says so, and is done after it."""

    async def scenario() -> None:
        there = installation(daily(10, 60))
        server = there.servers["comfy"]
        async with there.queue() as queue:
            await asyncio.sleep(500)
            first = await ended(queue, await submit(there, queue, "a"))
            assert first.state is JobState.COMPLETED
            assert server.memory == {"flux"}
            await asyncio.sleep(600 - asyncio.get_running_loop().time())
            assert server.memory == set()
            job = await submit(there, queue, "b")
            await asyncio.sleep(1)
            standing = (await queue.status.standings([job]))[job.id]
            assert standing.reason is not None
            assert standing.reason == Reason(
                why=WaitCause.QUIET, model="flux", host="gpu", until=START + 3600
            )
            assert standing.ends is not None
            assert standing.ends.at == pytest.approx(START + 3600 + 15, abs=8)
            (shown,) = queue.status.snapshot().hosts
            assert shown.rest is not None
            assert (shown.rest.why, shown.rest.until) == (WaitCause.QUIET, START + 3600)
            assert not shown.paused
            (model,) = queue.status.snapshot().models
            assert model.next_ends is not None
            assert model.next_ends.at > START + 3600
            done = await ended(queue, job, within_s=4000)
            assert done.started_at is not None
            assert START + 3600 <= done.started_at < START + 3620
        assert any("waits: quiet host=gpu until=" in said for said in caplog.messages)
        assert "unloading flux on comfy: quiet hours begin" in caplog.messages
        assert there.violations == []

    caplog.set_level("INFO")
    run(scenario())


@in_virtual_time
async def test_a_running_job_ends_and_the_gpu_is_free_then() -> None:
    """The job takes longer than expected; stopping it would throw its work away."""
    there = installation(daily(10, 60))
    server = there.servers["comfy"]
    server.service_s = 100.0
    async with there.queue() as queue:
        await asyncio.sleep(560)
        job = await submit(there, queue, "a")
        done = await ended(queue, job)
        assert done.state is JobState.COMPLETED
        assert asyncio.get_running_loop().time() > 600
        await until(lambda: server.memory == set(), within_s=10)


@in_virtual_time
async def test_a_pinned_model_leaves_and_returns() -> None:
    there = installation(daily(10, 60))
    server = there.servers["comfy"]
    async with there.queue() as queue:
        await queue.preloads.preload("flux", None)
        await asyncio.sleep(700)
        assert server.memory == set()
        await asyncio.sleep(3650 - asyncio.get_running_loop().time())
        assert server.memory == {"flux"}
