"""One attempt at one job, and what becomes of it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    Problem,
    ProblemKind,
    Rejected,
    ResultGone,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
    problem,
)
from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.requests import TextToImage, Work
from queueing.core.specs import Timeouts
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from tests.fakes.servers.backend import Fate, prompt_of
from tests.simulation.installation import (
    NO_LIMITS,
    FlakyStore,
    Installation,
    ended,
    host,
    image_model,
    one_gpu,
    until,
)
from tests.simulation.loop import in_virtual_time

SHORT = Timeouts(first_s=30.0, idle_s=20.0, total_s=100.0)


def one_model(**fields: Any) -> Installation:
    return one_gpu(image_model("flux", **fields))


def fates(**by_prompt: list[Fate]) -> Callable[[Work], Fate]:
    """Return what happens to the named prompts, attempt by attempt; nothing bad afterwards."""

    def fate(work: Work) -> Fate:
        scripted = by_prompt.get(prompt_of(work), [])
        return scripted.pop(0) if scripted else Fate()

    return fate


@in_virtual_time
async def test_the_next_job_runs_while_the_last_ones_output_is_fetched() -> None:
    """The GPU would idle during every download."""
    installation = Installation.of([image_model("flux")], [host("gpu", "comfy", serial=True)])
    async with installation.queue() as queue:
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(2)]
        for job in jobs:
            await ended(queue, job)
    # The next one first: until it comes the server has nothing to do.
    assert installation.servers["comfy"].calls == ["run 0", "run 1", "fetch 0", "fetch 1"]
    first, second = (moment for moment, _, _ in installation.servers["comfy"].starts)
    # The fake serves for 5 s and brings the output 0.5 s later.
    assert 5.0 <= second - first < 5.4


@in_virtual_time
async def test_a_lost_connection_while_fetching_does_not_draw_again() -> None:
    """A lost connection after ten minutes of work would throw the work away."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.fetch_errors.extend([Unavailable("reset"), UnreadableAnswer("cut off")])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        assert (await ended(queue, job)).state is JobState.COMPLETED
        assert server.finished["cat"] == 1


@in_virtual_time
async def test_a_refusal_of_the_server_is_told_to_the_person() -> None:
    """People would read internals, or nothing, when a server refuses their request."""
    installation = one_model()
    refusal = Rejected("400 bad sampler", problem=problem(ProblemKind.NOT_TAKEN, field="steps"))
    installation.servers["comfy"].fates = fates(cat=[Fate(error=refusal)])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job)
        assert done.state is JobState.FAILED
        assert Problem.read(done.error or "") == refusal.problem
        assert done.attempt == 1


@in_virtual_time
async def test_a_fault_of_ours_fails_one_job_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One bug in an adapter would stop the bot for everyone."""
    installation = one_model()
    installation.servers["comfy"].fates = fates(cat=[Fate(error=KeyError("secret"))])
    async with installation.queue() as queue:
        bad = await installation.ask(queue, "flux", "cat")
        good = await installation.ask(queue, "flux", "dog")
        done = await ended(queue, bad)
        assert (done.state, done.error) == (JobState.FAILED, problem(ProblemKind.BUG).code())
        assert (await ended(queue, good)).state is JobState.COMPLETED
    assert f"job {1}" in caplog.text
    assert "KeyError" in caplog.text


@pytest.mark.parametrize(
    ("timeouts", "longest_s"),
    [
        (Timeouts(first_s=30.0, idle_s=20.0, total_s=None), 21.0),  # silent after its first sign
        (Timeouts(first_s=30.0, idle_s=None, total_s=100.0), 101.0),  # too long in all
    ],
)
@in_virtual_time
async def test_a_server_that_falls_silent_is_given_up(timeouts: Timeouts, longest_s: float) -> None:
    """A hanging server would keep a job and its slot forever."""
    installation = one_model(timeouts=timeouts, max_attempts=1)
    server = installation.servers["comfy"]
    server.fates = fates(cat=[Fate(service_s=1e9)])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job)
        assert (done.state, done.error) == (JobState.FAILED, problem(ProblemKind.LATE).code())
        assert done.finished_at is not None
        assert done.started_at is not None
        assert done.finished_at - done.started_at < longest_s
        assert server.cancelled == ["cat"]


@in_virtual_time
async def test_a_model_somebody_else_unloaded_is_loaded_again_and_the_job_keeps_its_attempt() -> (
    None
):
    """People would pay for what another program does to the GPU."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.fates = fates(cat=[Fate(error=NotLoaded("evicted"))])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
        assert len(server.loads) == 2
        assert JobEvent.RELEASE in installation.history(job.id)


