"""What a restart finds and how it continues, after an orderly stop and after a kill."""

import asyncio
from pathlib import Path

import pytest

from queueing.core.catalog import Catalog
from queueing.core.errors import OutOfMemory
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.snapshot import Reason, WaitCause
from queueing.planning.retry import LOST_AT_ONCE, LOST_MOST
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.servers.backend import FakeProbe, Fate, prompt_of
from tests.simulation.installation import Installation, ended, host, image_model, one_gpu, until
from tests.simulation.loop import in_virtual_time


def installation_in(folder: Path, **fields: object) -> Installation:
    models = [image_model("flux", vram_mb=16000), image_model("sdxl", vram_mb=16000)]
    installation = Installation.of(
        models, [host("gpu", "comfy")], url=f"sqlite:///{folder / 'usher.db'}"
    )
    for name, value in fields.items():
        setattr(installation, name, value)
    return installation


async def killed_while(installation: Installation, condition: object) -> None:
    """Run a queue on the installation's database and kill it once the condition holds."""
    store = JobStore(await open_database(installation.url, inline=True))
    backends = installation.connect()
    task = asyncio.create_task(installation.build(store, backends).run())
    await until(condition)
    for backend in backends.values():
        backend.dead = True
    # A dead process writes nothing more, whatever its tasks still try.
    await store.aclose()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def submitted(installation: Installation, *prompts: str, model: str = "flux") -> list[int]:
    """Accept jobs without a running queue, as before a crash."""
    store = JobStore(await open_database(installation.url, inline=True))
    queue = installation.build(store, installation.connect())
    jobs = [await installation.ask(queue, model, p) for p in prompts]
    await store.aclose()
    return [job.id for job in jobs]


async def left_running(folder: Path, **fields: float) -> tuple[Installation, int]:
    """Kill a queue while its server, with these fields set, runs a job; return both."""
    installation = installation_in(folder)
    server = installation.servers["comfy"]
    for name, value in fields.items():
        setattr(server, name, value)
    (job_id,) = await submitted(installation, "cat")
    await killed_while(installation, lambda: server.running)
    return installation, job_id


async def end_of(queue: JobQueue, job_id: int, **within: float) -> Job:
    job = await queue.jobs.get(job_id)
    assert job is not None
    return await ended(queue, job, **within)


@in_virtual_time
async def test_what_finished_while_we_were_away_is_fetched_and_reported(tmp_path: Path) -> None:
    """An image that is done would be drawn again, or never delivered."""
    installation, job_id = await left_running(tmp_path)
    server = installation.servers["comfy"]
    await until(lambda: server.finished["cat"])
    installation.events.clear()
    async with installation.queue() as queue:
        await until(lambda: JobEvent.COMPLETE in installation.history(job_id), within_s=10)
        (job,) = await queue.deliveries.unacknowledged()
        assert (job.id, job.state) == (job_id, JobState.COMPLETED)
        assert len(server.starts) == 1
        await queue.deliveries.acknowledge(job)
        assert not await queue.deliveries.unacknowledged()


@in_virtual_time
async def test_a_job_the_server_has_forgotten_runs_again(tmp_path: Path) -> None:
    """A job would be lost when bot and server restart together."""
    installation, job_id = await left_running(tmp_path)
    server = installation.servers["comfy"]
    server.die(restart_s=5.0)
    async with installation.queue() as queue:
        done = await end_of(queue, job_id)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)


@in_virtual_time
async def test_a_process_that_lost_the_queue_as_it_stored_a_start_sends_nothing(
    tmp_path: Path,
) -> None:
    """Frozen between the two, it would have an image made that its successor has delivered."""
    installation, starts = installation_in(tmp_path), list[Job]()
    async with installation.queue() as queue:

        def freeze(event: Event) -> None:
            if isinstance(event, JobChanged) and event.event is JobEvent.START:
                starts.append(event.job)
                installation.held = len(starts) > 1

        queue.events.subscribe(freeze)
        job = await installation.ask(queue, "flux", "cat")
        await until(lambda: JobEvent.RELEASE in installation.history(job.id))
        assert not installation.servers["comfy"].starts
        await ended(queue, job)
        assert len(installation.servers["comfy"].starts) == 1


async def bring_everything_down(installation: Installation, job_id: int, times: int) -> None:
    """Kill queue and server whenever the job runs, this often or until it has failed."""
    server = installation.servers["comfy"]
    server.service_s = 100.0
    for _ in range(times):
        await killed_while(
            installation, lambda: server.running or JobEvent.FAIL in installation.history(job_id)
        )
        server.die(restart_s=0.0)
        await asyncio.sleep(1)
    server.service_s = 5.0


