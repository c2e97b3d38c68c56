"""The process that reads untrusted videos, sounds and documents: its work, limits and end."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.common.file_types import mime_of
from backends.media import videos
from backends.media.helper import process as helper
from backends.media.helper.protocol import Answer, MediaTask, Order
from queueing.core.concurrency import timeout

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.papers import docx, paragraph
from tests.backends.media.planted import MOVES, MOVING, PLANTED, SECRET
from tests.backends.media.recorded_videos import KINDS, tags_of, video
from tests.fakes.media_helper import here

OF_SOUNDS = (MediaTask.WAV, MediaTask.VOICE, MediaTask.ENCODE)


def order_of(task: MediaTask, data: bytes) -> Order:
    return Order(
        task=task,
        mime=mime_of(data),
        size=len(data),
        limit=1_000_000,
        characters=1000,
        images=2,
        seconds=60,
        form="mp3" if task is MediaTask.ENCODE else "",
    )


async def is_done(task: MediaTask, data: bytes) -> bool:
    """Return whether the process gives the same answer as the same work done outside it."""
    order = order_of(task, data)
    answer, made = await helper.ask(order, data)
    expected, as_expected = await here(order, data)
    return answer == expected and len(made) == len(as_expected)


@pytest.mark.parametrize("task", MediaTask)
async def test_every_task_is_done_in_the_process(task: MediaTask) -> None:
    """A library that opens a file late would be refused it in the process, and only there."""
    if task is MediaTask.READ:
        data = docx(paragraph("hello"))
    elif task is MediaTask.IMAGE:
        data = PLANTED["AVIF"]()
    else:
        data = video("mp4", silent=task is MediaTask.SOUNDTRACK)
    assert await is_done(task, data)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_read_in_the_process(kind: str) -> None:
    """A codec that needs more memory than the process may use would fail for all its files."""
    how, data = KINDS[kind], video(kind)
    tasks = [MediaTask.CLEAN, MediaTask.LOOK, MediaTask.FIT]
    tasks += [MediaTask.FRAMES] if how.image else []
    tasks += OF_SOUNDS if how.sound else ()
    for task in tasks:
        assert await is_done(task, data), task


@pytest.mark.thorough
@pytest.mark.parametrize("kind", MOVES)
async def test_every_kind_of_moving_image_is_read_in_the_process(kind: str) -> None:
    """Chats would show only the first image of an animation."""
    assert await is_done(MediaTask.FIT, PLANTED[kind](**MOVING))


async def test_what_is_wrong_with_a_file_is_told_by_the_process() -> None:
    """People would be told that a silent video is broken, and would be sent a broken one."""
    for data, fault in ((video("mp4", silent=True), "silent"), (b"hello", "")):
        with pytest.raises(helper.MediaError, match="wav of ") as raised:
            await helper.ask(order_of(MediaTask.WAV, data), data)
        assert raised.value.fault == fault


async def test_a_video_is_cleaned_in_a_process_of_its_own() -> None:
    """A crafted video could crash the bot."""
    before = video("mp4")
    after = await videos.cleaned(before)
    assert SECRET in tags_of(before)
    assert SECRET not in tags_of(after)
    assert after.index(b"moov") < after.index(b"mdat")  # plays before it has arrived whole


@dataclass
class Stuck:
    """The started processes, none of which ever answers."""

    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    one_there: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def stuck(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stuck]:
    """Replace the helper by a process that never answers."""
    stuck = Stuck()
    start = asyncio.create_subprocess_exec

    async def instead(*_: object, **how: object) -> asyncio.subprocess.Process:
        sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
        stuck.processes.append(await start(*sleeping, **how))  # type: ignore[arg-type]
        stuck.one_there.set()
        return stuck.processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", instead)
    yield stuck
    assert all(process.returncode is not None for process in stuck.processes)


async def test_a_video_that_takes_too_long_is_given_up(stuck: Stuck) -> None:
    """One video would hold up all the others."""
    order = Order(task=MediaTask.CLEAN, mime="video/mp4", size=4)
    with pytest.raises(videos.VideoError, match="took over"):
        await helper.ask(order, b"video", wall_s=0.2)
    assert len(stuck.processes) == 1


async def test_a_process_that_says_much_and_reads_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pipe is full and no longer read, so the end of the process would never be noticed."""
    code = "import sys\nwhile 1: sys.stdout.buffer.write(bytes(10**6))"
    monkeypatch.setattr(helper, "PROGRAM", ("-P", "-c", code))
    order = Order(task=MediaTask.CLEAN, mime="video/mp4", size=10**7)
    with pytest.raises(videos.VideoError, match="took over"):
        await helper.ask(order, bytes(10**7), wall_s=0.5)


@pytest.mark.skipif(os.name == "nt", reason="signals and sessions are of POSIX")
async def test_a_process_that_stops_or_stays_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two such files, no file could be read any more."""
    order = Order(task=MediaTask.CLEAN, mime="video/mp4", size=4)
    stops = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    monkeypatch.setattr(helper, "PROGRAM", ("-P", "-c", stops))
    with pytest.raises(videos.VideoError, match="took over"):
        await helper.ask(order, b"video", wall_s=1.0)
    said = Answer(mime="video/mp4").line()
    stays = f"import os, time; os.write(1, {said!r}); os.close(1); time.sleep(600)"
    monkeypatch.setattr(helper, "PROGRAM", ("-P", "-c", stays))
    async with timeout(60):
        assert await helper.ask(order, b"video") == (Answer(mime="video/mp4"), b"")


@pytest.mark.skipif(os.name == "nt", reason="signals and sessions are of POSIX")
async def test_the_process_has_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A video could type into the terminal in which the bot was started."""
    code = (
        "import os; from backends.media.helper.protocol import Answer\n"
        "try: os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError: found = f'none {os.getsid(0) == os.getpid()}'\n"
        "os.write(1, Answer(mime=found).line())"
    )
    monkeypatch.setattr(helper, "PROGRAM", ("-P", "-c", code))
    answer, _ = await helper.ask(Order(task=MediaTask.CLEAN, mime="video/mp4", size=0), b"")
    assert answer.mime == "none True"


async def test_the_process_ends_with_the_task_that_waits_for_it(stuck: Stuck) -> None:
    """A process would still be running after the bot has stopped."""
    asking = asyncio.create_task(videos.cleaned(b"\0\0\0\x18ftypmp42"))
    await stuck.one_there.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.skipif(os.name == "nt", reason="bounded by time alone there")
async def test_the_process_is_bounded_and_knows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crafted video could take all memory, or read the bots' tokens."""
    monkeypatch.setenv("DISCORD_TOKEN", "secret")
    code = (
        "import os, resource as r; from backends.media.helper import worker;"
        "worker._bound(worker.MEMORY, worker.PROCESSOR_S);"
        "print(r.getrlimit(r.RLIMIT_AS)[0] <= worker.MEMORY, r.getrlimit(r.RLIMIT_FSIZE)[0],"
        "r.getrlimit(r.RLIMIT_CPU)[0] <= worker.PROCESSOR_S, os.nice(0) > 0,"
        "'DISCORD_TOKEN' in os.environ)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", code, stdout=asyncio.subprocess.PIPE, env=helper._environment()
    )
    said, _ = await process.communicate()
    assert said.decode().split() == ["True", "0", "True", "True", "False"]


@given(st.binary(max_size=60))
def test_what_is_no_answer_is_known(line: bytes) -> None:
    """The death of a process would look like an error in the bot itself."""
    with suppress(ValueError):
        Answer.read(line)
