"""Converts text servers' answers into OpenAI's form, as chunks or whole. Pure.

Whole answers, streams and `/v1/responses` are all built from this form, so server quirks are
repaired in one place. A chunk has one choice with a `delta` (`content`, `reasoning_content`,
`refusal` and `tool_calls`) and its log probabilities. It never has a finish reason, because servers
send it too early, twice or not at all. `ending` adds it.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from pydantic import JsonValue

from backends.openai.chat.tool_calls import ToolCalls, calls_in, place_of
from queueing.core.bounded_json import written
from queueing.core.errors import UnreadableAnswer

Object = dict[str, Any]
REASONS: Mapping[str, str] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",  # GLM
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",  # Gemini, also the next three
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "recitation": "content_filter",
    "sensitive": "content_filter",  # GLM
    "guardrail_intervened": "content_filter",  # Bedrock
    "refusal": "content_filter",  # Anthropic
}
"""OpenAI's finish reasons, by the reasons that servers send. Any other reason counts as "stop"."""
NO_REASON = frozenset({"", "null", "none"})  # some write null as a text
FAILURES = frozenset(
    {
        "error",
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "timeout",
        "insufficient_system_resource",
        "network_error",
    }
)
KINDS = ("content", "reasoning_content", "refusal")
TEXTS = frozenset({"text", "output_text", "input_text"})
THOUGHTS = frozenset(
    {"thinking", "reasoning", "reasoning_text", "reasoning.text", "reasoning.summary"}
)
UNSHOWN = frozenset({"reasoning.encrypted", "reference"})  # parts without a text of their own
_OF_THOUGHTS = ("thinking", "text", "summary")
_THOUGHT_NAMES = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
_BESIDE = {"timings": dict, "system_fingerprint": str}
UNKNOWN_MOST = 10
REPLACEMENT = "\ufffd"
UNLIKELY = -9999.0
"""The log probability that OpenAI sends for a non-finite one; servers send -Infinity or null."""


