"""A client of the Responses API that checks everything against OpenAI's document."""

from collections.abc import Mapping
from typing import Any

from tests.bot.api.scripted import call, piece
from tests.bot.api.whole_api import Api
from tests.specs.openai_spec import check_answer, check_event, check_request

CAT = {"model": "llama", "input": "What is a cat?"}
HELLO = (piece(role="assistant", content=""), piece(content="Hello"), piece(content=" you"))
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}
WEATHER = (
    call(0, id="call_a", name="weather", arguments=""),
    call(0, arguments='{"city":'),
    call(0, arguments='"Rome"}'),
    piece("tool_calls"),
)


async def events_of(api: Api, body: Mapping[str, Any]) -> list[Any]:
    """Return the events of a stream, each of them as OpenAI's document describes it."""
    check_request("POST", "/responses", body)
    events, _ = await api.stream("/responses", body)
    for at, event in enumerate(events):
        check_event("POST", "/responses", event)
        assert event["sequence_number"] == at
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    return events


async def whole(api: Api, body: Mapping[str, Any]) -> Any:
    """Return a whole response, as OpenAI's document describes it."""
    check_request("POST", "/responses", body)
    answer = await api.post("/responses", body)
    check_answer("POST", "/responses", answer)
    return answer


def text_of(response: Any) -> str:
    parts = [part for item in response["output"] for part in item.get("content") or ()]
    return "".join(part["text"] for part in parts if part["type"] == "output_text")
