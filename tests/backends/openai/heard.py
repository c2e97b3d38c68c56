"""What a program receives of an answer in each of the API's forms."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.api.openai.chat_stream import ChatStream, Heading
from bot.api.openai.response_output import OutputItems
from bot.api.openai.response_request import Responses
from bot.api.openai.response_stream import ResponseFrame, ResponseStream
from bot.api.runs.runs import Run
from queueing.core.jobs import stand_in
from queueing.core.requests import Output

DONE = "data: [DONE]"
HEADING = Heading(id="chatcmpl-1", model="m", created=1)


@dataclass(frozen=True, kw_only=True)
class Heard:
    """The content of an answer."""

    text: str = ""
    thought: str = ""
    refusal: str = ""
    calls: Sequence[tuple[str, str]] = ()
    reason: str = "stop"


def in_every_form(chunks: Sequence[str], output: Output) -> dict[str, Heard]:
    """Return what a program receives: whole or streamed, as a chat completion or as a response."""
    run = Run(stand_in(1, "m", 0.0))
    run.chunks += chunks
    whole = HEADING.whole(output)["choices"][0]
    stream = ChatStream(heading=HEADING)
    frame = ResponseFrame(
        number=1, created=1, asked=Responses.model_validate({"model": "m", "input": "Hi"})
    )
    events = ResponseStream(frame=frame, items=OutputItems(1))
    sent = all_of(events, run, output)
    last = json.loads(sent.decode().rstrip().rpartition("data: ")[2])
    return {
        "whole": of_message(whole["message"], whole["finish_reason"]),
        "streamed": of_chunks(all_of(stream, run, output)),
        "streamed late": of_chunks(ChatStream(heading=HEADING).closing(output)),
        "response": of_response(frame.whole(output)),
        "response streamed": of_response(last["response"]),
    }


def all_of(stream: ChatStream | ResponseStream, run: Run, output: Output) -> bytes:
    """Return everything that is sent, a part of the chunks at a time."""
    return b"".join((*iter(lambda: stream.news(run), b""), stream.closing(output)))


def of_message(message: dict[str, Any], reason: str) -> Heard:
    """Return the content of a whole message."""
    made = message.get("tool_calls") or ()
    assert len({each["id"] for each in made}) == len(made)
    assert all(each["id"] and each["type"] == "function" for each in made)
    assert message.get("reasoning") == message.get("reasoning_content")
    return Heard(
        text=message.get("content") or "",
        thought=message.get("reasoning") or "",
        refusal=message.get("refusal") or "",
        calls=tuple((each["function"]["name"], each["function"]["arguments"]) for each in made),
        reason=reason,
    )


def of_chunks(sent: bytes) -> Heard:
    """Join chunks as clients do: texts are appended, calls are identified by their index."""
    message: dict[str, Any] = {"tool_calls": []}
    reasons = []
    for line in sent.decode().split("\n\n"):
        if not line or line == DONE:
            continue
        choice = json.loads(line.removeprefix("data: "))["choices"][0]
        for name, said in choice["delta"].items():
            if name != "tool_calls":
                message[name] = message.get(name, "") + said
        for each in choice["delta"].get("tool_calls", ()):
            if each["index"] == len(message["tool_calls"]):
                message["tool_calls"].append(each)
            else:
                known = message["tool_calls"][each["index"]]
                known["function"]["arguments"] += each["function"]["arguments"]
                assert set(each) == {"index", "function"}
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    assert len(reasons) == 1
    return of_message(message, reasons[0])


REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def of_response(response: dict[str, Any]) -> Heard:
    """Return the content of a response."""
    texts = {"reasoning_text": "", "output_text": "", "refusal": ""}
    made = [item for item in response["output"] if item["type"] == "function_call"]
    for part in (part for item in response["output"] for part in item.get("content", ())):
        texts[part["type"]] += part["refusal" if part["type"] == "refusal" else "text"]
    assert len({each["call_id"] for each in made}) == len(made)
    cut = (response.get("incomplete_details") or {}).get("reason")
    return Heard(
        text=texts["output_text"],
        thought=texts["reasoning_text"],
        refusal=texts["refusal"],
        calls=tuple((each["name"], each["arguments"]) for each in made),
        reason=REASONS[cut] if cut else "tool_calls" if made else "stop",
    )
