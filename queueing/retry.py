"""What happens to a job after a failed attempt; pure."""

from dataclasses import dataclass

from queueing.catalog import ModelSpec
from queueing.errors import BackendError, Interrupted, NotLoaded, OutOfMemory, Unavailable
from queueing.jobs import Job

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 120.0

NEUTRAL_TEXT = "Something went wrong on our side, and the operator has been told."
UNAVAILABLE_TEXT = "The server stopped working while it ran this."
INTERRUPTED_TEXT = "Somebody stopped it on the server."
MEMORY_TEXT = "The card ran out of memory for this request; a smaller one may work."
LATE_TEXT = "The server took too long."
UNLOADED_TEXT = "Something else on that machine keeps unloading this model."
REFUSED_TEXT = "The server cannot do this request."


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """The job goes back to its place and may start again from `not_before` (UNIX seconds).

    A failure that is not `charged` does not count as one of the job's attempts. A `suspect` may
    have stopped its server and runs alone from now on.
    """

    not_before: float
    charged: bool = True
    suspect: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """The job has failed for good; `text` is one sentence or two for the person who asked."""

    text: str


def after_failure(
    job: Job,
    error: Exception,
    spec: ModelSpec,
    now: float,
    *,
    alone: bool = True,
    lost_in_a_row: int = 0,
) -> Retry | Fail:
    """Decide what becomes of a job in state processing whose attempt raised `error`.

    `alone` is False when other jobs ran on the server as it became unavailable: then none of them
    can be blamed, so none is charged, and each runs alone the next time. `lost_in_a_row` counts
    how often the model failed to load, or was unloaded by somebody else right after.
    """
    # 1. Not the job's doing: back to its place, and the attempt is given back.
    if isinstance(error, NotLoaded) and lost_in_a_row < spec.max_attempts:
        return Retry(not_before=now, charged=False, suspect=job.suspect)
    if isinstance(error, Unavailable) and not alone:
        return Retry(not_before=now, charged=False, suspect=True)
    # 2. A bug, a request the server will never take, or a model that never stays.
    if not _another_attempt_may_help(error):
        return Fail(text=_text(error))
    # 3. Another attempt may help, as long as one is left.
    if job.attempt >= spec.max_attempts:
        return Fail(text=given_up_text(error, job.attempt))
    return Retry(
        not_before=now + pause_s(job.attempt),
        suspect=job.suspect or isinstance(error, Unavailable),
    )


def _another_attempt_may_help(error: Exception) -> bool:
    if isinstance(error, BackendError):
        return error.retryable and not isinstance(error, NotLoaded)
    return isinstance(error, TimeoutError)


def pause_s(failures: int) -> float:
    """Return how long to wait after that many failures: 5, 10, 20 … 120 seconds."""
    return float(min(FIRST_PAUSE_S * 2 ** min(failures - 1, 16), LONGEST_PAUSE_S))


def given_up_text(error: Exception, attempts: int) -> str:
    """Return the sentence for a person whose job failed after that many attempts."""
    text = _text(error)
    return text if attempts <= 1 else f"{text} It was tried {attempts} times."


_TEXTS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, LATE_TEXT),
    (OutOfMemory, MEMORY_TEXT),
    (Unavailable, UNAVAILABLE_TEXT),
    (Interrupted, INTERRUPTED_TEXT),
    (NotLoaded, UNLOADED_TEXT),
    (BackendError, REFUSED_TEXT),
)


def _text(error: Exception) -> str:
    if isinstance(error, BackendError) and error.user_text:
        return error.user_text
    return next((text for kind, text in _TEXTS if isinstance(error, kind)), NEUTRAL_TEXT)
