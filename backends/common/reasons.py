"""Keeps what a server said when it refused a request, for the program that asked. Pure.

A server's words may hold its addresses, file names and tokens, which are nobody's business.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pydantic import JsonValue

from queueing.core.errors import SAID, Rejected

SAID_LIMIT = 300  # characters
_SECRETS = re.compile(
    r"(?:(?<![a-z0-9+.-])[a-z0-9+.-]++://|data:)\S*"  # addresses
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?"
    r"|(?<![a-z0-9.-])(?=[0-9.-]*[a-z])[a-z0-9.-]++:\d{2,5}\b"  # a host with its port
    r"|(?<![\w/\\])(?:[a-z]:|~|\.{1,2})?(?:[/\\][\w.@+-]+){2,}[/\\]?"  # files
    r"|\b(?:sk|hf|ush|ghp|key)[-_][\w-]{8,}",
    re.IGNORECASE | re.ASCII,
)
_NAMES = ("message", "detail", "error", "msg")


@contextmanager
def reasons_kept() -> Iterator[None]:
    """Add to a server's refusal what it said, if it stands for an answer of the server."""
    try:
        yield
    except Rejected as error:
        cause = error.__cause__
        answer = error.answer or getattr(cause, "answer", None) or getattr(cause, "body", None)
        if error.problem is not None and (said := reason_in(answer)):
            values = {**error.problem.values, SAID: said}
            error.problem = error.problem.model_copy(update={"values": values})
        raise


def reason_in(body: JsonValue) -> str:
    """Return what an error says, without addresses, files and tokens; "" if it says nothing."""
    if isinstance(body, str):
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    for _ in range(3):  # errors lie in errors
        if isinstance(body, dict):
            body = next((body[name] for name in _NAMES if body.get(name)), "")
    said = body if isinstance(body, str) and "<html" not in body.casefold() else ""
    words = "".join(sign if sign.isprintable() else " " for sign in said).split()
    return _SECRETS.sub("…", " ".join(words))[:SAID_LIMIT]