@in_virtual_time
async def test_a_job_is_not_blamed_for_our_restarts(tmp_path: Path) -> None:
    """A few restarts in a row would fail the running request, and its work would be lost."""
    installation = installation_in(tmp_path)
    (job_id,) = await submitted(installation, "cat")
    await bring_everything_down(installation, job_id, 5)
    async with installation.queue() as queue:
        done = await end_of(queue, job_id)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)


@in_virtual_time
async def test_a_job_that_ends_with_every_run_of_ours_fails_some_day(tmp_path: Path) -> None:
    """A job that crashes everything would do so at every restart, forever."""
    installation = installation_in(tmp_path)
    (job_id,) = await submitted(installation, "cat")
    await bring_everything_down(installation, job_id, LOST_MOST)
    async with installation.queue() as queue:
        done = await end_of(queue, job_id, within_s=60)
        assert done.state is JobState.FAILED
        assert done.error


@in_virtual_time
async def test_others_are_done_between_the_starts_of_a_job_that_ends_every_run(
    tmp_path: Path,
) -> None:
    """A job that crashes everything would have every other job given up with it."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    ends_all, other = await submitted(installation, "cat", "dog")

    def begins() -> bool:
        return any(prompt_of(attempt.work) == "cat" for attempt in server.running)

    for _ in range(LOST_AT_ONCE + 1):
        await killed_while(installation, begins)
        server.die(restart_s=0.0)
    assert JobEvent.COMPLETE in installation.history(other)
    assert JobEvent.FAIL not in installation.history(ends_all)


@in_virtual_time
async def test_a_recovered_job_occupies_its_slot(tmp_path: Path) -> None:
    """A restart would send a second job to a server that does one thing at a time."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    server.slots, server.service_s = 1, 50.0
    await submitted(installation, "a", "b")
    await killed_while(installation, lambda: server.running)
    async with installation.queue():
        await asyncio.sleep(5)
        assert [prompt for _, _, prompt in server.starts] == ["a"]
        await until(lambda: len(server.finished) == 2)
    assert not installation.violations


@in_virtual_time
async def test_a_model_that_is_loaded_already_is_not_loaded_again(tmp_path: Path) -> None:
    """Every restart would cost each model a load, or fill the GPU twice."""
    installation = installation_in(tmp_path)
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
    for tells in (True, False):
        installation.servers["comfy"].tells_loaded = tells
        async with installation.queue() as queue:
            await ended(queue, await installation.ask(queue, "flux", "b"))
    assert len(installation.servers["comfy"].loads) == 1


@in_virtual_time
async def test_a_server_that_only_forgot_is_no_failed_load(tmp_path: Path) -> None:
    """After a restart of both people read "loading flux failed; next try …", and waited for it."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    server.tells_loaded = False
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
    server.die(restart_s=0.0)
    await asyncio.sleep(1.0)
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "b")
        seen = set()
        while not server.finished["b"]:
            reason = (await queue.status.standings([job]))[job.id].reason
            seen.add(None if reason is None else reason.why)
            await asyncio.sleep(0.1)
    assert WaitCause.LOADING in seen
    assert WaitCause.LOAD_PAUSE not in seen
    assert WaitCause.RETRY_PAUSE not in seen


@in_virtual_time
async def test_a_load_cut_off_by_a_kill_does_not_overfill_the_gpu(tmp_path: Path) -> None:
    """A load that continues after a crash and the next load would coincide on one GPU."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    (job_id,) = await submitted(installation, "a")
    await killed_while(installation, lambda: server.loading)
    await submitted(installation, "b", model="sdxl")
    async with installation.queue() as queue:
        await queue.submitter.cancel(job_id)
        await until(lambda: server.finished["b"])
    assert not installation.violations


@in_virtual_time
async def test_pins_survive_a_restart(tmp_path: Path) -> None:
    """Models an admin preloaded would be gone after the next update of the bot."""
    installation = installation_in(tmp_path)
    async with installation.queue() as queue:
        await queue.preloads.preload("sdxl", None)
    installation.servers["comfy"].die(restart_s=0.0)
    await asyncio.sleep(1)
    async with installation.queue() as queue:
        await until(lambda: installation.servers["comfy"].memory == {"sdxl"}, within_s=60)
        await asyncio.sleep(1)
        assert [copy.pinned for copy in queue.status.snapshot().models[1].copies] == [True]


