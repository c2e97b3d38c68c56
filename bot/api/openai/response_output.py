"""Builds the output items of a response, and the events for each step. Pure.

Servers mix pieces of reasoning, text and function calls in any order. Clients expect items: a text
must be complete before another item begins. Function calls stay open until the end, because servers
interleave the pieces of parallel calls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class OpenText:
    """A text part that is being written, and its item."""

    kind: str
    item: Object
    at: int
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Object] = field(default_factory=list)

    @property
    def place(self) -> Object:
        """The fields that identify the part in an event."""
        part = len(self.item["content"])
        return {"item_id": self.item["id"], "output_index": self.at, "content_index": part}

    @property
    def part(self) -> Object:
        """The part as written so far."""
        said = "".join(self.pieces)
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": said}
        if self.kind == "reasoning_text":
            return {"type": "reasoning_text", "text": said}
        return {"type": "output_text", "text": said, "annotations": [], "logprobs": self.logprobs}


@dataclass(kw_only=True, slots=True)
class OpenCall:
    """A function call that is being written, and its item."""

    item: Object
    at: int
    pieces: list[str] = field(default_factory=list)


def delta_event(kind: str, place: Object, words: str, likely: list[Object]) -> Object:
    """Build the event for the next words of a text."""
    more = {"logprobs": likely} if kind == "output_text" else {}
    return event_of(f"response.{kind}.delta", **place, delta=words, **more)


def event_of(kind: str, **fields: Any) -> Object:
    """Build an event."""
    return {"type": kind, **fields}


def likely_in(choice: Mapping[str, Any]) -> list[Object]:
    """Return the log probabilities in a server's chunk."""
    told = choice.get("logprobs")
    return objects_in(told.get("content") if isinstance(told, Mapping) else None)


def objects_in(listed: Any) -> list[Object]:
    """Return the objects in a list, without any malformed values that a server may send."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def likely_of(value: Mapping[str, Any]) -> Object:
    """Return a token's log probability with all fields that clients require."""
    others = [_token(each) for each in objects_in(value.get("top_logprobs"))]
    return {**_token(value), "top_logprobs": others}


def _token(value: Mapping[str, Any]) -> Object:
    token, read = str(value.get("token", "")), value.get("bytes")
    told = list(token.encode(errors="replace")) if read is None else read
    return {"token": token, "logprob": value.get("logprob", 0.0), "bytes": told}


_ITEMS = {"reasoning_text": "reasoning", "output_text": "message", "refusal": "message"}
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


class OutputItems:
    """The items written so far. `number` is the number of the job, which makes item ids unique."""

    def __init__(self, number: int) -> None:
        self.items: list[Object] = []
        self._number = number
        self._text: OpenText | None = None
        self._calls: dict[int, OpenCall] = {}
        self._blank = ("output_text", "")  # white space, which is only sent if more text follows

    def take(self, said: Mapping[str, Any], logprobs: Sequence[Object] = ()) -> list[Object]:
        """Add the server's next piece or whole message, and return the events for it."""
        events: list[Object] = []
        if thought := said.get("reasoning_content"):
            events += self._say("reasoning_text", thought)
        if words := said.get("content"):
            events += self._say("output_text", words, logprobs)
        if words := said.get("refusal"):
            events += self._say("refusal", words)
        for at, piece in enumerate(said.get("tool_calls") or ()):
            events += self._called(piece.get("index", at), piece)
        return events

    def goes_on(self, kind: str, words: str) -> Object | None:
        """Add words to the open text.

        Returns its place, or None if that kind of text is not open.
        """
        text = self._text
        if text is None or text.kind != kind:
            return None
        text.pieces.append(words)
        return text.place

    def close(self, *, complete: bool = True) -> list[Object]:
        """Finish all items and return the events.

        An answer without text and calls gets an empty text.
        """
        events = self._end_text()
        for call in self._calls.values():
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
        """Begin a part: in the last item if that has the same kind, otherwise in a new item."""
        events = []
        item = self._text.item if self._text is not None else None
        if item is not None and item["type"] == _ITEMS[kind]:
            events = self._end_part()
            self._text = OpenText(kind=kind, item=item, at=len(self.items) - 1)
        else:
            events = self._end_text()
            item, at, added = self._add(_ITEMS[kind], {"content": []})
            self._text = OpenText(kind=kind, item=item, at=at)
            events.append(added)
        part = {**self._text.part}
        return [*events, event_of("response.content_part.added", **self._text.place, part=part)]

    def _write(self, words: str, logprobs: Sequence[Object] = ()) -> list[Object]:
        text = self._text
        if text is None or not words:
            return []
        text.pieces.append(words)
        likely = [likely_of(each) for each in logprobs]
        text.logprobs += likely
        return [delta_event(text.kind, text.place, words, likely)]

    def _end_part(self) -> list[Object]:
        text = self._text
        if text is None:
            return []
        part, place = text.part, text.place
        said = {name: value for name, value in part.items() if name not in {"type", "annotations"}}
        text.item["content"].append(part)
        return [
            event_of(f"response.{text.kind}.done", **place, **said),
            event_of("response.content_part.done", **place, part=part),
        ]

    def _end_text(self) -> list[Object]:
        text = self._text
        if text is None:
            return []
        events = self._end_part()
        self._text = None
        return [*events, self._done(text.item, text.at)]

    # ------------------------------------------------------------ function calls

    def _called(self, index: int, piece: Mapping[str, Any]) -> list[Object]:
        events = self._end_text()
        function = piece["function"]
        call = self._calls.get(index)
        if call is None:
            fields = {"call_id": piece["id"], "name": function["name"], "arguments": ""}
            item, at, added = self._add("function_call", fields)
            call = self._calls[index] = OpenCall(item=item, at=at)
            events.append(added)
        if arguments := function["arguments"]:
            call.pieces.append(arguments)
            place = {"item_id": call.item["id"], "output_index": call.at}
            kind = "response.function_call_arguments.delta"
            events.append(event_of(kind, **place, delta=arguments))
        return events

    def _end_call(self, call: OpenCall) -> list[Object]:
        item = call.item
        item["arguments"] = "".join(call.pieces)
        said = {"name": item["name"], "arguments": item["arguments"]}
        place = {"item_id": item["id"], "output_index": call.at}
        done = event_of("response.function_call_arguments.done", **place, **said)
        return [done, self._done(item, call.at)]

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
        added = event_of("response.output_item.added", output_index=at, item=_copy(item))
        return item, at, added

    def _done(self, item: Object, at: int) -> Object:
        item["status"] = "completed"
        return event_of("response.output_item.done", output_index=at, item=_copy(item))


def _copy(item: Object) -> Object:
    """Copy an item. Its parts are shared, because they do not change."""
    return {**item, "content": [*item["content"]]} if "content" in item else {**item}
