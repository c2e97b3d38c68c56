"""What OpenAI's own package repeats by itself, and how Usher reacts."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from bot.api.calls import errors
from bot.api.runs import answers as answering
from bot.core.content import Moment
from bot.core.refusals import Refusal, RefusalKind
from queueing.core.jobs import JobState
from tests.bot.api.openai_sdk import CAT, SAID, Program, programming
from tests.fakes.llm.llm_script import Fault


async def test_a_call_that_waited_too_long_is_made_once(tmp_path: Path) -> None:
    """The package repeats a 504: the same request would be in the queue three times."""
    async with programming(tmp_path, api=", wait_s: 0.1") as program:
        program.server.hold.clear()
        with pytest.raises(openai.InternalServerError) as error:
            await program.client.chat.completions.create(**CAT)
        await program.until_running()  # a busy machine begins it later than the call is given up
        (job,) = await program.jobs()
        assert error.value.status_code == 504
        assert f"/v1/jobs/{job.id}" in error.value.message
        assert len(program.requests) == 1
        assert job.state is JobState.PROCESSING
        program.server.hold.set()
        await program.until_all_is_over()


def test_a_call_without_room_is_repeated_when_there_may_be_some() -> None:
    """The package retries twice within two seconds: not all of eight calls would find room."""
    soon = Moment(1000.2)
    full = Refusal(RefusalKind.TOO_MANY_OPEN_UNTIL, limit=1, moment=soon)
    away = Refusal(RefusalKind.NOT_LOADABLE, model="m", moment=soon)
    times = [errors.refused(each, 1000.0).headers["Retry-After"] for each in (full, away)]
    assert times == ["5", "1"]


async def test_the_package_comes_again_when_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that could wait a second would fail at a full queue, or retry without a pause."""
    rests, free = list[float](), asyncio.Event()

    async def rest(asked_s: float) -> None:
        rests.append(asked_s)
        if len(rests) > 1:
            await free.wait()

    monkeypatch.setattr(openai._base_client, "anyio", SimpleNamespace(sleep=rest))
    more = "limits: {open_per_person: 1, queued_per_person: 1}"
    async with programming(tmp_path, more=more) as program:
        program.server.hold.clear()
        first = asyncio.create_task(program.client.chat.completions.create(**CAT))
        await program.until_running()
        patient = program.another(max_retries=10)
        refused = asyncio.create_task(patient.chat.completions.create(**CAT))
        await program.until_requested(3)
        program.server.hold.set()
        assert (await first).choices[0].message.content == SAID
        free.set()
        assert (await refused).choices[0].message.content == SAID
        assert len(await program.jobs()) == 2
        assert all(5 <= asked_s <= 120 for asked_s in rests)
        await patient.close()


async def test_a_call_that_broke_off_goes_on_with_its_job(program: Program) -> None:
    """A program with a short time limit would be in the queue three times, and get no answer."""
    program.server.hold.clear()
    client = program.another(timeout=0.5, max_retries=20)
    longer = {"x-stainless-read-timeout": "60"}  # than it really waits
    asking = asyncio.create_task(client.chat.completions.create(**CAT, extra_headers=longer))
    await program.until_requested(2)
    program.server.hold.set()
    assert (await asking).choices[0].message.content == SAID
    assert [each["x-stainless-retry-count"] for each in program.requests][:2] == ["0", "1"]
    assert len(await program.jobs()) == 1
    assert len(program.server.posted("/v1/chat/completions")) == 1
    await client.close()


async def test_a_program_with_little_patience_is_kept_waiting(program: Program) -> None:
    """It would give up before its turn, and call again as often as it may."""
    program.server.hold.clear()
    client = program.another(timeout=1.0, max_retries=2)
    asking = client.chat.completions.with_streaming_response.create(**CAT)
    async with asking as begun:  # within its second, though there is no answer yet
        pieces = begun.iter_bytes()
        assert [await anext(pieces) for _ in range(4)] == [b" "] * 4  # two seconds and more
        program.server.hold.set()
        said = b"".join([piece async for piece in pieces])
    assert SAID in json.loads(said)["choices"][0]["message"]["content"]
    assert len(program.requests) == 1
    await client.close()


async def test_white_space_before_an_answer_is_read_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node gives up after 300 s without a byte."""
    monkeypatch.setattr(answering, "SPACE_EVERY_S", 0.02)
    async with programming(tmp_path, api=", hold_s: 0.01") as program:
        program.server.hold.clear()
        asking = program.client.chat.completions.with_streaming_response.create(**CAT)
        async with asking as begun:  # it has, though there is no answer yet
            await program.until_running()
            program.server.hold.set()
            assert (await begun.text()).startswith(" ")
            assert (await begun.parse()).choices[0].message.content == SAID


@pytest.mark.parametrize("path", ["chat", "responses"])
async def test_a_failure_after_white_space_is_an_error(tmp_path: Path, path: str) -> None:
    """The package treats whatever follows a status of 200 as an answer."""
    async with programming(tmp_path, api=", hold_s: 0.01") as program:
        program.server.hold.clear()
        program.server.faults.append(Fault.ERROR_INSIDE)
        create: Any = program.client.chat.completions.create
        body = CAT
        if path == "responses":
            create, body = program.client.responses.create, {"model": "alpha", "input": "Hi"}
        asking = asyncio.create_task(create(**body))
        await program.until_running()
        await asyncio.sleep(0.1)  # the status has been sent
        program.server.hold.set()
        with pytest.raises(openai.BadRequestError) as error:
            await asking
        assert "refused" in error.value.message
        assert [each["x-stainless-retry-count"] for each in program.requests] == ["0", "1"]
        assert len(await program.jobs()) == 1
        program.server.faults.append(Fault.ERROR_INSIDE)
        with pytest.raises(openai.BadRequestError):
            await create(**body)
        assert len(await program.jobs()) == 2


async def test_other_programs_read_of_a_failure_after_white_space(tmp_path: Path) -> None:
    """They would see a broken connection, and no reason."""
    async with programming(tmp_path, api=", hold_s: 0.01") as program:
        program.server.hold.clear()
        program.server.faults.append(Fault.ERROR_INSIDE)
        url = f"{program.api.url}/chat/completions"
        async with program.api.session.post(url, json=CAT) as answer:
            program.server.hold.set()
            assert answer.status == 200
            assert "refused" in (await answer.json())["error"]["message"]