@in_virtual_time
async def test_out_of_memory_while_running_makes_room_before_the_next_attempt() -> None:
    """The same job would meet the same full GPU until its attempts are used up."""
    installation = one_gpu(image_model("flux"), image_model("sdxl"))
    server = installation.servers["comfy"]
    server.fates = fates(cat=[Fate(error=OutOfMemory("oom"))])
    async with installation.queue() as queue:
        idle = await installation.ask(queue, "sdxl", "idle")
        await ended(queue, idle)
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 2)
        assert "sdxl" in {model for _, model in server.unloads}


@in_virtual_time
async def test_a_huge_request_is_tried_twice_and_costs_nobody_a_model() -> None:
    """One member's 8192 x 8192 would empty the GPU for everybody, three times each."""
    installation = one_gpu(image_model("flux"), image_model("sdxl"))
    server = installation.servers["comfy"]
    server.fates = fates(huge=[Fate(error=OutOfMemory("oom"))] * 9)
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "sdxl", "idle"))
        huge = TextToImage(prompt="huge", width=8192, height=8192)
        job = await queue.submitter.submit(
            replace(installation.new("flux", "huge"), request=huge), limits=NO_LIMITS
        )
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.FAILED, 2)
        assert not server.unloads
        await ended(queue, await installation.ask(queue, "flux", "huge"))
        assert "sdxl" in {model for _, model in server.unloads}, "of a usual size, others leave"


# ------------------------------------------------------------ servers that answer, and badly


@pytest.mark.parametrize("error", [UnreadableAnswer("<html>"), UnknownFailure("500"), Busy("429")])
@in_virtual_time
async def test_a_bad_answer_costs_nobody_but_its_own_job(error: BackendError) -> None:
    """One odd event would take a working server from everybody, or make its next job run alone."""
    installation = one_gpu(image_model("flux", parallel=3), image_model("sdxl"))
    server = installation.servers["comfy"]
    server.fates = fates(bad=[Fate(service_s=1.0, error=error)])
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "sdxl", "idle"))
        await ended(queue, await installation.ask(queue, "flux", "warm"))
        server.service_s = 60.0
        long = await installation.ask(queue, "flux", "long")
        bad = await installation.ask(queue, "flux", "bad")
        for second in range(30):
            assert queue.status.snapshot().backends[0].up, second
            await asyncio.sleep(1)
        later = await installation.ask(queue, "flux", "later")
        await asyncio.sleep(1)
        assert {prompt for _, _, prompt in server.starts} >= {"long", "bad", "later"}
        assert len(server.running) == 3
        assert not server.unloads
        for job in (long, bad, later):
            assert (await ended(queue, job)).state is JobState.COMPLETED


@pytest.mark.parametrize("kind", [Rejected, UnknownFailure, ModelCrashed, OutOfMemory, BadModel])
@in_virtual_time
async def test_a_servers_own_words_stand_in_one_line_of_the_log(
    kind: type[BackendError], caplog: pytest.LogCaptureFixture
) -> None:
    """An operator would not learn why a job failed, or a server could forge lines of the log."""
    installation = one_model(max_attempts=1)
    server = installation.servers["comfy"]
    said = "\x1b[31mmodel is corrupted\nor incomplete\r\u202e" + "x" * 100_000
    server.fates = fates(bad=[Fate(error=kind(said))])
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "bad")
        assert (await ended(queue, job)).state is JobState.FAILED
    (line,) = (each for each in caplog.messages if each.startswith(f"job {job.id} on comfy: "))
    assert f"{kind.__name__}: [31mmodel is corrupted or incomplete  x" in line
    assert line.isprintable()
    assert len(line) < 1100


