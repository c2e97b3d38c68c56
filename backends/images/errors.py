"""Classifies what picture servers report, for the queue and for the person. Pure.

Servers differ in status and shape, and some report an error with status 200, so the words decide
first. People never see the server's own words.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pydantic import JsonValue

from backends.common.http_answers import HttpFailed, HttpRefused
from queueing.core.errors import (
    BackendError,
    BadModel,
    Interrupted,
    NotLoaded,
    OutOfMemory,
    Rejected,
    Unavailable,
)
from queueing.core.problems import Problem, What, problem

CAUSE_LIMIT = 300  # characters of a server's words that reach the log
TOO_LARGE = 413
REFUSED = problem(What.REFUSED)
STEP_FAILED = problem(What.STEP_FAILED)
NO_MODEL = problem(What.NO_MODEL)

PictureErrorRule = tuple[tuple[str, ...], type[BackendError], Problem | None]
# The first row with one of its words in the answer decides.
RULES: Sequence[PictureErrorRule] = (
    (
        ("out of memory", "failed to allocate", "unable to allocate", "outofdevicememory"),
        OutOfMemory,
        None,
    ),
    (("model failed to load", "could not load model", "failed to load"), OutOfMemory, None),
    (("invalid_session_id", "api key", "unauthorized", "job queue is full"), Unavailable, None),
    (("interrupted", "cancelled"), Interrupted, None),
    (("is not loaded", "no model loaded"), NotLoaded, None),
    (("no backends", "all backends failed"), Unavailable, None),
    (("does not support img_gen",), BadModel, NO_MODEL),
    (("model not found", "no such model", "does not exist", "bad_route"), BadModel, NO_MODEL),
    (("generation_failed", "returned no results"), Rejected, STEP_FAILED),
)
BY_STATUS: Mapping[int, type[BackendError]] = dict.fromkeys((401, 403, 408, 429), Unavailable)


def classify(status: int, body: JsonValue) -> BackendError:
    """Return the error a server's answer stands for; `body` is its text or parsed JSON."""
    said = words_of(body)
    if status == TOO_LARGE:
        return Rejected(f"status {status}", problem=problem(What.TOO_LARGE))
    cause = f"status {status}: {said[:CAUSE_LIMIT]!a}"
    folded = said.casefold()
    for words, kind, told in RULES:
        if any(word in folded for word in words):
            return kind(cause, problem=told)
    if status < 500 and status not in BY_STATUS:
        return Rejected(cause, problem=REFUSED)
    return Unavailable(cause)


def words_of(body: JsonValue) -> str:
    """Return a server's own description of an error, or all that it sent."""
    if isinstance(body, str):
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            return body
        return words_of(parsed) if isinstance(parsed, dict) else body
    if not isinstance(body, dict):
        return json.dumps(body)
    error = body.get("error")
    if isinstance(error, dict):
        return words_of({"error": None, **error})
    named = (error, *(body.get(key) for key in ("error_id", "message", "detail", "code", "type")))
    return " ".join(str(part) for part in named if part) or json.dumps(body)


@contextmanager
def classified() -> Iterator[None]:
    """Raise the error that a server's refusal stands for."""
    try:
        yield
    except (HttpRefused, HttpFailed) as error:
        raise classify(error.status, error.body) from error
