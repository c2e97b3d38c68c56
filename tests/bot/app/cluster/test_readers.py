"""What running jobs write is sent to the processes that show it, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.cluster.queue_link import QueueConnection
from bot.app.cluster.remote_queue import RemoteQueue
from bot.core.origin import Origin
from queueing.core.events import Event, Progressed
from queueing.core.jobs import Job, SubmitLimits
from queueing.core.requests import File, Progress
from tests.bot.app.cluster.holders import Cluster, cluster
from tests.fakes.no_files import NoFiles
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time

IMAGE = File(name="p.png", mime="image/png", data=b"x" * 9_000)
WHOLE = Progress(fraction=0.5, text="a cat sat", preview=IMAGE, chunks=("a cat",))
OUTLINE = Progress(fraction=0.5)
WORDS = Progress(text="a cat sat down", chunks=(" sat",))


def origin(platform: str) -> str:
    return Origin(
        platform=platform,
        chat="7",
        group=False,
        user=f"{platform}:1",
        user_name="Ada",
        language="en",
        key="k",
    ).model_dump_json()


@asynccontextmanager
async def begun(folder: Path) -> AsyncIterator[Cluster]:
    url = f"sqlite:///{folder}/usher.db"
    made = Installation.of([image_model("flux", "comfy")], [host("gpu-1", "comfy")], url=url)
    async with cluster(made) as each, each.holder() as queue:
        await queue.admin.pause()  # only what a test reports is told
        yield each


class Reader:
    """Another process, with the progress it has received."""

    def __init__(self, made: Cluster, *reads: str) -> None:
        self.link = QueueConnection(made.dial, reads=reads)
        self.told: list[Progress] = []
        self.link.subscribe(self._listen)

    def _listen(self, event: Event) -> None:
        if isinstance(event, Progressed):
            self.told.append(event.progress)


@asynccontextmanager
async def connected(**readers: Reader) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.link.run()) for each in readers.values()]
        for each in readers.values():
            await each.link.connected()
        await asyncio.sleep(1)
        yield
        for task in running:
            task.cancel()


async def accepted(made: Cluster, reply_to: str) -> Job:
    new = made.installation.new("flux", "cat", reply_to=reply_to)
    job = await made.queue.submitter.submit(new, limits=SubmitLimits())
    await asyncio.sleep(1)
    return job


async def report(
    made: Cluster, job: Job, progress: Progress, **readers: Reader
) -> Mapping[str, list[Progress]]:
    """Let a server report progress of a job; return what each process is sent of it."""
    assert made._server is not None
    for each in readers.values():
        each.told.clear()
    made._server._on_event(Progressed(job_id=job.id, progress=progress))
    await asyncio.sleep(1)
    return {name: list(each.told) for name, each in readers.items()}


@pytest.mark.parametrize("platform", ["telegram", "api"])
@in_virtual_time
async def test_words_and_images_go_to_those_who_show_them(tmp_path: Path, platform: str) -> None:
    """Each process would be sent everything that is written for all others."""
    async with begun(tmp_path) as made:
        there = {"shows": Reader(made, "web", platform), "stands_by": Reader(made, "web")}
        async with connected(**there):
            job = await accepted(made, origin(platform))
            told = await report(made, job, WHOLE, **there)
            assert told == {"shows": [WHOLE], "stands_by": [OUTLINE]}
            told = await report(made, job, WORDS, **there)
            assert told == {"shows": [WORDS], "stands_by": []}
            for reply_to in ("", "a place that is no chat"):
                unknown = await accepted(made, reply_to)
                told = await report(made, unknown, WHOLE, **there)
                assert told == {"shows": [WHOLE], "stands_by": [WHOLE]}


@in_virtual_time
async def test_one_job_is_read_for_as_long_as_a_program_asks_for_it(tmp_path: Path) -> None:
    """Its previews would be missing in a process without its chat, or be sent there forever."""
    async with begun(tmp_path) as made:
        there = {"api": Reader(made, "api")}
        async with connected(**there):
            job, other = [await accepted(made, origin("telegram")) for _ in range(2)]
            with RemoteQueue(there["api"].link, NoFiles()).events.reading(job.id):
                await asyncio.sleep(1)
                assert await report(made, job, WHOLE, **there) == {"api": [WHOLE]}
                assert await report(made, other, WHOLE, **there) == {"api": [OUTLINE]}
            await asyncio.sleep(1)
            assert await report(made, job, WHOLE, **there) == {"api": [OUTLINE]}


@in_virtual_time
async def test_a_process_that_takes_a_chat_over_is_told_all_from_then_on(tmp_path: Path) -> None:
    """A message would not change until its job has ended, or show only half of its words."""
    async with begun(tmp_path) as made:
        there = {"before": Reader(made), "after": Reader(made)}
        async with connected(**there):
            job = await accepted(made, origin("telegram"))
            with there["before"].link.reading("telegram"):
                await asyncio.sleep(1)
                told = await report(made, job, WHOLE, **there)
                assert told == {"before": [WHOLE], "after": [OUTLINE]}
            with there["after"].link.reading("telegram"):
                await asyncio.sleep(1)
                told = await report(made, job, WORDS, **there)
                assert told == {"before": [], "after": [WORDS]}
                made.cut()
                await there["after"].link.connected()
                await asyncio.sleep(5)
                told = await report(made, job, WHOLE, **there)
                assert told == {"before": [OUTLINE], "after": [WHOLE]}