@in_virtual_time
async def test_a_server_that_is_always_busy_is_told_within_minutes() -> None:
    """A program would hold its call for an hour, and then be told of a bug."""
    installation = one_gpu(image_model("flux"), image_model("sdxl"))
    server = installation.servers["comfy"]
    server.fates = fates(busy=[Fate(service_s=0.1, error=Busy("429", after_s=7.0))] * 99)
    async with installation.queue() as queue:
        await ended(queue, await installation.ask(queue, "sdxl", "idle"))
        job = await installation.ask(queue, "flux", "busy")
        done = await ended(queue, job)
        assert done.state is JobState.FAILED
        assert Problem.read(done.error or "") == problem(ProblemKind.BUSY, seconds=7)
        assert done.finished_at is not None
        assert done.finished_at - done.queued_at < 300
        assert not server.unloads
        assert queue.status.snapshot().backends[0].up


@in_virtual_time
async def test_a_result_that_is_gone_is_made_again_at_once() -> None:
    """A cleared history would cost a minute of polling, and mark the server as down."""
    installation = one_model()
    server = installation.servers["comfy"]
    server.fetch_errors.append(ResultGone("the history is empty"))
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 2)
        assert queue.status.snapshot().backends[0].up
        first, second = (moment for moment, _, _ in server.starts)
        assert second - first < server.service_s + 2.0


@in_virtual_time
async def test_a_server_that_only_answers_nonsense_is_taken_out() -> None:
    """Every job would be sent to it in turn."""
    installation = one_model()
    server = installation.servers["comfy"]

    def nonsense(_work: Work) -> Fate:
        asyncio.get_running_loop().call_later(server.service_s, setattr, server, "up", False)
        return Fate(error=UnreadableAnswer("<html>"))

    server.fates = nonsense
    async with installation.queue() as queue:
        await installation.ask(queue, "flux", "cat")
        await until(lambda: not server.up)
        await asyncio.sleep(2)
        assert not queue.status.snapshot().backends[0].up


# ------------------------------------------------------------ servers that die


@in_virtual_time
async def test_one_killer_among_three_is_found_and_the_others_pay_nothing() -> None:
    """A job that crashes its server would cost its neighbours their attempts."""
    installation = one_model(parallel=4)
    server = installation.servers["comfy"]
    server.service_s = 20.0
    killer = [Fate(service_s=10.0, crash=True) for _ in range(10)]
    server.fates = fates(killer=killer)
    async with installation.queue() as queue:
        jobs = {
            prompt: await installation.ask(queue, "flux", prompt)
            for prompt in ("one", "killer", "two")
        }
        done = {prompt: await ended(queue, job) for prompt, job in jobs.items()}
    assert done["killer"].state is JobState.FAILED
    assert Problem.read(done["killer"].error or "").attempts == 3
    for prompt in ("one", "two"):
        assert (done[prompt].state, done[prompt].attempt) == (JobState.COMPLETED, 1)
    assert 10 - len(killer) == 4, "once beside others, then three times alone"


@in_virtual_time
async def test_a_killer_takes_no_attempt_of_the_job_whose_result_is_being_fetched() -> None:
    """Jobs drawn before a request that crashes the server would fail with it."""
    installation = Installation.of([image_model("flux")], [host("gpu", "comfy", serial=True)])
    installation.servers["comfy"].fates = fates(killer=[Fate(service_s=0.1, crash=True)] * 10)
    async with installation.queue() as queue:
        before, killer = [
            await installation.ask(queue, "flux", prompt) for prompt in ("cat", "killer")
        ]
        done = await ended(queue, before)
        assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
        assert (await ended(queue, killer)).state is JobState.FAILED


@in_virtual_time
async def test_a_dead_servers_jobs_run_elsewhere() -> None:
    """Everyone would wait for one machine although another could do the work."""
    installation = Installation.of(
        [image_model("flux", "comfy-1", "comfy-2")],
        [host("gpu-1", "comfy-1"), host("gpu-2", "comfy-2")],
    )
    installation.servers["comfy-1"].fates = fates(cat=[Fate(crash=True)])
    installation.servers["comfy-1"].restart_s = 1e9
    async with installation.queue() as queue:
        job = await installation.ask(queue, "flux", "cat")
        done = await ended(queue, job, within_s=120)
        assert (done.state, done.backend) == (JobState.COMPLETED, "comfy-2")


