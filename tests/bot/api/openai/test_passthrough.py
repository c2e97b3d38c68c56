"""What part of a program's request reaches the model's server, and what is refused or left out."""

import base64
import io
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from backends.openai.chat.passthrough import BESIDE, DECISIVE
from backends.openai.flavours.server import FLAVOURS
from bot.api.openai.chat import ChatCompletions
from bot.api.openai.response_request import Responses
from bot.api.openai.sampling import Sampling
from bot.texts.refusals import told
from queueing.core.errors import ProblemKind, problem
from tests.bot.api.scripted import ScriptedServer, piece, scripted
from tests.bot.api.whole_api import Api

HELLO = (piece(content="Hello"), piece("stop"))
ASKED: dict[str, Any] = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSE: dict[str, Any] = {"model": "llama", "input": "Hi"}
FUNCTION: dict[str, Any] = {"name": "look", "parameters": {"type": "object"}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
OTHERS: tuple[dict[str, Any], ...] = (
    {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "f"}]},
    {"type": "web_search", "external_web_access": True},
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
)


def encoded(kind: str, size: tuple[int, int] = (2000, 8), **more: Any) -> tuple[str, bytes]:
    """Return an image as a data URL, and its bytes."""
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind, **more)
    return f"data:image/x;base64,{base64.b64encode(out.getvalue()).decode()}", out.getvalue()


def seen(server: ScriptedServer, message: int = 0, part: int = 0) -> tuple[str, bytes, Any]:
    """Return an image as the server got it: its kind, its bytes and its detail."""
    image = server.posted[-1][1]["messages"][message]["content"][part]["image_url"]
    head, _, data = image["url"].partition(",")
    return head, base64.b64decode(data), image.get("detail")


async def sent(api: Api, server: ScriptedServer, **more: Any) -> Any:
    """Return what the server gets for a chat completion."""
    await api.post("/chat/completions", ASKED | more)
    return server.posted[-1][1]


CALLS_IN_OTHER_FORMS: dict[str, list[dict[str, Any]]] = {
    "an object": [{"id": "a", "function": {"name": "f", "arguments": {"x": "é"}}}],
    "null": [{"id": "a", "function": {"name": "f", "arguments": None}}],
    "no arguments": [{"id": "a", "function": {"name": "f"}}],
    "null as id": [{"id": None, "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    "no ids": [{"function": {"name": "f"}}, {"function": {"name": "g"}}],
    "empty ids": [{"id": "", "function": {"name": "f"}}, {"id": "", "function": {"name": "g"}}],
    "an index": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}],
}


@pytest.mark.parametrize("form", CALLS_IN_OTHER_FORMS)
def test_calls_of_earlier_turns_are_taken_in_the_forms_that_servers_give_out(form: str) -> None:
    """A conversation begun elsewhere could not continue, and the program cannot change it."""
    calls = CALLS_IN_OTHER_FORMS[form]
    results = [
        {"role": "tool", "content": "1", **({"tool_call_id": each["id"]} if each.get("id") else {})}
        for each in calls
    ]
    body = {**ASKED, "messages": [{"role": "assistant", "tool_calls": calls}, *results]}
    asked = ChatCompletions.model_validate(body).body()["messages"]
    assert isinstance(asked, list)
    first, *answers = [message for message in asked if isinstance(message, dict)]
    passed: Any = first["tool_calls"]
    assert all(isinstance(each["function"]["arguments"], str) for each in passed)
    ids = [each["id"] for each in passed]
    assert len({*ids}) == len(calls)
    assert all(ids)
    assert [each["tool_call_id"] for each in answers] == ids


def test_a_response_takes_arguments_as_an_object() -> None:
    """A conversation begun elsewhere could not continue."""
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": {"x": 1}}
    asked = Responses.model_validate({"model": "llama", "input": [item]})
    assert asked.input[0].arguments == '{"x": 1}'


