"""Starts that are announced while the job before them runs, and sent before they are stored."""

import asyncio
from pathlib import Path

from queueing.core.jobs import Job, JobEvent, JobState
from queueing.core.requests import TextToImage
from queueing.service.jobqueue import JobQueue
from queueing.store import JobStore, open_database
from tests.simulation.installation import (
    NO_LIMITS,
    FlakyStore,
    Installation,
    SlowDisk,
    ended,
    host,
    image_model,
    until,
)
from tests.simulation.loop import run


def serial_installation(folder: Path) -> Installation:
    return Installation.of(
        [image_model("flux"), image_model("sdxl")],
        [host("gpu", "comfy", serial=True)],
        url=f"sqlite:///{folder / 'usher.db'}",
    )


async def slow(installation: Installation) -> SlowDisk:
    return SlowDisk(JobStore(await open_database(installation.url, inline=True)))


async def submitted(installation: Installation, queue: JobQueue, *prompts: str) -> list[Job]:
    return [
        await queue.submitter.submit(installation.new("flux", each), limits=NO_LIMITS)
        for each in prompts
    ]


def prompts_sent(installation: Installation) -> list[str]:
    return [prompt for _, _, prompt in installation.servers["comfy"].starts]


async def sent_unwritten(
    installation: Installation, queue: JobQueue, store: SlowDisk
) -> tuple[Job, Job]:
    """Return the job that ran and the next one, which was sent and is not stored as started."""
    first, second = await submitted(installation, queue, "cat", "dog")
    await until(lambda: prompts_sent(installation) == ["cat"])
    await asyncio.sleep(1)
    store.may_write.clear()
    await until(lambda: prompts_sent(installation) == ["cat", "dog"])
    return first, second


async def current(queue: JobQueue, job: Job) -> Job:
    found = await queue.jobs.get(job.id)
    assert found is not None
    return found


async def killed(
    installation: Installation, store: SlowDisk, task: "asyncio.Task[None]", queue: JobQueue
) -> None:
    for backend in queue.backends.values():
        backend.dead = True  # type: ignore[attr-defined]
    await store.aclose()
    store.may_write.set()  # nothing is written any more, and no one waits for it for ever
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert installation.violations == []


def test_the_next_job_is_sent_before_its_start_is_stored(tmp_path: Path) -> None:
    """A server would idle while the disk writes."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        async with installation.queue(store) as queue:
            _, second = await sent_unwritten(installation, queue, store)
            assert (await current(queue, second)).state is JobState.PENDING
            store.may_write.set()
            done = await ended(queue, second)
            assert (done.state, done.attempt, done.sendings) == (JobState.COMPLETED, 1, 1)
        assert installation.violations == []

    run(scenario())


def test_what_was_sent_as_the_process_died_is_found_and_not_sent_again(tmp_path: Path) -> None:
    """The same request would run twice, the second time under an id that its server knows."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        queue = installation.build(store, installation.connect())
        task = asyncio.create_task(queue.run())
        _, second = await sent_unwritten(installation, queue, store)
        await killed(installation, store, task, queue)
        async with installation.queue() as again:
            done = await ended(again, second)
            assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
            assert prompts_sent(installation).count("dog") == 1
        assert installation.violations == []

    run(scenario())


def test_an_announced_job_that_was_never_sent_waits_in_its_place(tmp_path: Path) -> None:
    """A crash would cost a job that waited its place, or one of its attempts."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        queue = installation.build(store, installation.connect())
        task = asyncio.create_task(queue.run())
        _, second, third = await submitted(installation, queue, "cat", "dog", "cow")
        await until(lambda: prompts_sent(installation) == ["cat"])
        await asyncio.sleep(1)
        assert [job.id for job, _ in await store.announced()] == [second.id]
        await killed(installation, store, task, queue)
        async with installation.queue() as again:
            await ended(again, third)
            done = await ended(again, second)
            assert (done.state, done.attempt) == (JobState.COMPLETED, 1)
            assert prompts_sent(installation) == ["cat", "dog", "cow"]
        assert installation.violations == []

    run(scenario())


def test_a_server_that_is_away_after_a_crash_costs_an_announced_job_nothing(tmp_path: Path) -> None:
    """A job that waited would be charged, and run alone from then on, for what it never did."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        server = installation.servers["comfy"]
        store = await slow(installation)
        queue = installation.build(store, installation.connect())
        task = asyncio.create_task(queue.run())
        _, second = await submitted(installation, queue, "cat", "dog")
        await until(lambda: prompts_sent(installation) == ["cat"])
        await asyncio.sleep(1)
        await killed(installation, store, task, queue)
        server.die(restart_s=90.0)
        async with installation.queue() as again:
            done = await ended(again, second)
            assert (done.state, done.attempt, done.suspect) == (JobState.COMPLETED, 1, False)

    run(scenario())


