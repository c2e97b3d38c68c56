"""The items of a response's output, made from what a server says, with an event for each step. Pure.

Servers write pieces of reasoning, text and function calls in any order. Clients expect items: one
text is complete before another item begins, while function calls stay open until the end, because
servers mix the pieces of calls that are made at once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
_ITEMS = {"reasoning_text": "reasoning", "output_text": "message", "refusal": "message"}
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


@dataclass(kw_only=True, slots=True)
class _OpenText:
    """A part that is being written, and the item it is in."""

    kind: str
    item: Object
    at: int
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Object] = field(default_factory=list)

    @property
    def place(self) -> Object:
        """The fields that say which part an event is about."""
        part = len(self.item["content"])
        return {"item_id": self.item["id"], "output_index": self.at, "content_index": part}

    @property
    def part(self) -> Object:
        """The part as it is so far."""
        said = "".join(self.pieces)
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": said}
        if self.kind == "reasoning_text":
            return {"type": "reasoning_text", "text": said}
        return {"type": "output_text", "text": said, "annotations": [], "logprobs": self.logprobs}


@dataclass(kw_only=True, slots=True)
class _OpenCall:
    """A function call that is being written; `item` is None until its name is known."""

    call_id: str = ""
    name: str = ""
    item: Object | None = None
    at: int = 0
    pieces: list[str] = field(default_factory=list)


class OutputItems:
    """The items so far. `number` is the job's, which makes their ids unique."""

    def __init__(self, number: int) -> None:
        self.items: list[Object] = []
        self._number = number
        self._text: _OpenText | None = None
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._blank = ("output_text", "")  # white space that belongs to a text only if more follows

    def take(self, said: Mapping[str, Any], logprobs: Sequence[Object] = ()) -> list[Object]:
        """Add what a server says next, or all it said, and return the events for it."""
        events: list[Object] = []
        if thought := _words(said, "reasoning_content") or _words(said, "reasoning"):
            events += self._say("reasoning_text", thought)
        if words := _words(said, "content"):
            events += self._say("output_text", words, logprobs)
        if words := _words(said, "refusal"):
            events += self._say("refusal", words)
        for at, piece in enumerate(said.get("tool_calls") or ()):
            events += self._called(at, piece)
        return events

    def close(self, *, complete: bool = True) -> list[Object]:
        """Finish all items and return the events; an answer always has a text or a call."""
        events = self._end_text()
        for call in self._calls:
            events += self._end_call(call)
        if not any(item["type"] != "reasoning" for item in self.items):
            kind, blank = self._blank
            events += self._begin("output_text")
            events += self._write(blank if kind == "output_text" else "")
            events += self._end_text()
        if not complete:
            self.items[-1]["status"] = "incomplete"
        return events

    # ------------------------------------------------------------ texts

    def _say(self, kind: str, words: str, logprobs: Sequence[Object] = ()) -> list[Object]:
        events: list[Object] = []
        if self._text is None or self._text.kind != kind:
            before = self._blank[1] if self._blank[0] == kind else ""
            words, self._blank = before + words, (kind, "")
            if not words.strip():
                self._blank = (kind, words)
                return []
            events = self._begin(kind)
        return events + self._write(words, logprobs)

    def _begin(self, kind: str) -> list[Object]:
        """Begin a part: in the item before it if that is of the same kind, else in a new one."""
        events = []
        item = self._text.item if self._text is not None else None
        if item is not None and item["type"] == _ITEMS[kind]:
            events = self._end_part()
            self._text = _OpenText(kind=kind, item=item, at=len(self.items) - 1)
        else:
            events = self._end_text()
            item, at, added = self._add(_ITEMS[kind], {"content": []})
            self._text = _OpenText(kind=kind, item=item, at=at)
            events.append(added)
        part = {**self._text.part}
        return [*events, _event("response.content_part.added", **self._text.place, part=part)]

    def _write(self, words: str, logprobs: Sequence[Object] = ()) -> list[Object]:
        text = self._text
        if text is None or not words:
            return []
        text.pieces.append(words)
        more: Object = {}
        if text.kind == "output_text":
            likely = [_likely(each) for each in logprobs]
            text.logprobs += likely
            more = {"logprobs": likely}
        return [_event(f"response.{text.kind}.delta", **text.place, delta=words, **more)]

    def _end_part(self) -> list[Object]:
        text = self._text
        if text is None:
            return []
        part, place = text.part, text.place
        said = {name: value for name, value in part.items() if name not in {"type", "annotations"}}
        text.item["content"].append(part)
        return [
            _event(f"response.{text.kind}.done", **place, **said),
            _event("response.content_part.done", **place, part=part),
        ]

    def _end_text(self) -> list[Object]:
        text = self._text
        if text is None:
            return []
        events = self._end_part()
        self._text = None
        return [*events, self._done(text.item, text.at)]

    # ------------------------------------------------------------ function calls

    def _called(self, at: int, piece: Mapping[str, Any]) -> list[Object]:
        events = self._end_text()
        index = piece.get("index")
        call = self._by_index.get(at if index is None else index)
        function = piece.get("function") or {}
        if call is None or _is_another(call, piece):
            call = _OpenCall()
            self._calls.append(call)
            self._by_index[at if index is None else index] = call
        call.call_id = call.call_id or piece.get("id") or ""
        call.name = call.name or function.get("name") or ""
        arguments = _arguments(function.get("arguments"))
        call.pieces += [arguments] if arguments else []
        if call.item is None:
            return events + (self._begin_call(call) if call.name else [])
        return events + ([self._argued(call, arguments)] if arguments else [])

    def _begin_call(self, call: _OpenCall) -> list[Object]:
        call.call_id = call.call_id or f"call_{self._number}_{len(self.items)}"
        fields = {"call_id": call.call_id, "name": call.name, "arguments": ""}
        call.item, call.at, added = self._add("function_call", fields)
        arguments = "".join(call.pieces)
        return [added, self._argued(call, arguments)] if arguments else [added]

    def _argued(self, call: _OpenCall, arguments: str) -> Object:
        place = {"item_id": (call.item or {})["id"], "output_index": call.at}
        return _event("response.function_call_arguments.delta", **place, delta=arguments)

    def _end_call(self, call: _OpenCall) -> list[Object]:
        events = self._begin_call(call) if call.item is None else []
        item = call.item or {}
        item["arguments"] = "".join(call.pieces)
        said = {"name": call.name, "arguments": item["arguments"]}
        place = {"item_id": item["id"], "output_index": call.at}
        done = _event("response.function_call_arguments.done", **place, **said)
        return [*events, done, self._done(item, call.at)]

    # ------------------------------------------------------------ items

    def _add(self, kind: str, fields: Object) -> tuple[Object, int, Object]:
        at = len(self.items)
        item: Object = {"id": f"{_PREFIXES[kind]}_{self._number}_{at}", "type": kind}
        item |= {"status": "in_progress", **fields}
        if kind == "message":
            item["role"] = "assistant"
        if kind == "reasoning":
            item["summary"] = []
        self.items.append(item)
        added = _event("response.output_item.added", output_index=at, item=_copy(item))
        return item, at, added

    def _done(self, item: Object, at: int) -> Object:
        item["status"] = "completed"
        return _event("response.output_item.done", output_index=at, item=_copy(item))


