"""Server-sent events in a form that every client of OpenAI's API can read. Pure.

A data line must be JSON. A comment is one ASCII line, followed by an empty line. Only events to
which OpenAI gives names have one, because names break clients that do not expect them (`llm`).
"""

from pydantic import JsonValue

from queueing.core.bounded_json import written

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # otherwise nginx buffers events until a page is full
}
PING = b": usher\n\n"
"""A comment that keeps the connection alive."""
DONE = b"data: [DONE]\n\n"


def data(value: JsonValue) -> bytes:
    """Build an event."""
    return b"data: " + compact(value) + b"\n\n"


def named(name: str, value: JsonValue) -> bytes:
    """Build an event with a name."""
    return b"event: " + name.encode() + b"\n" + data(value)


def comment(value: JsonValue) -> bytes:
    """Build a comment. Only clients that look for comments read it."""
    return b": usher " + written(value).encode() + b"\n\n"


def compact(value: JsonValue) -> bytes:
    """Write JSON on one line. Lone surrogates are escaped."""
    try:
        return written(value, raw=True).encode()
    except UnicodeEncodeError:
        return written(value).encode()
