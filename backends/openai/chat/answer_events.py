"""Reads server-sent events from lines. Pure."""

import json
import re
from dataclasses import dataclass

FIELDS = frozenset({"data", "event", "id", "retry"})
READ = frozenset({"", "message", "error"})
"""The names of events that are always read; others usually keep a connection open."""
_BETWEEN = re.compile(r"\s*,?\s*(?:data:\s*)?")
JOINED_MOST = 100  # events without separation
EVENT_LIMIT = 1_000_000  # characters of an event, or of an answer without events


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEvent:
    """One event: its data lines, and whether its name marks it as an error."""

    lines: tuple[str, ...]
    error: bool = False


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line that is not a field of an event."""

    text: str


class EventReader:
    """Takes lines one by one and returns the event that a line completes, if any.

    It keeps only enough of an overlong event to detect that it is too long.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._length = 0
        self._name = ""

    def feed(self, line: str) -> ServerEvent | PlainLine | None:
        """Take the next line, without its line end."""
        line = line.lstrip("\ufeff\0")  # some proxies send one before each event
        if not line:
            return self.end()
        name, _, value = line.partition(":")
        name, value = name.strip().casefold(), value.removeprefix(" ")
        if name == "data":
            return self._data(_without_prefix(value))
        if name == "event":
            self._name = value.strip()
        elif name == "error":  # llama.cpp before 2025-08 marks errors this way
            return ServerEvent(lines=(value,), error=True)
        elif name and name not in FIELDS:  # a comment begins with a colon
            return PlainLine(line)
        return None

    def end(self) -> ServerEvent | None:
        """Return the unfinished event; None if there is none or it contains nothing to read."""
        lines, name = tuple(self._lines), self._name
        self._lines, self._length, self._name = [], 0, ""
        if not any(line.strip() for line in lines):
            return None
        if name not in READ and not any('"choices"' in line or is_done(line) for line in lines):
            return None
        return ServerEvent(lines=lines, error=name == "error")

    def _data(self, value: str) -> ServerEvent | None:
        """Add a line of data; some servers omit the empty line between events."""
        begins = value.startswith("{") or is_done(value)
        ended = self.end() if begins and self._lines and self._lines[-1].endswith("}") else None
        if self._length <= EVENT_LIMIT:
            self._lines.append(value)
            self._length += len(value) + 1
        return ended


def joined_events(data: str) -> list[str]:
    """Return the texts of several events that a server wrote as one; empty for a single event.

    The events may be the items of a list.
    """
    found: list[str] = []
    at, decoder = int(data.startswith("[{")), json.JSONDecoder(strict=False)
    while data.startswith("{", at) and len(data) <= EVENT_LIMIT and len(found) < JOINED_MOST:
        try:
            _, end = decoder.raw_decode(data, at)
        except (ValueError, RecursionError):
            break
        found.append(data[at:end])
        between = _BETWEEN.match(data, end)
        at = between.end() if between else end
    if found and is_done(data[at:]):
        found.append(data[at:])
    return [] if found == [data.strip()] else found


def _without_prefix(value: str) -> str:
    """Return a value without the field's name, which some proxies write twice."""
    bare = value.removeprefix("data:").lstrip()
    return bare if bare.startswith("{") or is_done(bare) else value


def is_done(data: str) -> bool:
    """Return whether an event's data marks the end of the stream."""
    return data.strip().strip('"').casefold() == "[done]"
