"""Server-sent events as every client of OpenAI's API reads them. Pure.

A data line must be JSON, comments are one ASCII line each with an empty line after it, and a named
event breaks clients that do not know it (`llm`), so there is none.
"""

import json

from pydantic import JsonValue

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would keep events back until it has a page full
}
DONE = b"data: [DONE]\n\n"


def data(value: JsonValue) -> bytes:
    """Return a data event."""
    return b"data: " + compact(value) + b"\n\n"


def comment(value: JsonValue) -> bytes:
    """Return a comment for clients that look for it; all others skip it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return b": usher " + text.encode("ascii") + b"\n\n"


def compact(value: JsonValue) -> bytes:
    """Return JSON on one line; a half of a sign that was cut is written as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
