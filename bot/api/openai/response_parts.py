"""The parts of a response's output while they are written, and the events about them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class OpenText:
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
class OpenCall:
    """A function call that is being written, and the item it is."""

    item: Object
    at: int
    pieces: list[str] = field(default_factory=list)


def delta_event(kind: str, place: Object, words: str, likely: list[Object]) -> Object:
    """Return the event for the next words of a text."""
    more = {"logprobs": likely} if kind == "output_text" else {}
    return event_of(f"response.{kind}.delta", **place, delta=words, **more)


def event_of(kind: str, **fields: Any) -> Object:
    """Return an event."""
    return {"type": kind, **fields}


def likely_in(choice: Mapping[str, Any]) -> list[Object]:
    """Return the log probabilities that a server sends with a piece."""
    told = choice.get("logprobs")
    return objects_in(told.get("content") if isinstance(told, Mapping) else None)


def objects_in(listed: Any) -> list[Object]:
    """Return the objects of a list; servers are not trusted to send one."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def likely_of(value: Mapping[str, Any]) -> Object:
    """Return a token's log probability with all fields that clients require."""
    others = [_token(each) for each in objects_in(value.get("top_logprobs"))]
    return {**_token(value), "top_logprobs": others}


def _token(value: Mapping[str, Any]) -> Object:
    token, read = str(value.get("token", "")), value.get("bytes")
    told = list(token.encode(errors="replace")) if read is None else read
    return {"token": token, "logprob": value.get("logprob", 0.0), "bytes": told}
