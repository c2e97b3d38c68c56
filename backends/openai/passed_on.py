"""Completions that programs asked for: the body a server gets, and the whole answer it gave.

Messages, tools and schemas are passed on as they came; nothing is merged, cut or left out but what
this kind of server does not know. Pure but for the pictures (`backends.openai.seen`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from backends.openai.fields import known_fields
from backends.openai.flavour import Flavour
from backends.openai.infill import as_completion, prompt_body
from backends.openai.request import TextOptions
from backends.openai.seen import unchanged_url
from backends.openai.stream import AnswerReader, Garbage, without_thoughts
from queueing.core.alike import PROBE, KnownForm
from queueing.core.requests import File, PassedOn

ANY_OBJECT: JsonValue = {
    "type": "json_schema",
    "json_schema": {"name": "object", "schema": {"type": "object"}},
}
_LIKELY = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
_BESIDE = {"usage": dict, "timings": dict, "system_fingerprint": str}


async def passed_body(
    model_id: str,
    passed_on: PassedOn,
    files: Sequence[File],
    options: TextOptions,
    flavour: Flavour,
    *,
    more: frozenset[str] = frozenset(),
) -> dict[str, JsonValue]:
    """Return the body of a streamed completion; `more` are fields that this server knows as well.

    Raises `Rejected` for unusable pictures, and for fields that must not be left out.
    """
    body = known_fields(passed_on.body, flavour.extra | more)
    if isinstance(messages := body.get("messages"), list):
        body["messages"] = [await _message(message, files, flavour) for message in messages]
    if body.get("response_format") == {"type": "json_object"} and not flavour.json_object:
        body["response_format"] = ANY_OBJECT
    if options.max_tokens is not None:
        body.setdefault("max_tokens", options.max_tokens)
    if options.temperature is not None:
        body.setdefault("temperature", options.temperature)
    body |= {"model": model_id, "stream": True, "stream_options": {"include_usage": True}}
    return prompt_body(flavour, body) if passed_on.text else body


async def _message(message: JsonValue, files: Sequence[File], flavour: Flavour) -> JsonValue:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(parts, list):
        return message
    content: JsonValue = [await _part(part, files, flavour) for part in parts]
    texts = [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
    if len(texts) == len(parts) and not flavour.text_parts:
        content = "\n".join(texts)
    return {**message, "content": content}


async def _part(part: JsonValue, files: Sequence[File], flavour: Flavour) -> JsonValue:
    if not isinstance(part, dict) or part.get("type") != "picture":
        return part
    number, detail = part.get("file"), part.get("detail")
    at = number if isinstance(number, int) else -1
    url = await unchanged_url(files, at, flavour.pictures)
    fields = {name: value for name, value in part.items() if name not in {"file", "detail"}}
    image: JsonValue = {"url": url, **({"detail": detail} if detail else {})}
    return {**fields, "type": "image_url", "image_url": image}


@dataclass(slots=True)
class Gathered:
    """A whole answer out of the chunks of its stream."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    latest: dict[int, dict[str, Any]] = field(default_factory=dict)  # call by its index
    logprobs: list[JsonValue] = field(default_factory=list)
    likely: dict[str, list[JsonValue]] = field(default_factory=dict)
    finish_reason: str | None = None
    beside: dict[str, JsonValue] = field(default_factory=dict)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk, in the order in which the server sent them."""
        for name, kind in _BESIDE.items():
            if isinstance(chunk.get(name), kind):
                self.beside[name] = chunk[name]
        for choice in chunk.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            probabilities = choice.get("logprobs")
            if isinstance(probabilities, dict):
                listed = probabilities.get("content") or ()
                self.logprobs += [each for each in listed if isinstance(each, dict)]
                self._likely(probabilities)
            self._piece(choice.get("delta") or choice.get("message") or choice)

    def _likely(self, probabilities: Mapping[str, Any]) -> None:
        """Add the log probabilities of a completion, which are lists side by side."""
        for name in _LIKELY:
            if isinstance(listed := probabilities.get(name), list):
                self.likely.setdefault(name, []).extend(listed)

    def _piece(self, piece: Mapping[str, Any]) -> None:
        for name in ("content", "text", "reasoning_content", "reasoning", "refusal"):
            if isinstance(piece.get(name), str) and piece[name]:
                self.texts.setdefault(name, []).append(piece[name])
        for at, call in enumerate(piece.get("tool_calls") or ()):
            index = call.get("index")
            self._call(at if index is None else index, call)

    def _call(self, index: int, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or {}
        call = self.latest.get(index)
        if call is None or _is_another(call, piece, function):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self.latest[index] = call
            self.calls.append(call)
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += _text(function.get("arguments"))

    def answer(self) -> str:
        """Return the answer as JSON: message, reason for the end, and what was said beside it."""
        texts = {name: "".join(pieces) for name, pieces in self.texts.items()}
        reasoning = texts.get("reasoning_content") or texts.get("reasoning")
        message: dict[str, JsonValue] = {
            "content": texts.get("content", texts.get("text")) or (None if self.calls else ""),
            "refusal": texts.get("refusal"),
        }
        if reasoning:
            message["reasoning_content"] = reasoning
        if self.calls:
            message["tool_calls"] = [*self.calls]
        return json.dumps(
            {
                "message": message,
                "finish_reason": self.finish_reason,
                "logprobs": self.logprobs or self.likely or None,
                **self.beside,
            }
        )


def _is_another(
    call: Mapping[str, Any], piece: Mapping[str, Any], function: Mapping[str, Any]
) -> bool:
    """Return whether a piece begins another call: Ollama has given all of them the index 0."""
    named = bool(call["id"] and piece.get("id") and function.get("name"))
    return named and piece["id"] != call["id"]


def _text(arguments: Any) -> str:
    """Return the arguments of a call as text; some servers send an object."""
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments if isinstance(arguments, str) else ""


class PassedOnReader(AnswerReader):
    """Reads the stream of a passed-on answer: keeps each chunk for the program that asked.

    A chunk that differs from an earlier one in its text alone is not parsed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gathered = Gathered()
        self._chunks: list[str] = []
        self._known = KnownForm(_one_text)

    @property
    def text(self) -> str:
        """The answer so far without its thoughts, of a conversation or of a prompt."""
        pieces = self.gathered.texts
        content = "".join(pieces.get("content") or pieces.get("text") or ())
        return without_thoughts(content, over=self.finished is not None)

    def take_chunks(self) -> tuple[str, ...]:
        """Return the chunks since the last call."""
        chunks, self._chunks = tuple(self._chunks), []
        return chunks

    def _take(self, data: str) -> bool:
        known = self._known.read(data)
        if known is None:
            progress = super()._take(data)
            self._known.learn(data)
            return progress
        name, said = known
        self._chunks.append(data)
        self.gathered.texts.setdefault(name, []).append(said)
        if name in {"content", "text"}:
            self._say(said)
        return True

    def _keep_chunk(self, data: str) -> None:
        try:
            self.gathered.add(json.loads(data))
        except (AttributeError, TypeError):
            raise Garbage(f"the server streamed garbage: {data[:200]!a}") from None
        self._chunks.append(data)


class InfillReader(PassedOnReader):
    """Reads llama.cpp's own stream of a filled gap as a completion."""

    def _take(self, data: str) -> bool:
        return super()._take(as_completion(data))


def _one_text(data: str) -> str | None:
    """Return where the text of a chunk stands if it holds nothing else of the answer."""
    chunk, gathered = json.loads(data), Gathered()
    gathered.add(chunk)
    names = list(gathered.texts) if len(chunk["choices"]) == 1 else []
    only = gathered == Gathered(texts={name: [PROBE] for name in names}, beside=gathered.beside)
    return names[0] if only and len(names) == 1 else None
