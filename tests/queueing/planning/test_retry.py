"""What becomes of a job after a failed attempt."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    ProblemKind,
    Rejected,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
    problem,
)
from queueing.core.jobs import Job, JobState
from queueing.core.requests import TextToImage
from queueing.planning.retry import (
    LONGEST_PAUSE_S,
    LOST_AT_ONCE,
    LOST_MOST,
    Fail,
    Retry,
    after_failure,
    after_loss,
    pause_s,
)
from tests.simulation.installation import image_model

NOW = 1000.0
SPEC = image_model("flux", max_attempts=3)
JOB = Job(
    id=1,
    model="flux",
    request=TextToImage(prompt="cat"),
    owner="web:1",
    lane="normal",
    parent=None,
    reply_to="",
    state=JobState.PROCESSING,
    seq=1,
    attempt=1,
    version=2,
    not_before=0.0,
    queued_at=0.0,
    started_at=NOW,
    finished_at=None,
    backend="comfy",
    suspect=False,
    error=None,
    acknowledged=False,
    sendings=1,
)


@pytest.mark.parametrize("error", [Rejected("no"), BadModel("models.flux.workflow")])
def test_a_refused_request_fails_at_once(error: BackendError) -> None:
    """A request that can never work would keep a GPU busy."""
    assert isinstance(after_failure(JOB, error, SPEC, NOW), Fail)


def test_the_servers_own_sentence_reaches_the_person() -> None:
    """People would read a general text although the server's adapter knew better."""
    error = Rejected("cause", problem=problem(ProblemKind.TOO_LARGE))
    assert after_failure(JOB, error, SPEC, NOW) == Fail(problem=problem(ProblemKind.TOO_LARGE))


def test_a_fault_of_ours_is_not_shown_to_people() -> None:
    """Internals of the bot would be posted in a chat, or a bug be retried forever."""
    assert after_failure(JOB, KeyError("secret"), SPEC, NOW) == Fail(
        problem=problem(ProblemKind.BUG)
    )


@pytest.mark.parametrize(
    "error", [OutOfMemory("oom"), UnreadableAnswer("<html>"), UnknownFailure("500"), TimeoutError()]
)
def test_what_may_work_next_time_is_tried_after_a_pause(error: Exception) -> None:
    """One brief fault of a server would end a job."""
    assert after_failure(JOB, error, SPEC, NOW) == Retry(not_before=NOW + pause_s(1))


@pytest.mark.parametrize("error", [OutOfMemory("oom"), Unavailable("gone"), TimeoutError()])
def test_the_last_attempt_ends_the_job_and_says_how_often_it_was_tried(error: Exception) -> None:
    """A job would be retried forever, or people not learn that it was retried."""
    outcome = after_failure(replace(JOB, attempt=3), error, SPEC, NOW)
    assert isinstance(outcome, Fail)
    assert outcome.problem.attempts == 3


@pytest.mark.parametrize("error", [Unavailable("gone"), ModelCrashed("exit code 6")])
def test_a_job_alone_on_a_dying_server_is_charged_and_suspected(error: BackendError) -> None:
    """A job that crashes its server would do so forever."""
    outcome = after_failure(JOB, error, SPEC, NOW, alone=True)
    assert isinstance(outcome, Retry)
    assert outcome.charged
    assert outcome.suspect


@pytest.mark.parametrize("error", [Unavailable("gone"), ModelCrashed("exit code 6")])
def test_jobs_that_ran_together_are_suspected_but_not_charged(error: BackendError) -> None:
    """A job would pay with its attempts for what its neighbour did."""
    last = replace(JOB, attempt=3)
    outcome = after_failure(last, error, SPEC, NOW, alone=False)
    assert outcome == Retry(not_before=NOW, charged=False, suspect=True)


def test_a_busy_server_is_asked_again_when_it_says_and_costs_no_attempt() -> None:
    """A job would use up its attempts while others are served, or be told to wait for days."""
    last, two = replace(JOB, attempt=3, sendings=3), replace(SPEC, backends=("comfy", "other"))
    for after_s, wait_s in ((None, pause_s(1)), (0.1, pause_s(1)), (50.0, 50.0), (1e9, 60.0)):
        outcome = after_failure(last, Busy("429", after_s=after_s), two, NOW)
        assert outcome == Retry(not_before=NOW + wait_s, charged=False)
    for after_s, values in ((None, {}), (7.2, {"seconds": 8}), (1e300, {"seconds": 86_400})):
        busy = Busy("429", after_s=after_s)
        ended = after_failure(replace(last, sendings=8), busy, two, NOW)
        assert ended == Fail(problem=problem(ProblemKind.BUSY, **values))
    assert isinstance(after_failure(last, Busy("429", after_s=90.0), SPEC, NOW), Fail)


@pytest.mark.parametrize("after_s", [None, 0.0, 1.0, 59.0, 61.0, 1e9])
def test_a_server_that_is_always_busy_keeps_nobody_for_long(after_s: float | None) -> None:
    """A call would be held for hours by a server that accepts nothing."""
    job, waited_s = JOB, 0.0
    while isinstance(told := after_failure(job, Busy("", after_s=after_s), SPEC, NOW), Retry):
        assert not told.charged
        waited_s += told.not_before - NOW
        job = replace(job, sendings=job.sendings + 1)
    assert told.problem.what is ProblemKind.BUSY
    assert waited_s <= 300


def test_a_model_unloaded_by_somebody_else_costs_no_attempt() -> None:
    """Jobs would fail because another program wanted the GPU."""
    outcome = after_failure(replace(JOB, attempt=3), NotLoaded("gone"), SPEC, NOW)
    assert outcome == Retry(not_before=NOW, charged=False, suspect=False)


def test_a_model_that_never_stays_loaded_fails_its_jobs_in_the_end() -> None:
    """Two programs would load and unload in turns forever."""
    assert isinstance(after_failure(JOB, NotLoaded("gone"), SPEC, NOW, lost_in_a_row=3), Fail)


@given(failures=st.integers(min_value=1, max_value=10_000))
def test_pauses_grow_and_are_bounded(failures: int) -> None:
    """A broken server would be asked in a tight loop, or a job would wait for days."""
    assert 0 < pause_s(failures) <= pause_s(failures + 1) <= LONGEST_PAUSE_S


def interrupted(starts: int) -> Retry | Fail:
    return after_loss(replace(JOB, sendings=starts, suspect=True), NOW)


def test_a_job_interrupted_by_restarts_is_given_up_late_and_after_pauses() -> None:
    """A program that is restarted every few seconds would end each request within two minutes."""
    assert [interrupted(starts) for starts in range(1, LOST_AT_ONCE)] == [
        Retry(not_before=NOW, charged=False, suspect=True)
    ] * (LOST_AT_ONCE - 1)
    pauses = []
    for starts in range(LOST_AT_ONCE, LOST_MOST):
        after = interrupted(starts)
        assert isinstance(after, Retry)
        pauses.append(after.not_before - NOW)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (pause_s(1), LONGEST_PAUSE_S)
    assert sum(pauses) >= 600.0
    given_up = interrupted(LOST_MOST)
    assert isinstance(given_up, Fail)
    assert given_up.problem.what is ProblemKind.LOST
