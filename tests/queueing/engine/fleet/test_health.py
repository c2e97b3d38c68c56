"""Servers that go away, come back, lie or share their GPU with others."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from queueing.core.errors import KeyRefused, problem_of
from queueing.core.jobs import JobEvent, JobState
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.specs import Timeouts
from tests.fakes.servers.backend import FakeBackend, FakeProbe, Fate, prompt_of
from tests.simulation.installation import Installation, ended, host, image_model, one_gpu, until
from tests.simulation.loop import in_virtual_time


def one_model(**fields: Any) -> Installation:
    return one_gpu(image_model("flux", **fields))


@in_virtual_time
async def test_a_server_that_is_away_is_shown_and_comes_back_by_itself() -> None:
    """An operator would have to restart the bot after every restart of a server."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.up = False
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(100)
        (backend,) = queue.status.snapshot().backends
        assert not backend.up
        assert backend.error == "comfy: connection refused"
        reason = queue.status.snapshot().models[0].reason
        assert reason is not None
        assert reason.why is WaitCause.OFFLINE
        assert reason.since == backend.since
        server.up = True
        done = await ended(queue, job, within_s=60)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)


@in_virtual_time
async def test_a_server_that_refuses_its_key_is_held_until_it_takes_it() -> None:
    """Each job would be sent there three times, and its failure be blamed on a working server."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.memory = {"flux"}
    async with installation.queue() as queue:
        await asyncio.sleep(10)
        server.key_refused = True
        jobs = [await installation.ask(queue, "flux", name) for name in "abc"]
        await asyncio.sleep(600)
        assert len([call for call in server.calls if call.startswith("run")]) <= len(jobs)
        (backend,) = queue.status.snapshot().backends
        assert (backend.up, backend.error) == (False, "comfy refuses the key")
        reason = queue.status.snapshot().models[0].reason
        assert reason == Reason(why=WaitCause.KEY, model="flux", backend="comfy")
        assert server.memory == {"flux"}
        server.key_refused = False
        for job in jobs:
            done = await ended(queue, job, within_s=60)
            assert (done.state, done.attempt) == (JobState.COMPLETED, 1)


@in_virtual_time
async def test_a_key_that_works_for_others_holds_nobody_up() -> None:
    """A model that one key may not use would take the server from everybody."""
    installation = Installation.of(
        [image_model("flux"), image_model("sdxl")], [host("gpu", "comfy", vram_mb=48000)]
    )
    refused = KeyRefused("status 401")
    installation.servers["comfy"].fates = lambda work: (
        Fate(error=refused) if "no" in prompt_of(work) else Fate()
    )
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "no")
        other = await installation.ask(queue, "sdxl", "b")
        assert (await ended(queue, other, within_s=60)).state is JobState.COMPLETED
        done = await ended(queue, job, within_s=600)
        assert (done.state, done.error) == (JobState.FAILED, problem_of(refused).code())
        (backend,) = queue.status.snapshot().backends
        assert backend.up


@in_virtual_time
async def test_a_server_that_is_away_beside_one_that_works_is_told_by_its_own_name() -> None:
    """People would read that a machine is offline which serves others."""
    models = [image_model("flux"), image_model("sdxl", "other")]
    installation = Installation.of(models, [host("gpu", "comfy", "other")])
    installation.servers["comfy"].up = False
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(30)
        reason = (await queue.status.standings([job]))[job.id].reason
        assert reason is not None
        assert (reason.why, reason.host, reason.backend) == (WaitCause.OFFLINE, "gpu", "comfy")


@in_virtual_time
async def test_a_server_that_is_away_at_the_start_is_logged_once_and_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An operator would look for the reason in a log that says nothing."""
    caplog.set_level("INFO", "queueing.engine.fleet.health")
    gpu = host("gpu", "comfy")
    named = replace(gpu.backends[0], url="http://ada:secret@10.0.0.5:8188?key=secret")
    installation = Installation.of([image_model("flux")], [replace(gpu, backends=(named,))])
    server = installation.servers["comfy"]
    server.up = False
    async with installation.queue() as queue:
        await asyncio.sleep(100)
        assert queue.status.snapshot().backends[0].url == "http://10.0.0.5:8188"
        assert [record.getMessage() for record in caplog.records] == [
            "comfy (http://10.0.0.5:8188) is down: comfy: connection refused"
        ]
        caplog.clear()
        server.up = True
        await asyncio.sleep(100)
        (back,) = [record.getMessage() for record in caplog.records]
        assert back == "comfy (http://10.0.0.5:8188) is back: fake 1.0"


