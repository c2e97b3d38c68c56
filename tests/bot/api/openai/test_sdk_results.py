"""What OpenAI's own package makes of Usher's answers and errors."""

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import openai
import pytest
from PIL import Image
from pydantic import BaseModel

from queueing.core.requests import Chat
from tests.bot.api.calls.test_keys import CLOSED, new_key, page_of
from tests.bot.api.openai_sdk import CAT, SAID, Program, text_of
from tests.bot.api.routes.test_image_edits import data_url, png
from tests.bot.api.whole_api import running

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": None,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALLED = (
    {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"city": '}},
    {"index": 0, "function": {"arguments": '"Graz"}'}},
)


class Animal(BaseModel):
    """The fields that the model is asked to fill in."""

    name: str
    legs: int


async def test_a_whole_answer_and_a_stream_are_complete(program: Program) -> None:
    """A program would miss the reason for the end, the usage or the model."""
    completions = program.client.chat.completions
    whole = await completions.create(**CAT)
    assert whole.choices[0].message.content == SAID
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 6
    assert whole.model == "alpha"
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = [chunk async for chunk in await completions.create(**CAT, **options)]
    assert text_of(chunks) == SAID
    assert [c.usage.completion_tokens for c in chunks if c.usage is not None] == [6]
    assert len({(chunk.id, chunk.model, chunk.created) for chunk in chunks}) == 1
    assert [chunk for chunk in chunks if not chunk.choices] == chunks[-1:]
    plain = [chunk async for chunk in await completions.create(**CAT, stream=True)]
    assert all(chunk.choices for chunk in plain), "careless programs read the first choice"


async def test_tools_are_called(program: Program) -> None:
    """Agents depend on this; a server leaves out `type`, and clients need it."""
    program.server.tool_calls = CALLED
    asked = {**CAT, "tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False}
    whole = await program.client.chat.completions.create(**asked)
    (call,) = whole.choices[0].message.tool_calls or [None]
    assert call is not None
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Graz"}')
    assert whole.choices[0].finish_reason == "tool_calls"
    async with program.client.chat.completions.stream(**asked) as stream:
        done = await stream.get_final_completion()
    assert done.choices[0].message.tool_calls is not None
    (call,) = done.choices[0].message.tool_calls
    assert (call.id, call.function.arguments) == ("call_1", '{"city": "Graz"}')
    went = program.server.posted("/v1/chat/completions")[-1]
    assert went["tools"][0]["function"]["name"] == "weather"
    answered = [
        *CAT["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    told = await program.client.chat.completions.create(model="alpha", messages=answered)
    assert told.choices[0].message.content == SAID


async def test_an_answer_has_the_form_asked_for(program: Program) -> None:
    """`chat.completions.parse` sends a JSON schema and parses the answer with it."""
    program.server.words = ('{"name": "cat",', '"legs": 4}')
    parsed = await program.client.chat.completions.parse(**CAT, response_format=Animal)
    assert parsed.choices[0].message.parsed == Animal(name="cat", legs=4)
    went = program.server.posted("/v1/chat/completions")[-1]
    assert went["response_format"]["json_schema"]["name"] == "Animal"


async def test_an_image_is_seen(program: Program) -> None:
    """A question about an image would be answered without it."""
    look = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": data_url(png()), "detail": "low"}},
    ]
    messages: Any = [{"role": "user", "content": look}]
    await program.client.chat.completions.create(model="alpha", messages=messages)
    (job,) = await program.jobs()
    assert isinstance(job.request, Chat)
    went = program.server.posted("/v1/chat/completions")[-1]
    assert went["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/")


async def test_models_and_images_are_read(program: Program) -> None:
    """A program could offer no model, or show no image."""
    assert {model.id async for model in program.client.models.list()} == {"alpha", "flux"}
    assert (await program.client.models.retrieve("flux")).object == "model"
    made = await program.client.images.generate(model="flux", prompt="a fox", n=2)
    assert made.data is not None
    for image in made.data:
        assert image.b64_json is not None
        Image.open(io.BytesIO(base64.b64decode(image.b64_json))).verify()
    assert len(made.data) == 2
    events = [
        event.type
        async for event in await program.client.images.generate(
            model="flux", prompt="a fox", stream=True, partial_images=1
        )
    ]
    assert events[-1] == "image_generation.completed"


REFUSED: tuple[tuple[Any, type[openai.APIStatusError], str, str | None], ...] = (
    ({"n": 2}, openai.BadRequestError, "n", None),
    ({"model": "alpa"}, openai.NotFoundError, "model", "model_not_found"),
    ({"model": "flux"}, openai.BadRequestError, "model", "not_capable"),
    ({"temperature": 9}, openai.BadRequestError, "temperature", None),
    ({"messages": []}, openai.BadRequestError, "messages", None),
)


async def test_a_refusal_is_its_own_exception(program: Program) -> None:
    """A program would retry its own mistakes like the failures of a server that is down."""
    for count, (changed, error, param, code) in enumerate(REFUSED, start=1):
        with pytest.raises(error) as raised:
            await program.client.chat.completions.create(**{**CAT, **changed})
        assert (raised.value.param, raised.value.code) == (param, code)
        assert raised.value.request_id, changed
        assert len(program.requests) == count, "it was repeated"
        assert await program.jobs() == [], changed


async def test_a_key_that_is_revoked_ends_with_the_call(tmp_path: Path) -> None:
    """A running answer belongs to its person, who may cancel it; the next call is refused."""
    slow = CLOSED.replace("service_s: 0.1", "service_s: 1")
    async with running(tmp_path, slow) as api:
        page = await page_of(api)
        key = await new_key(page)
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=api.url, api_key=key, http_client=http) as client:
            asked = {**CAT, "model": "llama", "stream": True}
            stream = await client.chat.completions.create(**asked)
            await anext(stream)
            await page.say("/key revoke 1")
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].choices[0].finish_reason == "stop"
            with pytest.raises(openai.AuthenticationError) as error:
                await client.chat.completions.create(**asked)
            assert error.value.code == "invalid_api_key"


async def test_a_ban_ends_what_runs(tmp_path: Path) -> None:
    """A banned service would keep the GPU until its answers are complete."""
    slow = CLOSED.replace("service_s: 0.1", "service_s: 60")
    async with running(tmp_path, slow) as api:
        page = await page_of(api)
        key = await new_key(page, "robot --service")
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=api.url, api_key=key, http_client=http) as client:
            asked: Any = {**CAT, "model": "llama"}
            whole = asyncio.create_task(client.chat.completions.create(**asked))
            stream = await client.chat.completions.create(**asked, stream=True)
            await anext(stream)
            await api.until(lambda jobs: len(jobs) == 2, owner="service:robot")
            await page.say("/ban service:robot")
            with pytest.raises(openai.APIError, match="cancelled"):
                _ = [chunk async for chunk in stream]
            with pytest.raises(openai.ConflictError, match="cancelled"):
                await whole
            with pytest.raises(openai.PermissionDeniedError) as error:
                await client.chat.completions.create(**asked)
            assert error.value.code == "banned"
            assert await api.open_jobs("service:robot") == []