@in_virtual_time
async def test_a_broken_connection_to_a_living_server_does_not_draw_twice() -> None:
    """Work that a server still does for a suspected job would be sent to it a second time."""
    installation = one_model(parallel=2)
    server = installation.servers["comfy"]
    server.service_s = 60.0
    async with installation.queue() as queue:
        jobs = [await installation.ask(queue, "flux", str(n)) for n in range(2)]
        await until(lambda: len(server.running) == 2)
        server.cut_connections()
        for job in jobs:
            assert (await ended(queue, job)).state is JobState.COMPLETED
        assert set(server.finished.values()) == {1}
        assert len(server.starts) == 2


# ------------------------------------------------------------ a database that is slow or fails


class SlowStarts(FlakyStore):
    """A store that writes no start until it may."""

    def __init__(self, store: JobStore) -> None:
        super().__init__(store)
        self.may_write = asyncio.Event()

    async def apply(self, job: Job, event: JobEvent, now: float, **fields: Any) -> JobChanged:
        """Change a job; a start waits."""
        if event is JobEvent.START:
            await self.may_write.wait()
        return await self._store.apply(job, event, now, **fields)


@in_virtual_time
async def test_nothing_is_sent_before_its_start_is_stored() -> None:
    """After a crash the server would run the same request a second time, under the same id."""
    installation = one_model()
    store = SlowStarts(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        job = await installation.ask(queue, "flux", "cat")
        await asyncio.sleep(60)
        assert installation.servers["comfy"].calls == []
        store.may_write.set()
        done = await ended(queue, job)
        assert (done.state, done.sendings) == (JobState.COMPLETED, 1)


@in_virtual_time
async def test_what_is_cancelled_before_its_start_is_stored_is_never_sent() -> None:
    """The server would work for no one."""
    installation = one_model()
    store = SlowStarts(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        job = await installation.ask(queue, "flux", "cat")
        await asyncio.sleep(1)
        assert (await queue.submitter.cancel(job.id)) is not None
        store.may_write.set()
        other = await installation.ask(queue, "flux", "dog")
        await ended(queue, other)
        assert installation.servers["comfy"].calls == ["run dog", "fetch dog"]


@in_virtual_time
async def test_a_start_that_cannot_be_stored_is_not_sent() -> None:
    """After a crash, nothing would know of jobs that were started with a full disk."""
    installation = one_model()
    store = FlakyStore(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        store.failing = {JobEvent.START}
        job = await installation.ask(queue, "flux", "cat")
        await asyncio.sleep(60)
        assert installation.servers["comfy"].calls == []
        store.failing = set()
        done = await ended(queue, job)
        assert (done.state, done.attempt, done.sendings) == (JobState.COMPLETED, 1, 1)


@in_virtual_time
async def test_finished_work_waits_for_a_full_disk(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk would throw away images that people waited for."""
    installation = one_model()
    store = FlakyStore(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        job = await installation.ask(queue, "flux", "cat")
        await until(lambda: installation.servers["comfy"].running)
        store.failing = {JobEvent.COMPLETE}
        await asyncio.sleep(300)
        assert installation.history(job.id) == [None, JobEvent.START]
        store.failing = set()
        done = await ended(queue, job, within_s=60)
        assert done.state is JobState.COMPLETED
        assert installation.servers["comfy"].finished["cat"] == 1
    assert "not stored yet" in caplog.text


@in_virtual_time
async def test_a_stop_is_not_held_up_by_a_broken_database() -> None:
    """The bot could not be stopped while its disk is full."""
    installation = one_model()
    store = FlakyStore(JobStore(await open_database("sqlite://", inline=True)))
    async with installation.queue(store) as queue:
        await installation.ask(queue, "flux", "cat")
        await until(lambda: installation.servers["comfy"].running)
        store.failing = {JobEvent.COMPLETE, JobEvent.RELEASE, "get"}
        await asyncio.sleep(20)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began <= installation.grace_s + 1
