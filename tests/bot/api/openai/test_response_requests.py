"""What a request for a response may contain, and what a server gets for it."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.bot.api.response_api import CAT, HELLO, TOOL, WEATHER, text_of, whole
from tests.bot.api.scripted import piece, scripted
from tests.bot.api.whole_api import Api
from tests.specs.openai_spec import check_answer

SAID = {"type": "output_text", "text": "Hm.", "annotations": [], "logprobs": []}
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGM8wcXFwMDA"
    "xMDAwMDAAAALOADgEfTV1gAAAABJRU5ErkJggg=="
)
PDF = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7\n\x00\xff\xfe").decode()
EARLIER = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}


def item(*parts: Any) -> dict[str, Any]:
    return {**CAT, "input": [{"role": "user", "content": [*parts]}]}


async def test_the_settings_of_a_request_reach_the_server(tmp_path: Path) -> None:
    """A setting that is silently dropped changes the answer."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "name": "thing", "schema": schema, "strict": True}
    asked = {
        **CAT,
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {**EARLIER, "content": [SAID]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
            {"role": "user", "content": "And?"},
        ],
        "text": {"format": form, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 99,
        "truncation": "auto",
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip
    async with scripted(tmp_path, (*HELLO, piece("stop")), flavour="llamacpp") as (api, server):
        answer = await whole(api, asked)
    sent = server.posted[0][1]
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "And?"},
    ]
    assert sent["response_format"]["json_schema"] == {
        "name": "thing", "schema": schema, "strict": True
    }  # fmt: skip
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.5, 0.9, 99)
    assert sent["reasoning_effort"] == "low"
    assert answer["text"]["format"] == form
    assert answer["instructions"] == "Be brief."


NOTHING: tuple[tuple[dict[str, Any], str], ...] = (
    ({"text": {}}, "response_format"),
    ({"text": {"format": {"type": "text"}}}, "response_format"),
    ({"text": {"format": None}}, "response_format"),
    ({"tools": [], "tool_choice": "auto"}, "tools"),
    (dict.fromkeys((
        "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning",
        "max_output_tokens", "top_logprobs", "include", "metadata", "user", "store",
        "previous_response_id", "background", "truncation", "temperature", "top_p", "stream",
        "conversation", "prompt", "service_tier", "stream_options", "safety_identifier",
        "prompt_cache_key", "max_tool_calls", "usher_progress",
    )), "tools"),
    ({"include": ["what.is.this"], "what": {"is": ["this"]}}, "what"),
)  # fmt: skip