@in_virtual_time
async def test_no_end_is_promised_of_work_on_a_server_that_does_not_answer() -> None:
    """People would watch a time pass while their server is frozen."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.service_s = 100.0
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: server.running)
        (standing,) = (await queue.status.standings(await queue.jobs.open_jobs())).values()
        assert standing.ends is not None
        server.up = False
        await until(lambda: not queue.status.snapshot().backends[0].up)
        (standing,) = (await queue.status.standings(await queue.jobs.open_jobs())).values()
        assert standing.ends is None
        server.up = True
        assert (await ended(queue, job)).attempt == 1


@in_virtual_time
async def test_a_dead_server_is_noticed_at_once_and_asked_again_soon() -> None:
    """Jobs would be sent to a dead server, or wait long after it is back."""
    installation = one_model()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: server.running)
        server.die(restart_s=1.5)
        await asyncio.sleep(0.1)
        assert not queue.status.snapshot().backends[0].up
        await asyncio.sleep(3)
        assert queue.status.snapshot().backends[0].up
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_server_that_accepts_work_and_never_runs_it_is_taken_out() -> None:
    """A hung server that still answers HTTP would swallow one job after the other."""
    installation = Installation.of(
        [image_model("flux", "comfy-1", "comfy-2", timeouts=Timeouts(first_s=30.0))],
        [host("gpu-1", "comfy-1"), host("gpu-2", "comfy-2")],
    )
    wedged = installation.servers["comfy-1"]
    wedged.wedged = True
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        done = await ended(queue, job)
        assert (done.state, done.backend) == (JobState.COMPLETED, "comfy-2")
        await asyncio.sleep(10)
        assert [backend.up for backend in queue.status.snapshot().backends] == [False, True]
        wedged.die(restart_s=15.0)  # a restart is what heals it
        await asyncio.sleep(40)
        assert [backend.up for backend in queue.status.snapshot().backends] == [True, True]


@pytest.mark.parametrize("wedges", [1, 4])
@in_virtual_time
async def test_a_restart_between_two_looks_ends_the_pause_of_a_wedged_server(wedges: int) -> None:
    """Its queue would wait for up to half an hour although a person restarted it."""
    installation = one_model(timeouts=Timeouts(first_s=30.0), max_attempts=10)
    server = installation.servers["comfy"]
    server.wedged = True
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: len(server.starts) == wedges)
        await until(lambda: not queue.status.snapshot().backends[0].up)
        await asyncio.sleep(25.3)
        server.die(restart_s=0.001)
        await asyncio.sleep(2)
        assert queue.status.snapshot().backends[0].up
        behind = await installation.ask(queue, "flux", "b")
        for each in (behind, job):
            assert (await ended(queue, each, within_s=60)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_watch_that_fails_leaves_a_wedged_server_its_pause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in one backend would stop the whole queue."""

    async def fault(_backend: FakeBackend) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FakeBackend, "gone", fault)
    installation = one_model(timeouts=Timeouts(first_s=30.0))
    server = installation.servers["comfy"]
    server.wedged = True
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: len(server.starts) == 2)
        assert server.starts[1][0] - server.starts[0][0] >= 30.0 + 59.0
        server.wedged = False
        assert (await ended(queue, job)).state is JobState.COMPLETED
    assert "cannot detect the restart of comfy" in caplog.text


@in_virtual_time
async def test_a_model_evicted_by_somebody_else_is_noticed() -> None:
    """`/models` would show unloaded models for hours."""
    installation = one_model()
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        assert queue.status.snapshot().models[0].copies
        installation.servers["comfy"].evict("flux")
        await asyncio.sleep(15)
        assert queue.status.snapshot().models[0].copies == ()


@in_virtual_time
async def test_a_model_loaded_by_somebody_else_is_used() -> None:
    """A model that an operator loaded by hand would be loaded a second time."""
    installation = one_model()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await asyncio.sleep(5)
        server.memory.add("flux")
        await asyncio.sleep(15)
        await ended(queue, await installation.ask(queue, "flux", "a"))
        assert not server.loads


@in_virtual_time
async def test_an_old_answer_about_memory_changes_nothing() -> None:
    """A model that has just been loaded would be forgotten and loaded again."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.load_s, server.service_s, server.answer_s = 4.0, 0.2, 3.0
    async with installation.queue() as queue:
        await asyncio.sleep(11)  # the server is asked every 10 s, and answers 3 s later
        job = await installation.ask(queue, "flux", "a")
        await ended(queue, job)
        await asyncio.sleep(1)
        assert queue.status.snapshot().models[0].copies


@in_virtual_time
async def test_memory_other_programs_hold_makes_jobs_wait_with_that_reason() -> None:
    """A game on the GPU would make every load fail, or its jobs."""
    installation = one_gpu(image_model("flux", vram_mb=16000))
    installation.memory = FakeProbe(installation.gpus)
    gpu, server = installation.gpus["gpu"], installation.servers["comfy"]
    gpu.other_mb = 15000
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(60)
        reason = queue.status.snapshot().models[0].reason
        assert reason is not None
        assert reason.why is WaitCause.NO_ROOM
        assert not server.loads
        gpu.other_mb = 0
        assert (await ended(queue, job, within_s=60)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_server_too_busy_for_a_look_is_not_down() -> None:
    """A rate limit would take a server from everybody at each check."""
    installation = one_model()
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await asyncio.sleep(1)
        server.busy = True
        await asyncio.sleep(30)
        assert queue.status.snapshot().backends[0].up


@in_virtual_time
async def test_a_figure_that_cannot_be_measured_any_more_expires(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Jobs would wait forever for a game that ended while its GPU could not be asked."""
    installation = one_gpu(image_model("flux", vram_mb=16000))
    probe = installation.memory = FakeProbe(dict(installation.gpus))
    gpu = installation.gpus["gpu"]
    gpu.other_mb = 15000
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(60)
        probe.gpus, gpu.other_mb = {}, 0
        await asyncio.sleep(15)
        assert queue.status.snapshot().hosts[0].foreign_mb == 15000, "a driver may hiccup"
        assert (await ended(queue, job, within_s=60)).state is JobState.COMPLETED
        (told,) = queue.status.snapshot().hosts
        assert told.foreign_mb == 0
        assert told.unmeasured_since == pytest.approx(installation.clock.now(), abs=90)
        assert "gpu has not been measured" in caplog.text
        probe.gpus, gpu.other_mb = installation.gpus, 5000
        await asyncio.sleep(15)
        (told,) = queue.status.snapshot().hosts
        assert (told.foreign_mb, told.unmeasured_since) == (5000, None)


