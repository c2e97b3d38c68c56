"""The status that a program receives for each way a job can end without a result."""

import pytest

from bot.api.calls.errors import ApiError, problem_of
from bot.texts.refusals import told
from queueing.core import errors
from queueing.core.errors import BackendError, Busy, Problem, ProblemKind, problem
from queueing.core.jobs import JobState, make_job, stand_in
from tests.samples import in_turn

CALLERS = 400
OF_SERVERS = {429, 502, 503, 504}
OPERATORS = {
    ProblemKind.BUG, ProblemKind.UNABLE, ProblemKind.NO_MODEL, ProblemKind.SILENT, ProblemKind.ONLY_THOUGHTS, ProblemKind.ONLY_CALLS, ProblemKind.MISCONFIGURED,
    ProblemKind.STEP_FAILED, ProblemKind.NO_IMAGE, ProblemKind.NO_RESULT, ProblemKind.KEPT_BACK, ProblemKind.MORE_RESULTS,
    ProblemKind.NEWEST_IMAGES,
    ProblemKind.UNHEARD, ProblemKind.NO_LISTENER, ProblemKind.NOT_ON_REQUEST,
    ProblemKind.NO_KEY, ProblemKind.NO_CREDIT,
}  # fmt: skip
"""What a later request would meet again, until somebody changes something there."""
ADMINS = {
    ProblemKind.STAYS, ProblemKind.NO_ANSWER, ProblemKind.LOAD_LATE, ProblemKind.LOAD_REFUSED, ProblemKind.LOAD_STOPPED,
    ProblemKind.LOAD_SETUP, ProblemKind.FULL, ProblemKind.OTHER_WISH, ProblemKind.NOT_THERE, ProblemKind.NOWHERE, ProblemKind.PAUSED,
    ProblemKind.ALL_PAUSED, ProblemKind.RESUMED,
}  # fmt: skip
"""What admins are told; no job ends with it."""


VALUES: dict[str, str | int] = {
    "count": 2,
    "name": "x",
    "there": "y",
    "field": "steps",
    "minutes": 5,
    "word": "z",
}


def error_of(ended: Problem) -> ApiError:
    job = stand_in(7, "alpha", 0.0)
    values = {name: getattr(job, name) for name in job.__dataclass_fields__}
    return problem_of(make_job(**values | {"state": JobState.FAILED, "error": ended.code()}))


@in_turn("what", sorted(set(ProblemKind) - ADMINS))
def test_every_problem_has_a_status_that_says_whose_it_is(what: ProblemKind) -> None:
    """A program would repeat its own mistake, or give up on a server that is only busy."""
    status = error_of(problem(what, **VALUES)).status
    assert status == 500 if what in OPERATORS else status in {CALLERS} | OF_SERVERS


def test_every_failure_of_a_server_is_the_servers(subtests: pytest.Subtests) -> None:
    """Programs would take a busy or dying server for a bug in Usher."""
    failures = {e for e in vars(errors).values() if isinstance(e, type)} - {errors.KeyRefused}
    for kind in sorted(failures, key=lambda each: each.__name__):
        if issubclass(kind, BackendError) and kind().retryable and kind is not BackendError:
            with subtests.test(kind.__name__):
                assert error_of(errors.problem_of(kind())).status in OF_SERVERS
    assert error_of(errors.problem_of(TimeoutError())).status == 504
    assert error_of(problem(ProblemKind.REFUSED)).status == CALLERS


@pytest.mark.parametrize(
    ("values", "after", "words"),
    [
        ({}, "30", "try again later"),
        ({"seconds": 8}, "8", "1 min"),
        ({"seconds": 3601}, "3601", "61 min"),
    ],
)
def test_a_busy_server_says_when_to_ask_again(
    values: dict[str, int], after: str, words: str
) -> None:
    """A program or a person would retry at once, or never."""
    ended = errors.problem_of(Busy("429")).model_copy(update={"values": values})
    error = error_of(ended)
    assert (error.status, error.headers["Retry-After"]) == (429, after)
    assert words in told(ended, "en")
    assert told(ended, "de") != told(ended, "en")