@in_virtual_time
async def test_a_model_configured_to_be_preloaded_is_loaded_and_pinned() -> None:
    """`preload: true` would do nothing."""
    installation = one_gpu(image_model("eye", preload=True))
    async with installation.queue() as queue:
        await until(lambda: installation.servers["comfy"].memory == {"eye"}, within_s=60)
        await asyncio.sleep(1)
        assert [copy.pinned for copy in queue.status.snapshot().models[0].copies] == [True]


@in_virtual_time
async def test_learned_times_survive_a_restart(tmp_path: Path) -> None:
    """Every restart would make the shown times wrong again."""
    installation = installation_in(tmp_path)
    installation.servers["comfy"].service_s = 77.0
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "flux", "a"))
        await asyncio.sleep(1)
    async with installation.queue() as queue:
        await asyncio.sleep(1)
        assert queue.status.snapshot().models[0].service_s == pytest.approx(77.0, abs=1.0)


@in_virtual_time
async def test_a_learned_size_survives_a_restart_until_it_is_measured_again(tmp_path: Path) -> None:
    """A model of unknown size would again get a whole GPU after every restart."""
    models = [image_model("flux", vram_mb=None), image_model("sdxl")]
    installation = Installation.of(
        models, [host("gpu", "comfy")], url=f"sqlite:///{tmp_path / 'usher.db'}"
    )
    installation.memory = FakeProbe(installation.gpus)
    server = installation.servers["comfy"]
    for mb in (9000, 7000):  # the operator put a smaller one behind the name meanwhile
        server.sizes["flux"] = mb
        async with installation.queue() as queue:
            await ended(queue, await installation.ask(queue, "flux", "a"))
            assert queue.status.snapshot().models[0].vram_mb == mb
            await asyncio.sleep(1)
        server.die(restart_s=0.0)
        await asyncio.sleep(1)
        async with installation.queue() as queue:
            await asyncio.sleep(1)
            assert queue.status.snapshot().models[0].vram_mb == mb


@in_virtual_time
async def test_a_job_cancelled_as_we_died_does_not_run_on(tmp_path: Path) -> None:
    """A server would draw for no one while others wait for it."""
    installation, job_id = await left_running(tmp_path, service_s=500.0)
    server = installation.servers["comfy"]
    store = JobStore(await open_database(installation.url, inline=True))
    running = await store.get(job_id)
    assert running is not None
    await store.apply(running, JobEvent.CANCEL, 1.0)
    await store.aclose()
    assert server.running
    async with installation.queue() as queue:
        await asyncio.sleep(10)
        assert not server.running
        assert await queue.deliveries.unacknowledged()


@in_virtual_time
async def test_jobs_of_a_model_that_left_the_configuration_say_so_and_go_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    """People would wait for a model that is gone and not learn why."""
    installation = installation_in(tmp_path)
    (job_id,) = await submitted(installation, "cat")
    whole = installation.catalog
    installation.catalog = Catalog([whole.models["sdxl"]], whole.hosts.values())
    async with installation.queue() as queue:
        await asyncio.sleep(10)
        standing = (await queue.status.standings(await queue.jobs.open_jobs()))[job_id]
        assert standing.reason == Reason(why=WaitCause.OFFLINE, model="flux")
        assert (standing.position, standing.ends) == (1, None)
    installation.catalog = whole
    async with installation.queue() as queue:
        (job,) = await queue.jobs.open_jobs()
        assert (await ended(queue, job)).state is JobState.COMPLETED


# ------------------------------------------------------------ stopping in order


@in_virtual_time
async def test_a_stop_waits_for_jobs_that_end_in_time(tmp_path: Path) -> None:
    """Every stop would waste the last seconds of nearly finished work."""
    installation = installation_in(tmp_path)
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: installation.servers["comfy"].running)
    assert installation.history(job.id) == [None, JobEvent.START, JobEvent.COMPLETE]


async def stopped_while_running(installation: Installation, *, times: int = 1) -> Job:
    """Stop queues in order, one after the other, while the server runs the same long job."""
    server = installation.servers["comfy"]
    server.service_s = 100.0
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: server.running)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began <= installation.grace_s + 0.1
    for _ in range(times - 1):
        async with installation.queue():
            await until(lambda: server.running)
    return job


