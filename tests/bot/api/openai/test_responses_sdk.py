"""Responses with OpenAI's own package, unchanged, from a running bot."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from bot.api.openai.chat_stream import PlaceForm
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs import answers
from bot.api.runs.runs import Run
from queueing.core.jobs import stand_in
from tests.bot.api.response_api import HELLO, TOOL, WEATHER
from tests.bot.api.scripted import piece, scripted, soon, usage
from tests.bot.api.whole_api import WAIT_S, Api, running
from tests.specs.openai_spec import check_event

FUNCTIONS: Any = [{**TOOL, "strict": True}]
HOLD = "hold"


class Cat(BaseModel):
    """The form of answer that a model is asked for."""

    name: str
    lives: int


@asynccontextmanager
async def client_of(api: Api, **options: Any) -> AsyncIterator[AsyncOpenAI]:
    """Provide OpenAI's client of a running bot."""
    async with AsyncOpenAI(base_url=api.url, api_key="none", timeout=WAIT_S, **options) as client:
        yield client


async def test_whole_and_streamed(tmp_path: Any) -> None:
    """Neither of the first two calls that anyone tries would work."""
    async with running(tmp_path) as api, client_of(api) as client:
        answer = await client.responses.create(model="llama", input="What is a cat?")
        stream = await client.responses.create(model="llama", input="A cat?", stream=True)
        kinds = [event.type async for event in stream]
    assert "What is a cat?" in answer.output_text
    assert answer.usage is not None
    assert answer.usage.total_tokens > 10
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


async def test_the_helper_for_streams_gathers_the_answer(tmp_path: Any) -> None:
    """It raises an exception at the first event that is out of order."""
    said = (piece(reasoning_content="Hm"), *HELLO, *WEATHER, usage())
    async with (
        scripted(tmp_path, said) as (api, _server),
        client_of(api) as client,
        client.responses.stream(model="llama", input="Hi", tools=FUNCTIONS) as stream,
    ):
        async for event in stream:
            assert event.type != "error"
        final = await stream.get_final_response()
    assert final.output_text == "Hello you"
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    made: Any = final.output[2]
    assert made.arguments == '{"city":"Rome"}'


async def test_a_tool_round_trip(tmp_path: Any) -> None:
    """An agent sends back what it was given, with the output of its function."""
    said = (*HELLO, piece("stop"), usage())
    thought = (piece(reasoning_content="Hm"), *WEATHER)
    async with scripted(tmp_path, thought, said) as (api, server), client_of(api) as client:
        turns: list[Any] = [{"role": "user", "content": "Weather?"}]
        first = await client.responses.create(model="llama", input=turns, tools=FUNCTIONS)
        turns += first.output
        made: Any = first.output[1]
        turns.append({"type": "function_call_output", "call_id": made.call_id, "output": "Sun"})
        second = await client.responses.create(model="llama", input=turns, tools=FUNCTIONS)
    assert second.output_text == "Hello you"
    roles = [message["role"] for message in server.posted[1][1]["messages"]]
    assert roles == ["user", "assistant", "tool"]


async def test_structured_output_is_parsed(tmp_path: Any) -> None:
    """The schema must reach the server, and the answer must become the class."""
    said = (piece(content='{"name": "Tom",'), piece("stop", content=' "lives": 9}'))
    async with scripted(tmp_path, said, said) as (api, server), client_of(api) as client:
        parsed = await client.responses.parse(model="llama", input="A cat", text_format=Cat)
        async with client.responses.stream(model="llama", input="A cat", text_format=Cat) as stream:
            final = await stream.get_final_response()
    assert parsed.output_parsed == Cat(name="Tom", lives=9)
    assert final.output_parsed == Cat(name="Tom", lives=9)
    assert server.posted[0][1]["response_format"]["json_schema"]["name"] == "Cat"


async def test_a_server_lost_in_the_middle_is_an_exception(tmp_path: Any) -> None:
    """A stream that just ends is regarded as a whole answer."""
    lost = (*HELLO, None)
    async with scripted(tmp_path, lost, HELLO) as (api, _server), client_of(api) as client:
        stream = await client.responses.create(model="llama", input="Hi", stream=True)
        with pytest.raises(openai.APIError, match="lost in the middle"):
            [event async for event in stream]


async def test_a_refusal_is_its_own_exception(tmp_path: Any) -> None:
    """A program reacts to the class of an exception."""
    async with running(tmp_path) as api, client_of(api) as client:
        with pytest.raises(openai.NotFoundError, match="llama"):
            await client.responses.create(model="lama", input="Hi")
        with pytest.raises(openai.BadRequestError, match="stored"):
            await client.responses.create(model="llama", input="Hi", previous_response_id="x")
        with pytest.raises(openai.NotFoundError, match="stored"):
            await client.responses.retrieve("resp_1")
        with pytest.raises(openai.NotFoundError, match="stored"):
            await client.responses.delete("resp_1")


async def test_closing_the_stream_ends_the_job(tmp_path: Any) -> None:
    """The GPU would work for no one."""
    async with scripted(tmp_path, (*HELLO, HOLD)) as (api, server), client_of(api) as client:
        stream = await client.responses.create(model="llama", input="Hi", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        await soon(server.left)
        await api.until(lambda jobs: not jobs)


@pytest.mark.parametrize("more", [{}, {"usher_progress": True}])
async def test_the_helper_takes_what_is_said_while_it_waits(
    more: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 100 s of waiting, an event satisfies careful clients; it must not break the others."""
    monkeypatch.setattr(answers, "COMMENT_EVERY_S", 0.01)
    monkeypatch.setattr(answers, "CHUNK_EVERY_S", 0.02)
    said = (*HELLO, piece("stop"), usage())
    async with (
        scripted(tmp_path, (HOLD, *said), said) as (api, server),
        client_of(api) as client,
        client.responses.stream(model="llama", input="Hi", extra_body=more) as stream,
    ):
        kinds = [(await anext(stream)).type for _ in range(9)]
        server.go.set()
        final = await stream.get_final_response()
    assert kinds == ["response.created", *["response.in_progress"] * 8]
    assert final.output_text == "Hello you"


def test_open_webui_is_told_in_events_of_its_own() -> None:
    """Open WebUI shows the status over an answer, and removes it when the answer begins."""
    asked = Responses.model_validate({"model": "llama", "input": "Hi"})
    frame = ResponseFrame(number=1, created=1, asked=asked)
    writer = ResponseStream(frame=frame, items=OutputItems(1), form=PlaceForm.OPEN_WEBUI)
    run = Run(stand_in(1, "llama", 0.0))
    sent = writer.place(run)
    run.chunks.append(json.dumps(piece(content="Hi")))
    blocks = (sent + writer.news(run)).decode().split("\n\n")
    events = [json.loads(block.partition("data: ")[2]) for block in blocks if block]
    for event in events:
        check_event("POST", "/responses", event)
    told = [event["event"]["data"] for event in events if "event" in event]
    assert [status["done"] for status in told] == [False, True]
    assert told[0]["description"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
