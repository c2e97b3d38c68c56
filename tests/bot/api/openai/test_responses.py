"""Responses over HTTP through the whole bot, checked against OpenAI's document."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from queueing.core.jobs import JobState
from tests.bot.api.response_api import CAT, HELLO, TOOL, WEATHER, events_of, text_of, whole
from tests.bot.api.scripted import call, piece, scripted, usage
from tests.bot.api.whole_api import CONFIG, Api, running
from tests.specs.openai_spec import check_event

SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60")


async def test_an_answer_comes_whole(api: Api) -> None:
    """n8n's chat node asks this way unless it is told otherwise."""
    answer = await whole(api, {**CAT, "metadata": {"a": "b"}, "user": "me", "store": True})
    assert "What is a cat?" in text_of(answer)
    assert answer["status"] == "completed"
    assert answer["usage"]["output_tokens"] > 10
    assert (answer["metadata"], answer["user"], answer["store"]) == ({"a": "b"}, "me", False)


async def test_an_answer_comes_in_pieces(api: Api) -> None:
    """The words of a streamed answer would come all at once, or out of order."""
    events = await events_of(api, CAT)
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    last = events[-1]
    assert len(deltas) > 10
    assert last["type"] == "response.completed"
    assert "".join(deltas) == text_of(last["response"])
    kinds = [event["type"] for event in events if not event["type"].endswith(".delta")]
    assert kinds[2:] == [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_every_event_has_its_name(api: Api) -> None:
    """Clients that read events by name would read none."""
    body = {**CAT, "stream": True}
    async with api.session.post(f"{api.url}/responses", json=body) as answer:
        blocks = [each for each in (await answer.text()).split("\n\n") if "data: " in each]
    for block in blocks:
        name, data = block.split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"


async def test_a_function_is_called_and_answered(tmp_path: Path) -> None:
    """An agent would stop at its first tool."""
    said = (*HELLO, piece("stop"), usage())
    async with scripted(tmp_path, WEATHER, said) as (api, server):
        asked = {**CAT, "tools": [TOOL], "tool_choice": {"type": "function", "name": "weather"}}
        first = await whole(api, asked)
        (made,) = first["output"]
        assert (made["call_id"], made["arguments"]) == ("call_a", '{"city":"Rome"}')
        result = {"type": "function_call_output", "call_id": "call_a", "output": "Sun"}
        turns = [{"role": "user", "content": "Weather?"}, made, result]
        second = await whole(api, {**CAT, "input": turns, "tools": [TOOL]})
    assert text_of(second) == "Hello you"
    assert server.posted[0][1]["tool_choice"]["function"] == {"name": "weather"}
    assert server.posted[0][1]["tools"][0]["function"]["name"] == "weather"
    assert "strict" not in server.posted[0][1]["tools"][0]["function"]
    calls = [{"id": "call_a", "type": "function"}]
    calls[0] |= {"function": {"name": "weather", "arguments": '{"city":"Rome"}'}}  # type: ignore[dict-item]
    assert server.posted[1][1]["messages"] == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_a", "content": "Sun"},
    ]


ORDERS = (
    (HELLO, [("message", "Hello you")]),
    (
        (piece(reasoning_content="Hm"), *HELLO),
        [("reasoning", "Hm"), ("message", "Hello you")],
    ),
    ((piece(reasoning="Hm"), *HELLO), [("reasoning", "Hm"), ("message", "Hello you")]),
    ((*HELLO, *WEATHER), [("message", "Hello you"), ("function_call", '{"city":"Rome"}')]),
    (
        (*WEATHER[:2], piece(content=""), piece(content=None), piece(), *WEATHER[2:]),
        [("function_call", '{"city":"Rome"}')],
    ),
    ((piece(content="\n\n"), *WEATHER), [("function_call", '{"city":"Rome"}')]),
    ((piece(content="\n"), *HELLO), [("message", "\nHello you")]),
    (
        (*WEATHER[:2], piece(content="wait"), *WEATHER[2:]),
        [("function_call", '{"city":"Rome"}'), ("message", "wait")],
    ),
    (
        (
            call(0, id="a", name="f", arguments="{"),
            call(1, id="b", name="g", arguments="["),
            call(0, arguments="}"),
            call(1, arguments="]"),
        ),
        [("function_call", "{}"), ("function_call", "[]")],
    ),
    (
        (
            call(0, id="a", name="f", arguments="{}"),
            call(0, id="b", name="f", arguments='{"b":1}'),
        ),
        [("function_call", "{}"), ("function_call", '{"b":1}')],
    ),
    (
        (call(None, id="a", name="f", arguments={"a": 1}),),
        [("function_call", '{"a": 1}')],
    ),
    (
        (call(0, arguments="{"), call(0, id="a", name="f", arguments="}")),
        [("function_call", "{}")],
    ),
    ((piece(refusal="No."),), [("message", "No.")]),
    ((piece(content="Well"), piece(refusal="No.")), [("message", "WellNo.")]),
    ((piece(reasoning_content="Hm"),), [("reasoning", "Hm"), ("message", "")]),
    ((piece(),), [("message", "")]),
    (
        (piece(content="a"), piece(reasoning_content="b"), piece(content="c")),
        [("message", "a"), ("reasoning", "b"), ("message", "c")],
    ),
)


