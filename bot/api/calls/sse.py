"""Server-sent events as every client of OpenAI's API reads them. Pure.

A data line must be JSON, and a comment is one ASCII line followed by an empty line. Events have
names only where OpenAI's own do, because a name breaks clients that do not know it (`llm`).
"""

from pydantic import JsonValue

from queueing.core.bounded_json import written

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # otherwise nginx buffers events until it has a full page
}
PING = b": usher\n\n"
"""A comment that only shows that the connection is alive."""
DONE = b"data: [DONE]\n\n"


def data(value: JsonValue) -> bytes:
    """Return a data event."""
    return b"data: " + compact(value) + b"\n\n"


def named(name: str, value: JsonValue) -> bytes:
    """Return a data event with a name."""
    return b"event: " + name.encode() + b"\n" + data(value)


def comment(value: JsonValue) -> bytes:
    """Return a comment for clients that look for it; all others skip it."""
    return b": usher " + written(value).encode() + b"\n\n"


def compact(value: JsonValue) -> bytes:
    """Return JSON on one line; a lone surrogate is written as an escape."""
    try:
        return written(value, raw=True).encode()
    except UnicodeEncodeError:
        return written(value).encode()