def test_a_sent_job_whose_start_cannot_be_stored_is_stopped_and_sent_under_another_id(
    tmp_path: Path,
) -> None:
    """A full disk would have one job run under an id that another of its runs may get."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        async with installation.queue(store) as queue:
            _, second = await sent_unwritten(installation, queue, store)
            store.failing = True
            store.may_write.set()
            await until(lambda: installation.servers["comfy"].cancelled == ["dog"])
            await asyncio.sleep(30)
            store.failing = False
            done = await ended(queue, second)
            assert (done.state, done.attempt, done.sendings) == (JobState.COMPLETED, 1, 2)
        assert installation.violations == []

    run(scenario())


def test_a_sent_job_that_is_cancelled_is_stopped_once_it_has_started(tmp_path: Path) -> None:
    """The server would go on for no one, or the cancellation be lost."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        async with installation.queue(store) as queue:
            _, second = await sent_unwritten(installation, queue, store)
            store.failing = True  # what is cancelled first in spite of that needs no other sending
            cancelled = await queue.submitter.cancel(second.id)
            assert cancelled is not None
            assert cancelled.state is JobState.CANCELLED
            store.may_write.set()
            await until(lambda: installation.servers["comfy"].cancelled == ["dog"])
            store.failing = False
            (third,) = await submitted(installation, queue, "cow")
            assert (await ended(queue, third)).state is JobState.COMPLETED
            assert prompts_sent(installation) == ["cat", "dog", "cow"]
        assert installation.violations == []

    run(scenario())


def test_the_next_job_is_ready_before_its_turn(tmp_path: Path) -> None:
    """Its files would be read, and its connection made, while the server waits."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        server = installation.servers["comfy"]
        async with installation.queue() as queue:
            _, second = await submitted(installation, queue, "cat", "dog")
            await until(lambda: prompts_sent(installation) == ["cat"])
            await asyncio.sleep(1)
            assert (server.readied, server.calls) == (["cat", "dog"], ["run cat"])
            assert (await ended(queue, second)).state is JobState.COMPLETED
            assert server.readied == ["cat", "dog"]

    run(scenario())


def test_a_request_that_is_replaced_is_prepared_again(tmp_path: Path) -> None:
    """The old request would be sent, since it was ready."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        server = installation.servers["comfy"]
        async with installation.queue() as queue:
            _, second = await submitted(installation, queue, "cat", "dog")
            await until(lambda: server.readied == ["cat", "dog"])
            await queue.submitter.replace_request(second.id, TextToImage(prompt="cow"))
            await ended(queue, second)
            assert prompts_sent(installation) == ["cat", "cow"]
            assert server.readied == ["cat", "dog", "cow"]

    run(scenario())


def test_what_could_not_be_prepared_is_prepared_at_its_turn(tmp_path: Path) -> None:
    """A fault that has long passed would cost a job its turn."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = FlakyStore(JobStore(await open_database(installation.url, inline=True)))
        async with installation.queue(store) as queue:
            await submitted(installation, queue, "cat")
            await until(lambda: prompts_sent(installation) == ["cat"])
            store.failing.add("inputs")
            (second,) = await submitted(installation, queue, "dog")
            await asyncio.sleep(1)
            assert store.calls["inputs"] == 2
            store.failing.clear()
            await ended(queue, second)
            assert JobEvent.RELEASE not in installation.history(second.id)
            assert installation.servers["comfy"].readied == ["cat", "dog"]

    run(scenario())


def test_a_job_cancelled_before_its_turn_is_never_sent(tmp_path: Path) -> None:
    """What is announced must not bind anyone."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        async with installation.queue(store) as queue:
            _, second, third = await submitted(installation, queue, "cat", "dog", "cow")
            await until(lambda: prompts_sent(installation) == ["cat"])
            await asyncio.sleep(1)
            await queue.submitter.cancel(second.id)
            await asyncio.sleep(1)
            assert installation.servers["comfy"].readied == ["cat", "dog", "cow"]
            assert (await ended(queue, third)).state is JobState.COMPLETED
            assert prompts_sent(installation) == ["cat", "cow"]
            assert JobEvent.START not in installation.history(second.id)

    run(scenario())


def test_who_passes_an_announced_job_is_announced_instead(tmp_path: Path) -> None:
    """A job put first would wait for the disk, and the one before it be asked for after a crash."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        store = await slow(installation)
        async with installation.queue(store) as queue:
            jobs = await submitted(installation, queue, "cat", "dog", "cow")
            await until(lambda: prompts_sent(installation) == ["cat"])
            await asyncio.sleep(1)
            await queue.admin.move_first(jobs[2].id)
            await asyncio.sleep(1)
            assert [job.id for job, _ in await store.announced()] == [jobs[2].id]
            await ended(queue, jobs[1])
            assert prompts_sent(installation) == ["cat", "cow", "dog"]

    run(scenario())


def test_a_stop_in_order_leaves_nothing_announced(tmp_path: Path) -> None:
    """The next start would ask servers for jobs that never left, and hold them up meanwhile."""

    async def scenario() -> None:
        installation = serial_installation(tmp_path)
        installation.grace_s = 0.0
        async with installation.queue() as queue:
            await submitted(installation, queue, "cat", "dog")
            await until(lambda: prompts_sent(installation) == ["cat"])
            await asyncio.sleep(1)
            assert len(await queue.jobs.announced()) == 1
        store = await slow(installation)
        assert await store.announced() == []
        await store.aclose()

    run(scenario())