@in_virtual_time
async def test_what_a_server_held_for_others_expires_when_it_does_not_say() -> None:
    """A failing call of a working server would keep memory reserved forever."""
    installation = one_gpu(image_model("flux", vram_mb=16000))
    server = installation.servers["comfy"]
    server.others = {"theirs": 15000}
    async with installation.queue() as queue:
        await asyncio.sleep(15)
        assert queue.status.snapshot().hosts[0].foreign_mb == 15000
        server.tells_others = False
        await asyncio.sleep(60)
        assert queue.status.snapshot().hosts[0].foreign_mb == 0


@in_virtual_time
async def test_idle_copies_make_way_for_other_programs() -> None:
    """Idle models would fill the GPU while a person's game stutters."""
    installation = Installation.of(
        [image_model("flux"), image_model("sdxl")], [host("gpu", "comfy", margin=0.8)]
    )
    installation.memory = FakeProbe(installation.gpus)
    async with installation.queue() as queue:
        for model in ("flux", "sdxl"):
            await ended(queue, await installation.ask(queue, model, "a"))
        assert len(installation.servers["comfy"].memory) == 2
        installation.gpus["gpu"].other_mb = 8000
        await asyncio.sleep(30)
        assert len(installation.servers["comfy"].memory) == 1


@in_virtual_time
async def test_a_model_that_a_server_holds_for_others_is_taken_memory_until_it_goes() -> None:
    """A load would fail, or unload the model of a person who uses the same Ollama."""
    installation = one_gpu(image_model("flux", vram_mb=16000), image_model("sdxl", vram_mb=6000))
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "sdxl", "a"))
        server.others = {"theirs": 15000}
        await asyncio.sleep(15)
        job = await installation.ask(queue, "flux", "a")
        await asyncio.sleep(60)
        (reason,) = [m.reason for m in queue.status.snapshot().models if m.name == "flux"]
        assert reason is not None
        assert reason.why is WaitCause.NO_ROOM
        assert queue.status.snapshot().hosts[0].foreign_mb == 15000
        assert not any("flux" in each for each in server.loads)
        server.others = {}
        assert (await ended(queue, job, within_s=60)).state is JobState.COMPLETED
        assert queue.status.snapshot().hosts[0].foreign_mb == 0


@in_virtual_time
async def test_a_measured_gpu_counts_the_models_of_others_once() -> None:
    """The GPU would seem fuller than it is, and a model that fits wait forever."""
    installation = one_gpu(image_model("flux", vram_mb=16000))
    installation.memory = FakeProbe(installation.gpus)
    installation.servers["comfy"].others = {"theirs": 6000}
    installation.gpus["gpu"].other_mb = 6000
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        assert (await ended(queue, job, within_s=60)).state is JobState.COMPLETED
        assert queue.status.snapshot().hosts[0].foreign_mb == 6000


@in_virtual_time
async def test_a_servers_own_figures_serve_where_the_gpu_is_elsewhere() -> None:
    """A remote GPU's memory would never be checked."""
    installation = one_gpu(image_model("flux", vram_mb=16000))
    installation.servers["comfy"].tells_memory = True
    installation.gpus["gpu"].other_mb = 15000
    async with installation.queue() as queue:
        await installation.ask(queue, "flux", "a")
        await asyncio.sleep(60)
        assert not installation.servers["comfy"].loads


@in_virtual_time
async def test_a_server_gone_for_good_frees_its_gpu_for_its_neighbours() -> None:
    """A crashed ComfyUI would keep a GPU's memory from the LM Studio beside it."""
    installation = Installation.of(
        [image_model("flux", "comfy", vram_mb=16000), image_model("llm", "lm", vram_mb=16000)],
        [host("gpu", "comfy", "lm")],
    )
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        installation.servers["comfy"].die(restart_s=-1)
        await asyncio.sleep(15)
        assert [backend.up for backend in queue.status.snapshot().backends] == [False, True]
        job = await installation.ask(queue, "llm", "b")
        assert (await ended(queue, job, within_s=180)).state is JobState.COMPLETED
        assert JobEvent.FAIL not in installation.history(job.id)