def _event(kind: str, **fields: Any) -> Object:
    return {"type": kind, **fields}


def _copy(item: Object) -> Object:
    """Return an item as it is now; its parts do not change."""
    return {**item, "content": [*item["content"]]} if "content" in item else {**item}


def _words(said: Mapping[str, Any], name: str) -> str:
    words = said.get(name)
    return words if isinstance(words, str) else ""


def _arguments(value: Any) -> str:
    """Return a call's arguments as text; some servers send an object."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else ""


def _is_another(call: _OpenCall, piece: Mapping[str, Any]) -> bool:
    """Return whether a piece begins another call; Ollama has numbered all of them 0."""
    named = bool(call.call_id and (piece.get("function") or {}).get("name"))
    return named and piece.get("id") not in {None, "", call.call_id}


def _likely(value: Mapping[str, Any]) -> Object:
    """Return a token's log probability with all fields that clients require."""
    others = [_token(each) for each in value.get("top_logprobs") or ()]
    return {**_token(value), "top_logprobs": others}


def _token(value: Mapping[str, Any]) -> Object:
    token, read = str(value.get("token", "")), value.get("bytes")
    told = list(token.encode(errors="replace")) if read is None else read
    return {"token": token, "logprob": value.get("logprob", 0.0), "bytes": told}