class AnswerForm:
    """One answer. `beside` holds the server's metadata; `unknown` names unreadable parts."""

    def __init__(self) -> None:
        self.calls = ToolCalls()
        self.beside: dict[str, JsonValue] = {}
        self.unknown: set[str] = set()
        self._reason = ""
        self._index: Any = None  # of the choice that is read: the first one
        self._in_deltas = False
        self._halves: dict[str, str] = {}  # pending high surrogates, by the text that ends in one

    @property
    def waits(self) -> bool:
        """Whether a text ends in a high surrogate, whose character the next piece completes."""
        return bool(self._halves)

    @property
    def finish_reason(self) -> str | None:
        """OpenAI's finish reason; None until the server sends one."""
        return self._as_openai(self._reason) if self._reason else None

    @property
    def failed(self) -> str:
        """The finish reason if it is a failure, or else empty."""
        return self._reason if self._reason in FAILURES else ""

    def take(self, event: Mapping[str, Any]) -> Object | None:
        """Convert an event to a chunk in OpenAI's form, or None if it contains nothing.

        Raises `UnreadableAnswer` if its form is unknown.
        """
        self.beside |= {
            name: event[name] for name, kind in _BESIDE.items() if isinstance(event.get(name), kind)
        }
        if isinstance(told := event.get("usage"), Mapping):
            self.beside["usage"] = _usage(told)
        choice = self._choice(event)
        if choice is None:
            return None
        self._end(choice.get("finish_reason"))
        return self._chunk(self._delta(choice), _likely(choice.get("logprobs")), event)

    def ending(self, reason: str) -> list[Object]:
        """Return the chunks that complete an answer; the last one has the finish reason."""
        delta: Object = {kind: REPLACEMENT for kind in self._halves if kind in KINDS}
        calls = self.calls.end()
        self._halves = {}
        if calls:
            delta["tool_calls"] = calls
        said = self._chunk(delta, None, {})
        reason = self._as_openai(reason)
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        return [end] if said is None else [said, end]

    def _choice(self, event: Mapping[str, Any]) -> Object | None:
        """Return the part of an event that belongs to the answer; the usage chunk has none."""
        choices = event.get("choices") or _as_choices(event)
        choices = [choices] if isinstance(choices, Mapping) else choices
        if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
            raise UnreadableAnswer("the choices of an event are not a list of objects")
        if self._index is None and choices:
            self._index = choices[0].get("index") or 0
        return next((c for c in choices if (c.get("index") or 0) == self._index), None)

    def _as_openai(self, told: str) -> str:
        reason = REASONS.get(told, "stop")
        if reason in {"stop", "tool_calls"}:
            return "tool_calls" if self.calls.calls else "stop"
        return reason

    def _end(self, told: Any) -> None:
        told = told.get("type") if isinstance(told, Mapping) else told  # SGLang's own form
        if isinstance(told, str) and (reason := told[:40].casefold()) not in NO_REASON:
            self._reason = reason

    def _chunk(
        self, delta: Object, likely: Object | None, event: Mapping[str, Any]
    ) -> Object | None:
        if not delta and likely is None:
            return None
        told = {"logprobs": likely} if likely is not None else {}
        beside = {
            name: event[name]
            for name in ("timings", "system_fingerprint")
            if isinstance(event.get(name), _BESIDE[name])
        }
        return {"choices": [{"index": 0, "delta": delta, **told}], **beside}

    def _delta(self, choice: Mapping[str, Any]) -> Object:
        said = self._said(choice)
        texts = dict.fromkeys(KINDS, "")
        for kind, text in self._texts(said):
            texts[kind] += text
        delta: Object = {
            kind: joined
            for kind, text in texts.items()
            if text and (joined := self._joined(kind, text))
        }
        pieces = [self._whole_text(piece) for piece in calls_in(said)]
        if calls := self.calls.take(pieces):
            delta["tool_calls"] = calls
        return delta

    def _said(self, choice: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a delta, or a message or text in its place.

        Some servers repeat the whole message at the end of their deltas.
        """
        said = choice.get("delta")
        self._in_deltas = self._in_deltas or bool(said)
        if not said:
            whole = None if self._in_deltas else choice.get("message")
            said = whole or {"content": choice.get("text")}
        said = {"content": said} if isinstance(said, str) else said
        if not isinstance(said, Mapping):
            raise UnreadableAnswer("the choice of an event has an unknown form")
        return said

    def _texts(self, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the texts of a message or a delta, each with its kind."""
        thought = next((said[name] for name in _THOUGHT_NAMES if said.get(name)), None)
        yield from self._parts(thought, "reasoning_content")
        yield from self._parts(said.get("content"), "content")
        yield from self._parts(said.get("refusal"), "refusal")

    def _parts(self, value: Any, kind: str) -> Iterator[tuple[str, str]]:
        """Yield the texts in a string or a list of parts, which may include reasoning.

        Some servers write a text that is a number as a number.
        """
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield kind, str(value)
            return
        for part in value if isinstance(value, list) else [value] if value else ():
            if isinstance(part, str):
                yield kind, part
                continue
            named = part.get("type") if isinstance(part, Mapping) else None
            plain = (
                next((name for name in ("text", "content") if name in part), None)
                if named is None and isinstance(part, Mapping)
                else None
            )
            if named in TEXTS or plain:
                yield from self._plain(part.get(plain or "text"), kind)
            elif named in THOUGHTS:
                told = next((part[name] for name in _OF_THOUGHTS if part.get(name)), None)
                yield from self._parts(told, "reasoning_content")
            elif named == "refusal":
                yield from self._plain(part.get("refusal"), "refusal")
            elif named not in UNSHOWN:
                self._pass_over(str(named or type(part).__name__)[:40])

    def _pass_over(self, kind: str) -> None:
        if len(self.unknown) < UNKNOWN_MOST:
            self.unknown.add(kind)

    def _plain(self, text: Any, kind: str) -> Iterator[tuple[str, str]]:
        if isinstance(text, str):
            yield kind, text

    def _whole_text(self, piece: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a piece of a tool call whose arguments do not end in a lone surrogate."""
        function = piece.get("function")
        if not isinstance(function, Mapping):
            return piece
        arguments = function.get("arguments")
        if not isinstance(arguments, str) or (arguments.isascii() and not self._halves):
            return piece
        kind = "call {} {}".format(*place_of(piece))
        return {**piece, "function": {**function, "arguments": self._joined(kind, arguments)}}

    def _joined(self, kind: str, text: str) -> str:
        """Return text without lone surrogates; a high one at its end is kept for the next piece."""
        text = self._halves.pop(kind, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[kind], text = text[-1], text[:-1]
        return scrubbed(text).replace("\0", REPLACEMENT)


def scrubbed(text: str) -> str:
    """Return text with surrogate pairs joined and lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def compact(value: JsonValue) -> str:
    """Return JSON on one line without lone surrogates. Raises `UnreadableAnswer`."""
    try:
        return scrubbed(written(value, raw=True))
    except RecursionError:
        raise UnreadableAnswer("the server sent an answer that is nested too deeply") from None


def _as_choices(event: Mapping[str, Any]) -> list[Object]:
    """Return an event in Ollama's own form as OpenAI's choices; empty for other events."""
    if "done" not in event:
        return []
    told = {"content": event.get("response"), "thinking": event.get("thinking")}
    reason = event.get("done_reason") or "stop" if event["done"] else None
    return [{"delta": event.get("message") or told, "finish_reason": reason}]


def _usage(told: Mapping[str, Any]) -> Object:
    """Return usage with the three numbers that typed clients require."""
    read, made = (_count(told.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    total = _count(told.get("total_tokens")) or read + made
    numbers = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": total}
    return {**{name: value for name, value in told.items() if value is not None}, **numbers}


def _count(told: Any) -> int:
    """Return a number of tokens; 0 for an invalid one."""
    return int(told) if isinstance(told, int | float) and 0 <= told < inf else 0


def _likely(told: Any) -> Object | None:
    """Return log probabilities: a list of tokens, or a completion's parallel lists."""
    if not isinstance(told, Mapping):
        return None
    if isinstance(listed := told.get("content"), list):
        tokens = [*map(_token, _tokens(listed))]
        return {"content": tokens} if tokens else None
    lists = {name: told[name] for name in _LISTS if isinstance(told.get(name), list)}
    if numbers := lists.get("token_logprobs"):  # null for the first token of an echoed prompt
        lists["token_logprobs"] = [None if n is None else _finite(n) for n in numbers]
    return lists or None


def _token(told: Object) -> Object:
    """Return a token and its alternatives in OpenAI's form, with finite log probabilities."""
    others = [*map(_alone, _tokens(told.get("top_logprobs")))]
    return {**_alone(told), "top_logprobs": others}


def _alone(told: Object) -> Object:
    return {**told, "logprob": _finite(told.get("logprob")), "bytes": told.get("bytes")}


def _tokens(listed: Any) -> list[Object]:
    """Return the tokens of a list: objects that have a text."""
    each_of = listed if isinstance(listed, list) else ()
    return [each for each in each_of if isinstance(each, dict) and "token" in each]


def _finite(told: Any) -> float:
    return told if isinstance(told, int | float) and -inf < told < inf else UNLIKELY
