"""What picture servers report, for the queue and for the person. Pure.

Some report an error with status 200. People never see the server's own words.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import JsonValue

from backends.common.error_rules import ABOUT_MEMORY, ErrorRule, judged
from backends.common.http_answers import HttpFailed, HttpRefused
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    Interrupted,
    NotLoaded,
    Rejected,
)
from queueing.core.problems import What, problem

STEP_FAILED = problem(What.STEP_FAILED)
NO_MODEL = problem(What.NO_MODEL)

# The first that matches decides.
RULES: Sequence[ErrorRule] = (
    *ABOUT_MEMORY,
    ErrorRule(kind=Busy, sentences=("job queue is full[.]?",)),
    ErrorRule(
        kind=Interrupted,
        codes=frozenset({"cancelled", "interrupted"}),
        sentences=("(the )?(request|generation|job|task)? ?(was )?(interrupted|cancelled).*",),
    ),
    ErrorRule(
        kind=NotLoaded,
        sentences=("no model loaded[.]?", "(the )?model is not loaded[.]?"),
    ),
    ErrorRule(
        kind=BadModel,
        told=NO_MODEL,
        codes=frozenset({"model_not_found", "bad_route"}),
        sentences=(
            "(the )?model ([^ ]+ )?(not found|does not exist)[.]?",
            "no such model[.:]?( [^ ]+)?",
            "loaded model does not support img_gen[.]?",
        ),
    ),
    ErrorRule(
        kind=Rejected,
        told=STEP_FAILED,
        codes=frozenset({"generation_failed"}),
        words=("returned no results",),
    ),
)


def classify(status: int, body: JsonValue, *, after_s: float | None = None) -> BackendError:
    """Return the error a server's answer stands for; `body` is its text or parsed JSON."""
    return judged(RULES, status, body, after_s=after_s)


def classify_answer(error: HttpRefused | HttpFailed) -> BackendError:
    """Return the error that an answer with a bad status stands for."""
    return classify(error.status, error.body, after_s=error.after_s)


@contextmanager
def classified() -> Iterator[None]:
    """Raise the error that a server's refusal stands for."""
    try:
        yield
    except (HttpRefused, HttpFailed) as error:
        raise classify_answer(error) from error
