"""Streams as OpenAI's own package reads them: waiting, failing, and cancelled by the caller."""

import asyncio
from pathlib import Path

import openai
import pytest

from bot.api.calls import callers
from bot.api.runs import answers
from queueing.core.jobs import JobState
from tests.bot.api.openai_sdk import CAT, SAID, Program, programming, text_of
from tests.fakes.llm.llm_script import Fault


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let as many comments be sent in a moment as otherwise in minutes of waiting."""
    monkeypatch.setattr(answers, "COMMENT_EVERY_S", 0.01)
    monkeypatch.setattr(answers, "CHUNK_EVERY_S", 0.02)


@pytest.mark.usefixtures("often")
async def test_comments_and_empty_chunks_are_read_over(tmp_path: Path) -> None:
    """A program would fail before its turn comes in a long queue."""
    async with programming(tmp_path, parallel=1) as program:
        program.server.hold.clear()
        before = await program.stream()
        await program.until_running()
        waiting = await program.stream()
        await program.until_waiting()
        chunks = [await anext(waiting) for _ in range(5)]
        assert [chunk.choices for chunk in chunks] == [[]] * 5
        program.server.hold.set()
        assert text_of([chunk async for chunk in waiting]) == SAID
        assert text_of([chunk async for chunk in before]) == SAID


@pytest.mark.usefixtures("often")
async def test_a_blocking_client_reads_the_same(program: Program) -> None:
    """Most scripts use the blocking client."""
    program.server.hold.clear()

    def read() -> str:
        with program.blocking() as client:
            return text_of(list(client.chat.completions.create(**CAT, stream=True)))

    reading = asyncio.create_task(asyncio.to_thread(read))
    await program.until_running()
    program.server.hold.set()
    assert await reading == SAID


@pytest.mark.parametrize("fault", [Fault.ERROR_INSIDE, Fault.CUT, Fault.CRASH, Fault.GARBAGE])
async def test_an_answer_that_breaks_off_is_an_error(program: Program, fault: Fault) -> None:
    """Half an answer would be regarded as a whole one."""
    program.server.faults.append(fault)
    with pytest.raises(openai.APIError, match=r"[A-Z].*\.") as error:
        _ = [chunk async for chunk in await program.stream()]
    assert not isinstance(error.value, openai.APIConnectionError)
    await program.until_all_is_over()
    assert len(program.requests) == 1


async def test_a_server_killed_in_mid_stream_is_an_error(program: Program) -> None:
    """A stream that just ends is regarded as complete by every package."""
    program.server.hold.clear()
    stream = await program.stream()
    await anext(stream)
    await program.until_running()
    await program.server.stop()
    with pytest.raises(openai.APIError) as error:
        _ = [chunk async for chunk in stream]
    assert not isinstance(error.value, openai.APIConnectionError)
    await program.api.until(lambda jobs: not jobs)


async def test_hanging_up_ends_the_work_on_the_server(program: Program) -> None:
    """The GPU would write for no one."""
    program.server.hold.clear()
    stream = await program.stream()
    await program.until_running()
    await stream.close()
    await program.until_all_is_over()
    assert program.server.aborted == 1
    (job,) = await program.jobs()
    assert job.state is JobState.CANCELLED


async def test_hanging_up_ends_the_wait(tmp_path: Path) -> None:
    """Calls without a caller would wait in the queue ahead of people."""
    async with programming(tmp_path, parallel=1) as program:
        program.server.hold.clear()
        running = await program.stream()
        await program.until_running()
        waiting = await program.stream()
        await program.until_waiting()
        await waiting.close()
        await program.api.until(lambda jobs: len(jobs) == 1)
        assert program.server.running == 1
        await running.close()
        await program.until_all_is_over()


async def test_a_blocking_client_hangs_up_as_well(program: Program) -> None:
    """A script that is stopped, or leaves its loop early, only closes the connection."""
    program.server.hold.clear()

    def read_a_little() -> None:
        with program.blocking() as client:
            for chunk in client.chat.completions.create(**CAT, stream=True):
                if text_of([chunk]):
                    break

    await asyncio.to_thread(read_a_little)
    await program.until_all_is_over()
    assert program.server.aborted == 1


async def test_leaving_a_call_that_does_not_stream_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is cancelled, or reaches a time limit of its own, would leave its job behind."""
    monkeypatch.setattr(callers, "AGAIN_S", 0.05)
    async with programming(tmp_path) as program:
        program.server.hold.clear()
        asking = asyncio.create_task(program.client.chat.completions.create(**CAT))
        await program.until_running()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await program.until_all_is_over()
        assert program.server.aborted == 1