async def test_messages_arrive_as_they_were_sent(tmp_path: Path) -> None:
    """A model would repeat its thoughts after each call; a cached beginning would be read anew."""
    marked = {"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [marked, {"type": "text", "text": "Short."}]},
        {"role": "user", "content": "Hi", "name": "an"},
        {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "content": "Nothing.", "tool_call_id": "c1"},
        {"role": "assistant", "content": "So", "reasoning": "Ah.", "prefix": True, "partial": True},
    ]
    async with scripted(tmp_path, HELLO, HELLO, flavour="vllm") as (api, server):
        assert (await sent(api, server, messages=messages))["messages"] == messages
        said = [{"type": "refusal", "refusal": "No."}]
        messages[-1] = {"role": "assistant", "content": said, "image_url": "http://10.0.0.1/"}
        got = (await sent(api, server, messages=messages))["messages"][-1]
    assert got == {"role": "assistant", "content": [{"type": "text", "text": "No."}]}


async def test_several_texts_are_one_where_a_template_would_print_a_list(tmp_path: Path) -> None:
    """The model would read brackets and quotes."""
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    messages = [{"role": "user", "content": parts}]
    async with scripted(tmp_path, HELLO, flavour="llama-cpp-python") as (api, server):
        got = await sent(api, server, messages=messages)
    assert got["messages"][0]["content"] == "One\nTwo"


async def test_images_keep_their_size_and_format(tmp_path: Path) -> None:
    """Letters on a scanned page would blur."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "secret"  # turned, with a description
    turned, _ = encoded("JPEG", exif=exif)
    scripts = [HELLO] * 6
    async with scripted(tmp_path, *scripts, flavour="vllm") as (api, server):
        for kind in ("PNG", "JPEG", "WEBP"):
            url, data = encoded(kind)
            part = {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
            await sent(api, server, messages=[{"role": "user", "content": [part]}])
            assert seen(server) == (f"data:image/{kind.lower()};base64", data, "high")
        part = {"type": "image_url", "image_url": {"url": turned}}
        await sent(api, server, messages=[{"role": "user", "content": [part]}])
        _, data, detail = seen(server)
        shown = Image.open(io.BytesIO(data))
        assert (shown.format, shown.size, detail) == ("JPEG", (8, 2000), None)
        assert b"secret" not in data
        part = {"type": "input_image", "image_url": encoded("PNG")[0], "detail": "low"}
        await api.post("/responses", RESPONSE | {"input": [{"role": "user", "content": [part]}]})
        assert seen(server) == ("data:image/png;base64", encoded("PNG")[1], "low")
    assert server.scripts == [HELLO]


async def test_an_image_is_made_readable_for_a_server_that_cannot_read_it(tmp_path: Path) -> None:
    """llama.cpp refuses WebP, and shows black where an image is transparent."""
    out = io.BytesIO()
    Image.new("RGBA", (64, 8), (0, 0, 0, 0)).save(out, "PNG")
    clear = f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
    async with scripted(tmp_path, HELLO, HELLO, flavour="llamacpp") as (api, server):
        for url in (encoded("WEBP", (64, 8), lossless=True)[0], clear):
            part = {"type": "image_url", "image_url": {"url": url}}
            await sent(api, server, messages=[{"role": "user", "content": [part]}])
            head, data, _ = seen(server)
            shown = Image.open(io.BytesIO(data))
            assert (head, shown.format, shown.size) == ("data:image/png;base64", "PNG", (64, 8))
            assert shown.getpixel((0, 0)) == ((255, 255, 255) if url is clear else (255, 0, 0))


async def test_thoughts_of_earlier_turns_reach_the_server_by_responses(tmp_path: Path) -> None:
    """The thoughts that a response returned would be lost in the next request."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": t} for t in ("Hi", "there")]},
        {"type": "reasoning", "id": "rs_1", "summary": [],
         "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "Nothing."},
        {"type": "message", "role": "assistant", "content": "So."},
    ]  # fmt: skip
    async with scripted(tmp_path, HELLO) as (api, server):
        await api.post("/responses", RESPONSE | {"input": items})
    user, called, _, said = server.posted[0][1]["messages"]
    assert user["content"] == [{"type": "text", "text": t} for t in ("Hi", "there")]
    assert (called["reasoning_content"], called["content"]) == ("Hm.", None)
    assert said == {"role": "assistant", "content": "So."}


# ---------------------------------------------------------------- fields


async def test_an_object_with_a_schema_is_asked_for_as_one(tmp_path: Path) -> None:
    """The answer would be an arbitrary object."""
    asked = {"type": "json_object", "schema": SCHEMA}
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    async with scripted(tmp_path, HELLO, HELLO) as (api, server):
        assert (await sent(api, server, response_format=asked))["response_format"] == wanted
        await api.post("/responses", RESPONSE | {"text": {"format": asked}})
    assert server.posted[-1][1]["response_format"] == wanted


