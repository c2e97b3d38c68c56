"""The fake of llama.cpp compared with recordings of the real one."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.fakes.llm.llm import FakeLlm, Fault, Model, serving
from tests.fakes.llm.llm_script import CONTEXT

RECORDED = Path(__file__).parents[1] / "recorded"
CHAT = "/v1/chat/completions"


def slow() -> list[Model]:
    return [Model("slow"), Model("tiny")]


def recorded(server: str, name: str) -> tuple[int, str]:
    answer = json.loads((RECORDED / f"{server}.json").read_text())[name]
    return answer["status"], "".join(answer["chunks"])


def body(text: str = "hello", **fields: object) -> dict[str, Any]:
    return {"model": "slow", "messages": [{"role": "user", "content": text}], **fields}


async def answer(
    server: FakeLlm, method: str, path: str, sent: dict[str, Any] | None = None
) -> tuple[int, str]:
    async with (
        ClientSession() as session,
        session.request(method, server.url + path, json=sent) as response,
    ):
        return response.status, await response.text()


def shape(value: object) -> object:
    """Return the keys of a JSON value, however deep, without the values."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return [shape(inner) for inner in value[:1]]
    return None


def events(stream: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.split("\n") if line]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


def contained(part: object, whole: object) -> bool:
    """Return whether a shape has only keys that another has, too."""
    match part, whole:
        case dict(), dict():
            return all(key in whole and contained(part[key], whole[key]) for key in part)
        case list(), list():
            return all(contained(part[0], each) for each in whole[:1])
    return True


@pytest.mark.parametrize(
    ("kind", "server"),
    [("llamacpp", "llama-server"), ("llamacpp-router", "llama-server-router")],
)
async def test_the_list_of_models_has_the_recorded_shape(kind: str, server: str) -> None:
    """The backend would be tested with keys that no server sends."""
    async with serving(kind, slow()) as fake:
        status, text = await answer(fake, "GET", "/v1/models")
    real_status, real = recorded(server, "models")
    assert status == real_status
    assert contained(shape(json.loads(text)), shape(json.loads(real)))


@pytest.mark.parametrize("name", ["stream", "stream_usage"])
async def test_a_stream_has_the_recorded_events(name: str) -> None:
    """The stream reader would be tested with events that no server sends."""
    _, real = recorded("llama-server", name)
    async with serving("llamacpp", slow()) as fake:
        status, text = await answer(fake, "POST", CHAT, body(stream=True, max_tokens=6))
    ours, theirs = events(text), events(real)
    assert status == 200
    assert ours[-1] == theirs[-1] == "[DONE]"
    assert shape(ours[0]) == shape(theirs[0])
    assert shape(ours[1]) == shape(theirs[1])
    ends = [next(e for e in each if e["choices"][0]["finish_reason"]) for each in (ours, theirs)]
    assert contained(shape(ends[0]), shape(ends[1]))


async def test_an_interrupted_stream_is_the_recorded_one() -> None:
    """The only indication that an answer was cut off would be imitated wrongly."""
    _, real = recorded("llama-cpp-python", "parallel_0")
    async with serving("generic", slow()) as fake:
        fake.faults.append(Fault.INTERRUPTED)
        _, text = await answer(fake, "POST", CHAT, body(stream=True))
    assert [event == "[DONE]" for event in events(text)] == [
        event == "[DONE]" for event in events(real)
    ]


async def test_a_question_over_the_context_is_refused_as_recorded() -> None:
    """The refusal that people meet most often would be imitated wrongly."""
    status, real = recorded("llama-server", "over_context_stream")
    async with serving("llamacpp", slow()) as fake:
        ours = await answer(fake, "POST", CHAT, body("word " * 9000, stream=True))
    assert ours[0] == status
    error, theirs = json.loads(ours[1])["error"], json.loads(real)["error"]
    assert {**error, "message": "", "n_prompt_tokens": 0} == {
        **theirs,
        "message": "",
        "n_prompt_tokens": 0,
    }
    assert f"exceeds the available context size ({CONTEXT} tokens)" in error["message"]


@pytest.mark.parametrize("kind", ["llamacpp", "llamacpp-router"])
async def test_refusals_are_the_recorded_ones(kind: str) -> None:
    """Errors would be distinguished by words that no server uses."""
    server = "llama-server" if kind == "llamacpp" else "llama-server-router"
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]
    image = {"model": "slow", "messages": [{"role": "user", "content": parts}]}
    async with serving(kind, slow()) as fake:
        assert await answer(fake, "POST", CHAT, image) == recorded_json(
            server, "image_to_text_model"
        )
        if kind == "llamacpp-router":
            stranger = {**body(), "model": "no-such-model"}
            assert await answer(fake, "POST", CHAT, stranger) == recorded_json(
                server, "unknown_model"
            )
        else:
            assert await answer(fake, "GET", "/v1/nothing") == recorded_json(server, "unknown_path")


async def test_a_lone_llama_cpp_answers_to_any_name_as_its_own_model() -> None:
    """No test would notice that another model answers under the requested name."""
    _, real = recorded("llama-server", "unknown_model")
    async with serving("llamacpp", slow()) as fake:
        status, text = await answer(fake, "POST", CHAT, {**body(), "model": "no-such-model"})
    assert status == 200
    assert json.loads(text)["model"] == json.loads(real)["model"] == "slow"


def recorded_json(server: str, name: str) -> tuple[int, str]:
    """Return a recording as the fake writes JSON."""
    status, text = recorded(server, name)
    return status, json.dumps(json.loads(text))
