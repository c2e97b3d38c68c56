"""The stream of a fake text server, event by event, whole or broken as scripted."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from tests.fakes.llm.llm_script import DONE, Fault, Model
from tests.fakes.llm.llm_words import data_line, tokens_of

ERRORS: Mapping[Fault, object] = {
    Fault.ERROR_INSIDE: {
        "message": "Error rendering prompt with jinja template",
        "type": "unknown",
    },
    Fault.ERROR_EVENT: {"message": "The model has crashed.", "type": "internal_error"},
    Fault.OOM: {"message": "CUDA error: out of memory", "type": "server_error", "code": 500},
    Fault.CRASH: "The model has crashed without additional information. (Exit code: 6)",
    Fault.UNLOADED: {"message": "Model unloaded by the user."},
}


class Script(Protocol):
    """What the stream depends on."""

    words: Sequence[str]
    tool_calls: Sequence[Any]
    pace_s: float
    hold: asyncio.Event


async def events(
    script: Script, body: Any, model: Model, fault: Fault
) -> AsyncIterator[str | None]:
    """Yield the stream piece by piece; None cuts the connection."""
    if fault is Fault.SILENT:
        return
    if fault is Fault.BROKEN:
        yield None
        return
    while fault is Fault.DRIP:
        yield ": keep-alive\n\n"
        await asyncio.sleep(0.01)
    name = "somebody-else" if fault is Fault.WRONG_MODEL else model.id
    yield _event(name, {"role": "assistant", "content": None})
    if fault in {Fault.INTERRUPTED, Fault.EMPTY}:
        yield (_event(name, {}, "stop") if fault is Fault.EMPTY else "") + DONE
        return
    if body.get("tools") and script.tool_calls:
        yield _calls(name, script.tool_calls)
        return
    words = script.words[: body.get("max_tokens")]
    for number, word in enumerate(words):
        if number == 2:
            await script.hold.wait()
            async for event in _break(model, fault):
                yield event
                if event is None or "error" in event or "{" not in event:
                    return
        await asyncio.sleep(script.pace_s)
        key = "reasoning_content" if fault is Fault.THOUGHTS else "content"
        yield _event(name, {key: word if number == 0 else f" {word}"})
    cut = len(words) < len(script.words) or fault is Fault.THOUGHTS
    yield _event(name, {}, "length" if cut else "stop")
    read = _tokens_read(body, model)
    usage = {
        "completion_tokens": len(words),
        "prompt_tokens": read,
        "total_tokens": read + len(words),
    }
    yield data_line({"choices": [], "model": name, "usage": usage})
    yield DONE


def _tokens_read(body: Any, model: Model) -> int:
    """Return how much of a question Ollama reads, which cuts what its context cannot hold."""
    tokens = max(9, tokens_of(body))
    fits = tokens < model.context
    return tokens if fits else model.context - (model.context - model.kept) // 2


async def _break(model: Model, fault: Fault) -> AsyncIterator[str | None]:
    if fault is Fault.CUT:
        yield None
    elif fault is Fault.GARBAGE:
        yield "data: }}garbage\n\n"
    elif fault in ERRORS:
        if fault in {Fault.CRASH, Fault.UNLOADED}:
            model.copies = []
        name = "event: error\n" if fault is Fault.ERROR_EVENT else ""
        yield name + data_line({"error": ERRORS[fault]})


def _calls(model: str, calls: Sequence[Any]) -> str:
    pieces = [_event(model, {"tool_calls": [call]}) for call in calls]
    return "".join((*pieces, _event(model, {}, "tool_calls"), DONE))


def _event(model: str, delta: dict[str, object], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {
        "choices": [choice],
        "created": 1795170093,
        "id": "chatcmpl-1",
        "model": model,
        "system_fingerprint": "b1-0c1e570",
        "object": "chat.completion.chunk",
    }
    return data_line(chunk)
