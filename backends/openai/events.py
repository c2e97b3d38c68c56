"""Reads server-sent events, as their standard has them and as servers have been seen to send them. Pure.

A line that belongs to no event is returned too: some servers answer plain JSON where a stream was
asked for.
"""

from dataclasses import dataclass

FIELDS = frozenset({"data", "event", "id", "retry"})
READ = frozenset({"", "message", "error"})
"""The names of events that are read; others only keep a connection open."""
EVENT_LIMIT = 1_000_000  # characters of an event, or of an answer that is not an event stream


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEvent:
    """One event: its data lines, and whether its name says that it is an error."""

    lines: tuple[str, ...]
    error: bool = False


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A line that is no field of an event."""

    text: str


class EventReader:
    """Takes lines one by one and returns the event that a line ends, if it ends one.

    Of an event that is too long, no more is kept than shows it.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._length = 0
        self._name = ""
        self._first = True

    def feed(self, line: str) -> ServerEvent | PlainLine | None:
        """Take the next line, without its end."""
        if self._first:
            self._first, line = False, line.removeprefix("\ufeff")
        if not line:
            return self.end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            return self._data(value)
        if name == "event":
            self._name = value.strip()
        elif name == "error":  # llama.cpp before 2025-08 named errors this way
            return ServerEvent(lines=(value,), error=True)
        elif name and name not in FIELDS:  # a line that begins with a colon is a comment
            return PlainLine(line)
        return None

    def end(self) -> ServerEvent | None:
        """Return the event that has begun; None if there is none, or nothing to read in it."""
        lines, name = tuple(self._lines), self._name
        self._lines, self._length, self._name = [], 0, ""
        if name not in READ or not any(line.strip() for line in lines):
            return None
        return ServerEvent(lines=lines, error=name == "error")

    def _data(self, value: str) -> ServerEvent | None:
        """Add a line of data; servers that leave out the empty line begin the next event with it."""
        begins = value.startswith("{") or is_done(value)
        ended = self.end() if begins and self._lines and self._lines[-1].endswith("}") else None
        if self._length <= EVENT_LIMIT:
            self._lines.append(value)
            self._length += len(value) + 1
        return ended


def is_done(data: str) -> bool:
    """Return whether an event's data says that the stream is over."""
    return data.strip().casefold() == "[done]"