async def test_pieces_come_in_any_order(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Servers mix reasoning, text and calls; clients break on items that are not complete."""
    ends = [(*script, piece("stop")) for script, _ in ORDERS]  # and no usage
    async with scripted(tmp_path, *(each for end in ends for each in (end, end))) as (api, _server):
        for _, items in ORDERS:
            with subtests.test(str(items)):
                _are_complete(await events_of(api, CAT), items)
                answer = await whole(api, CAT)
                assert _merged((item["type"], _said(item)) for item in answer["output"]) == _merged(
                    items
                )


def _are_complete(events: list[Any], items: list[tuple[str, str]]) -> None:
    """Check that a stream brings these items, each once and whole, and ends with all of them."""
    output = events[-1]["response"]["output"]
    assert [(item["type"], _said(item)) for item in output] == items
    assert all(item["status"] == "completed" for item in output)
    assert len({item["id"] for item in output}) == len(items)
    done = [event for event in events if event["type"] == "response.output_item.done"]
    done.sort(key=_index)
    assert done == [{**event, "item": output[_index(event)]} for event in done]
    assert len(done) == len(items)
    assert "".join(e["delta"] for e in events if e["type"].endswith(".delta")) == "".join(
        said for _, said in _in_order_of_pieces(events, items)
    )


def _merged(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the words of each type of items together."""
    merged: dict[str, str] = {}
    for kind, said in items:
        merged[kind] = merged.get(kind, "") + said
    return merged


def _index(event: Any) -> int:
    index: int = event["output_index"]
    return index


def _said(item: Any) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    return "".join(part.get("text", part.get("refusal")) for part in item["content"])


def _in_order_of_pieces(events: list[Any], items: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the text of the deltas, after checking that each item's deltas add up to the item."""
    said = dict.fromkeys(range(len(items)), "")
    pieces = []
    for event in events:
        if event["type"].endswith(".delta"):
            said[event["output_index"]] += event["delta"]
            pieces.append((event["type"], event["delta"]))
    assert [said[at] for at in range(len(items))] == [words for _, words in items]
    return pieces


async def test_an_answer_that_was_cut_is_incomplete(tmp_path: Path) -> None:
    """A program would mistake half an answer for all of it."""
    cut = (*HELLO, piece("length"), usage())
    async with scripted(tmp_path, cut, cut) as (api, _server):
        events = await events_of(api, {**CAT, "max_output_tokens": 16})
        answer = await whole(api, {**CAT, "max_output_tokens": 16})
    assert events[-1]["type"] == "response.incomplete"
    for response in (events[-1]["response"], answer):
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["output"][-1]["status"] == "incomplete"
        assert response["usage"]["total_tokens"] == 7


async def test_a_server_lost_in_the_middle_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    """A stream that just ends is regarded as a whole answer."""
    async with scripted(tmp_path, (*HELLO, None), HELLO, HELLO) as (api, _server):
        events, _ = await api.stream("/responses", CAT)
    for event in events:
        check_event("POST", "/responses", event)
    failed, error = events[-2:]
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "server_error"
    assert (error["type"], error["code"]) == ("error", "server_lost")
    assert error["error"]["message"] == error["message"]


async def test_likely_words_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    """Other clients would get fields that they did not ask for."""
    likely = {"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Ho", "logprob": -1}]}
    said = piece("stop", content="Hi")
    said["choices"][0]["logprobs"] = {"content": [likely]}
    async with scripted(tmp_path, (said,), (said,)) as (api, server):
        asked = {**CAT, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
        events = await events_of(api, asked)
        answer = await whole(api, asked)
    assert server.posted[0][1]["logprobs"] is True
    for response in (events[-1]["response"], answer):
        (told,) = response["output"][0]["content"][0]["logprobs"]
        assert (told["logprob"], told["bytes"]) == (-0.5, [72, 105])


async def test_nothing_is_stored(api: Api) -> None:
    """A client would wait for a response that never appears."""
    calls = (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items"))
    for method, path in calls:
        url = f"{api.url}/responses/resp_1{path}"
        async with api.session.request(method, url) as answer:
            assert answer.status == 404, (method, path)
            assert "not stored" in (await answer.json())["error"]["message"], (method, path)


async def test_the_place_comes_as_the_client_shows_it(api: Api) -> None:
    """A client that cannot read comments would not know how long it waits."""
    events, comments = await api.stream("/responses", {**CAT, "usher_progress": True})
    plain, told = await api.stream("/responses", CAT)
    assert comments == []
    assert events[2]["usher"]["state"] == "pending"
    assert json.loads(told[0].removeprefix(": usher "))["state"] == "pending"
    assert not any("usher" in event for event in plain)
    for at, event in enumerate(events):
        check_event("POST", "/responses", event)
        assert event["sequence_number"] == at


async def test_a_cancelled_job_ends_its_stream_with_an_error(tmp_path: Path) -> None:
    """A stream that just ends is regarded as a whole answer."""
    async with running(tmp_path, SLOW) as api:
        reading = asyncio.create_task(api.stream("/responses", CAT))
        await api.until(lambda jobs: any(job.state is JobState.PROCESSING for job in jobs))
        (job,) = await api.open_jobs()
        await api.parts.queue.submitter.cancel(job.id)
        events, _ = await reading
    assert [event["type"] for event in events[-2:]] == ["response.failed", "error"]
    assert events[-1]["error"]["code"] == "cancelled"


async def test_a_complete_answer_is_sent_again(api: Api) -> None:
    """A finished answer would be generated twice."""
    headers = {"Idempotency-Key": "one"}
    first = await api.post("/responses", CAT, headers=headers)
    api.session.headers.update(headers)
    events = await events_of(api, CAT)
    assert events[-1]["response"]["id"] == first["id"]
    assert events[-1]["response"]["output"] == first["output"]