async def test_nothing_asked_for_is_not_an_error(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Clients send null and empty objects; servers refuse them."""
    said = (*HELLO, piece("stop"))
    async with scripted(tmp_path, *[said] * len(NOTHING)) as (api, server):
        for more, absent in NOTHING:
            with subtests.test(str(more)[:80]):
                answer = await api.post("/responses", CAT | more)
                check_answer("POST", "/responses", answer)
                assert text_of(answer) == "Hello you"
                assert absent not in server.posted[-1][1]


async def test_only_the_allowed_tools_are_offered(tmp_path: Path) -> None:
    """A model would call a function that the program has switched off."""
    other = {**TOOL, "name": "delete"}
    choice = {"type": "allowed_tools", "mode": "required"}
    choice["tools"] = [{"type": "function", "name": "weather"}]  # type: ignore[assignment]
    async with scripted(tmp_path, WEATHER) as (api, server):
        answer = await whole(api, {**CAT, "tools": [TOOL, other], "tool_choice": choice})
    sent = server.posted[0][1]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["weather"]
    assert sent["tool_choice"] == "required"
    assert answer["tool_choice"] == choice


async def test_images_and_text_files_are_read(tmp_path: Path) -> None:
    """A question about an image or a file would be answered without it."""
    text = base64.b64encode("Sæl".encode()).decode()
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{text}"},
    ]
    result = {"type": "function_call_output", "call_id": "a", "output": parts[1:2]}
    made = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    turns = [{"role": "user", "content": parts}, made, result]
    async with scripted(tmp_path, (*HELLO, piece("stop"))) as (api, server):
        await whole(api, {**CAT, "input": turns})
    user, _, tool, shown = server.posted[0][1]["messages"]
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]
    assert user["content"][2]["text"] == "a.txt\nSæl"
    assert user["content"][1]["image_url"]["url"].startswith("data:image/")
    assert (tool["content"], shown["role"]) == ("", "user")
    assert shown["content"][0]["type"] == "image_url"


SEARCH = {"tools": [{"type": "web_search"}]}
CHOSEN = {"type": "function", "name": "z"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [CHOSEN]}
BAD: tuple[tuple[Any, int, str | None, str], ...] = (
    ({"model": "llama"}, 400, "input", "required"),
    ({**CAT, "input": []}, 400, "input", ""),
    ({**CAT, "input": 5}, 400, "input", ""),
    ({**CAT, "model": "lama"}, 404, "model", "llama"),
    ({**CAT, "model": "flux"}, 400, "model", ""),
    ({**CAT, "previous_response_id": "resp_1"}, 400, None, "stored"),
    ({**CAT, "conversation": "conv_1"}, 400, None, "stored"),
    ({**CAT, "prompt": {"id": "pmpt_1"}}, 400, None, "stored"),
    ({**CAT, "background": True}, 400, None, "/v1/jobs"),
    ({**CAT, "temperature": 9}, 400, "temperature", ""),
    ({**CAT, **SEARCH, "tool_choice": "required"}, 400, "tool_choice", "function"),
    ({**CAT, "tool_choice": CHOSEN}, 400, "tool_choice", "“z”, which is not among the tools"),
    ({**CAT, **SEARCH, "tool_choice": CHOSEN}, 400, "tool_choice", "not among the tools"),
    ({**CAT, "tools": [TOOL], "tool_choice": CHOSEN}, 400, "tool_choice", "not among the tools"),
    ({**CAT, "tools": [TOOL], "tool_choice": ALLOWED}, 400, "tool_choice", "no function to call"),
    ({**CAT, "tools": [{"type": []}]}, 400, "tools.0.type", "string"),
    ({**CAT, "input": [{"type": []}]}, 400, "input.0", "must be"),
    ({**CAT, "tools": [{"type": "function"}]}, 400, "tools.0", "name is required"),
    ({**CAT, "text": {"format": {"type": "json_schema"}}}, 400, "text.format", "schema"),
    ({**CAT, "input": [{"type": "item_reference", "id": "x"}]}, 400, "input.0", "stored"),
    ({**CAT, "input": [{"type": "computer_call"}]}, 400, "input.0", "computer_call"),
    ({**CAT, "input": [{"type": "function_call"}]}, 400, "input.0", "call_id"),
    ({**CAT, "input": [{"content": "Hi"}]}, 400, "input.0", "role"),
    ({**CAT, "input": [{"role": "boss", "content": "Hi"}]}, 400, "input.0.role", ""),
    (item({"type": "input_audio"}), 400, "input.0.content.0", "input_audio"),
    (item({"type": "input_text"}), 400, "input.0.content.0", "text"),
    (item({"type": "input_image"}), 400, "input.0.content.0", "image_url"),
    (item({"type": "input_image", "file_id": "f"}), 400, "input.0.content.0", "stored"),
    (
        item({"type": "input_file", "file_url": "http://a/b"}),
        400,
        "input.0.content.0",
        "fetch",
    ),
    (
        item({"type": "input_file", "file_data": PDF}),
        400,
        "input.0.content.0.file_data",
        "text",
    ),
    (
        item({"type": "input_file", "file_data": "§"}),
        400,
        "input.0.content.0.file_data",
        "",
    ),
    (
        item({"type": "input_image", "image_url": "http://10.0.0.1/cat.png"}),
        400,
        "input.0.content.0.image_url",
        "",
    ),
    ([], 400, None, ""),
)


async def test_a_bad_request_is_refused_with_a_sentence(
    api: Api, subtests: pytest.Subtests
) -> None:
    """A program would repeat it, or mistake the error for an answer."""
    for body, status, param, word in BAD:
        with subtests.test(str(body)):
            answer = await api.post("/responses", body, status=status)
            assert not await api.open_jobs()
            error = answer["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert (error["param"], error["message"][-1] in ".?") == (param, True)
            assert word in error["message"]