@pytest.mark.parametrize("stops", [1, 3])
@in_virtual_time
async def test_a_stop_leaves_long_jobs_to_their_server(tmp_path: Path, stops: int) -> None:
    """Every stop and start of the bot would begin long images again."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    job = await stopped_while_running(installation, times=stops)
    assert not server.cancelled
    async with installation.queue() as queue:
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
        assert asyncio.get_running_loop().time() < 120
    assert [prompt for _, _, prompt in server.starts] == ["a"]
    assert JobEvent.RELEASE not in installation.history(job.id)
    assert not installation.violations


@in_virtual_time
async def test_a_stop_in_the_middle_of_a_start_leaves_jobs_to_their_server(tmp_path: Path) -> None:
    """Two restarts in a row would throw away what a server is drawing."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    job = await stopped_while_running(installation)
    server.answer_s = 3.0  # the new run asks what is in memory
    async with installation.queue():
        await asyncio.sleep(1)
    server.answer_s = 0.0
    assert not server.cancelled
    async with installation.queue() as queue:
        assert (await ended(queue, job)).state is JobState.COMPLETED
    assert [prompt for _, _, prompt in server.starts] == ["a"]


@in_virtual_time
async def test_a_stop_returns_jobs_to_their_place_where_servers_keep_nothing(
    tmp_path: Path,
) -> None:
    """Stopping the bot would cost people their place, an attempt or the job."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    server.remembers = False
    job = await stopped_while_running(installation)
    assert server.cancelled == ["a"]
    server.service_s = 5.0
    async with installation.queue() as queue:
        done = await ended(queue, job)
        assert (done.state, done.attempt, done.sendings) == (JobState.COMPLETED, 1, 2)
    assert not installation.violations  # among them: one id sent twice


@in_virtual_time
async def test_a_job_cancelled_while_the_bot_is_away_is_stopped_on_its_server(
    tmp_path: Path,
) -> None:
    """A server would finish drawing what no one wants any more."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    job = await stopped_while_running(installation)
    async with installation.queue() as queue:
        await queue.submitter.cancel(job.id)
        await until(lambda: server.cancelled)
    assert not server.running


@in_virtual_time
async def test_what_a_server_finished_during_a_stop_is_fetched_by_the_next_start(
    tmp_path: Path,
) -> None:
    """A restart in the wrong second would draw a finished image again."""
    installation = installation_in(tmp_path, grace_s=0.1)
    server = installation.servers["comfy"]
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "a")
        await until(lambda: server.finished["a"])
    async with installation.queue() as queue:
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
        assert server.finished["a"] == 1


@in_virtual_time
async def test_what_is_asked_during_a_stop_waits_for_the_next_start(tmp_path: Path) -> None:
    """A request made in the wrong second would be refused, begun and cut off, or lost."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    server.service_s = 100.0
    store = JobStore(await open_database(installation.url, inline=True))
    queue = installation.build(store, installation.connect())
    task = asyncio.create_task(queue.run())
    await installation.ask(queue, "flux", "a")
    await until(lambda: server.running)
    task.cancel()
    await asyncio.sleep(1)
    job = await installation.ask(queue, "flux", "b")
    await asyncio.gather(task, return_exceptions=True)
    await store.aclose()
    assert [prompt for _, _, prompt in server.starts] == ["a"]
    async with installation.queue() as queue:
        assert (await ended(queue, job)).state is JobState.COMPLETED


@in_virtual_time
async def test_a_job_that_pauses_after_a_failed_attempt_is_told_so_beside_others(
    tmp_path: Path,
) -> None:
    """Its message would only say "accepted" while others of its queue continue."""
    installation = installation_in(tmp_path)
    server = installation.servers["comfy"]
    server.fates = lambda work: Fate(error=OutOfMemory("no") if prompt_of(work) == "a" else None)
    async with installation.queue() as queue:
        first = await installation.ask(queue, "flux", "a")
        for number in range(4):
            await installation.ask(queue, "flux", str(number))
        seen = set()
        while not server.finished["3"]:
            job = await queue.jobs.get(first.id) or first
            standing = (await queue.status.standings([job]))[job.id]
            if standing.position is None and standing.job.state is JobState.PENDING:
                seen.add(None if standing.reason is None else standing.reason.why)
            await asyncio.sleep(0.1)
    assert WaitCause.RETRY_PAUSE in seen
    assert seen <= {WaitCause.RETRY_PAUSE, WaitCause.STARTING, WaitCause.LOADING}