VALUES: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False},
    "grammar": 'root ::= "a"',
    "json_schema": SCHEMA,
    "structured_outputs": {"choice": ["a"]},
    "guided_json": SCHEMA,
    "guided_regex": "a+",
    "guided_choice": ["a", "b"],
    "guided_grammar": 'root ::= "a"',
    "regex": "a+",
    "ebnf": 'root ::= "a"',
    "continue_final_message": True,
    "add_generation_prompt": False,
}


async def test_a_field_that_decides_the_answer_is_passed_on_or_refused(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The program would get an answer in another form, without being told."""
    assert VALUES.keys() == DECISIVE
    for flavour in ("generic", "llamacpp", "vllm"):
        taken = DECISIVE & FLAVOURS[flavour].extra
        folder = tmp_path / flavour
        folder.mkdir()
        async with scripted(folder, *[HELLO] * len(taken), flavour=flavour) as (api, s):
            for name, value in VALUES.items():
                with subtests.test(f"{flavour} {name}"):
                    status = 200 if name in taken else 400
                    answer = await api.post(
                        "/chat/completions", {**ASKED, name: value}, status=status
                    )
                    if name in taken:
                        assert s.posted[-1][1][name] == value
                    else:
                        assert name in answer["error"]["message"]


async def test_what_every_server_does_anyway_may_be_asked_for(tmp_path: Path) -> None:
    """Clients that state the usual values would be refused."""
    usual = {"continue_final_message": False, "add_generation_prompt": True}
    async with scripted(tmp_path, HELLO) as (api, server):
        assert not usual.keys() & (await sent(api, server, **usual)).keys()


async def test_an_operator_may_name_fields_that_a_server_knows(tmp_path: Path) -> None:
    """A little-known server would never get its own fields."""
    more = {"reasoning_effort": "low", "repetition_penalty": 1.1, **VALUES}
    names = f"generic, fields: [{', '.join(more)}]"
    async with scripted(tmp_path, HELLO, flavour=names) as (api, server):
        assert (await sent(api, server, **more)).items() >= more.items()


async def test_a_penalty_is_sent_under_the_name_the_server_knows(tmp_path: Path) -> None:
    """VLLM and llama.cpp use different names for the same penalty."""
    async with scripted(tmp_path, HELLO, flavour="llamacpp") as (api, server):
        got = await sent(api, server, repetition_penalty=1.1, min_tokens=5)
    assert got["repeat_penalty"] == 1.1
    assert not {"repetition_penalty", "min_tokens"} & got.keys()


def test_every_field_beside_openais_is_either_tuning_or_decisive() -> None:
    """A field in neither list would silently be dropped."""
    standard = {
        "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop",
        "logit_bias",
    }  # fmt: skip
    assert set(Sampling.model_fields) - standard == BESIDE


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/chat/completions", {"functions": [FUNCTION]}, "functions"),
    ("/chat/completions", {"function_call": "auto"}, "function_call"),
    ("/chat/completions", {"modalities": ["text", "audio"]}, "modalities"),
    ("/chat/completions", {"audio": {"voice": "alloy"}}, "audio"),
    ("/chat/completions", {"web_search_options": {"a": 1}}, "web_search_options"),
    *(
        ("/embeddings", {name: "query"}, name)
        for name in ("task", "input_type", "prompt_name", "prompt", "instruction")
    ),
    ("/embeddings", {"late_chunking": True}, "late_chunking"),
)


async def test_a_field_no_server_has_is_refused_by_name(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A program would get plain text in place of a call, or the vectors of another task."""
    async with scripted(tmp_path, HELLO) as (api, server):
        for path, more, name in REFUSED:
            with subtests.test(f"{path} {name}"):
                asked = {**ASKED, **more} if path != "/embeddings" else {"model": "llama", **more}
                error = await api.post(path, {"input": "Hi", **asked}, status=400)
                assert error["error"]["param"] == name
        nothing = {"functions": [], "function_call": "none", "modalities": ["text"], "audio": None}
        await sent(api, server, **nothing)
    assert not nothing.keys() & server.posted[-1][1].keys()


# ---------------------------------------------------------------- tools


async def test_tools_no_server_has_are_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Codex offers them beside its functions, and would never get an answer."""
    chat_tools = [{"type": "function", "function": FUNCTION}, *OTHERS]
    tools = [{"type": "function", **FUNCTION}, *OTHERS]
    named = {"usher_left_out_tools": "namespace, web_search, custom"}
    with caplog.at_level(logging.INFO):
        async with scripted(tmp_path, HELLO, HELLO, HELLO, HELLO) as (api, server):
            whole = await api.post("/chat/completions", {**ASKED, "tools": chat_tools})
            chunks, _ = await api.stream("/chat/completions", {**ASKED, "tools": chat_tools})
            asked = {**RESPONSE, "tools": tools, "metadata": {"mine": "1"}}
            response = await api.post("/responses", asked)
            await api.post("/responses", {**RESPONSE, "tools": list(OTHERS)})
    assert whole["metadata"] == chunks[0]["metadata"] == named
    assert response["metadata"] == {"mine": "1", **named}
    assert [tool["type"] for tool in response["tools"]] == ["function"]
    for _, body in server.posted[:3]:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["look"]
    assert "tools" not in server.posted[3][1]
    assert (
        "job 1: left out tools that are not functions: namespace, web_search, custom" in caplog.text
    )


async def test_a_call_that_no_tool_is_left_for_is_refused(tmp_path: Path) -> None:
    """The model would answer with text where a call is required."""
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
    tools = [{"type": "function", **FUNCTION}, *OTHERS]
    async with scripted(tmp_path) as (api, _):
        for path, more in (
            ("/chat/completions", {**ASKED, "tools": OTHERS, "tool_choice": "required"}),
            ("/responses", {**RESPONSE, "tools": OTHERS, "tool_choice": "required"}),
            ("/responses", {**RESPONSE, "tools": tools, "tool_choice": allowed}),
        ):
            error = await api.post(path, more, status=400)
            assert "no function to call" in error["error"]["message"]


async def test_no_route_answers_in_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    """Only Python's clients could read the answer; `whole_api` reads as strictly as the others."""
    said = piece(content="Hello") | {"timings": {"x": float("nan")}}
    token = {"token": "Hello", "logprob": float("-inf"), "bytes": None, "top_logprobs": []}
    said["choices"][0]["logprobs"] = {"content": [token]}
    script = (said, piece("stop"))
    async with scripted(tmp_path, *[script] * 6) as (api, server):
        for path, asked in (
            ("/chat/completions", ASKED | {"metadata": {}, "seed": 1, "x": float("nan")}),
            ("/completions", {"model": "llama", "prompt": "Hi"}),
            ("/responses", RESPONSE),
        ):
            answer = await api.post(path, asked)
            assert "-9999.0" in str(answer) or path == "/responses"
            await api.stream(path, asked)
        for job in (await api.get("/jobs"))["data"]:
            await api.get(f"/jobs/{job['id']}")
            await api.events(f"/jobs/{job['id']}/events")
    assert len(server.posted) == 6


# ---------------------------------------------------------------- refusals


async def test_a_program_learns_why_its_server_refused(tmp_path: Path) -> None:
    """A developer would be told to rephrase a request that has a wrong field."""
    async with scripted(tmp_path, 400, 400, flavour="vllm") as (api, _):
        for path, asked in (("/chat/completions", ASKED), ("/responses", RESPONSE)):
            error = (await api.post(path, asked, status=400))["error"]
            assert error["message"].endswith(" Its server said: “Tools need --jinja, see …”.")
        (job, *_) = (await api.get("/jobs"))["data"]
    assert "--jinja" in job["error"]["message"]
    assert told(problem(ProblemKind.REFUSED, said="x"), "en") == told(
        problem(ProblemKind.REFUSED), "en"
    )


async def test_a_request_that_is_too_long_is_known_as_such(tmp_path: Path) -> None:
    """LiteLLM and agents shorten a conversation when they read these words, which are OpenAI's."""
    async with scripted(tmp_path, 422, flavour="vllm") as (api, _):
        error = (await api.post("/chat/completions", ASKED, status=400))["error"]
    assert error["code"] == "context_length_exceeded"
    assert "this model's maximum context length is" in error["message"].casefold()
