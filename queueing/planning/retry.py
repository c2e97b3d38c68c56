"""The fate of a job after a failed attempt; pure."""

from dataclasses import dataclass

from queueing.core.errors import (
    BackendError,
    Busy,
    KeyRefused,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    Problem,
    ProblemKind,
    ResultGone,
    ShortOfMemory,
    Unavailable,
    problem,
    problem_of,
)
from queueing.core.jobs import Job
from queueing.core.specs import ModelSpec

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 120.0
LOST_MOST = 20  # starts; a job that crashes the whole machine must be given up eventually
LOST_AT_ONCE = 10  # starts without a backoff after a restart
OVERSIZE_MOST = 2  # attempts for a job that needs more memory than there is
BUSY_MOST = 6  # starts: people learn within minutes that a server has no capacity
LONGEST_BUSY_S = 60.0  # longest single wait for a busy server
LOST = problem(ProblemKind.LOST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """The job returns to its place and may start again from `not_before` (UNIX seconds).

    A failure that is not `charged` does not count as an attempt. A `suspect` may have stopped its
    server and runs alone from then on.
    """

    not_before: float
    charged: bool = True
    suspect: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """The job has failed for good."""

    problem: Problem


def after_failure(
    job: Job,
    error: Exception,
    spec: ModelSpec,
    now: float,
    *,
    alone: bool = True,
    lost_in_a_row: int = 0,
    far: bool = False,
) -> Retry | Fail:
    """Decide the fate of a processing job whose attempt raised `error`.

    `alone` is False if other jobs ran on the server when it, or its model, crashed. Then none can
    be blamed: none is charged, and each runs alone the next time. `lost_in_a_row` counts how often
    the model failed to load, or was unloaded by another program right after. `far` means that the
    request is far above what its model is made for.
    """
    crashed = isinstance(error, Unavailable | ModelCrashed)
    # 1. Not the job's fault: it returns to its place, and the attempt is not charged.
    if isinstance(error, NotLoaded) and lost_in_a_row < spec.max_attempts:
        return Retry(not_before=now, charged=False, suspect=job.suspect)
    if isinstance(error, Busy | KeyRefused):
        return _after_busy(job, error, spec, now)
    if crashed and not alone:
        return Retry(not_before=now, charged=False, suspect=True)
    # 2. A bug, a request the server will never accept, or a model that is always unloaded.
    if not _another_attempt_may_help(error):
        return Fail(problem=problem_of(error))
    # 3. Another attempt may help, as long as one is left.
    oversize = far and isinstance(error, OutOfMemory | ShortOfMemory)
    most = OVERSIZE_MOST if oversize else spec.max_attempts
    if job.attempt >= min(most, spec.max_attempts):
        return Fail(problem=given_up(error, job.attempt))
    return Retry(
        not_before=now if isinstance(error, ResultGone) else now + pause_s(job.attempt),
        suspect=job.suspect or crashed,
    )


def _after_busy(job: Job, error: Busy | KeyRefused, spec: ModelSpec, now: float) -> Retry | Fail:
    """Retry on a busy server a few times, unless it is the only one and its delay is long.

    A server that refuses its key is held until the key works.
    """
    delay_s = (error.after_s or 0.0) if isinstance(error, Busy) else 0.0
    released = job.sendings - job.attempt
    useless = delay_s > LONGEST_BUSY_S and len(spec.backends) == 1
    if useless or released + 1 >= BUSY_MOST:
        return Fail(problem=problem_of(error))
    wait_s = min(max(pause_s(released + 1), delay_s), LONGEST_BUSY_S)
    return Retry(not_before=now + wait_s, charged=False, suspect=job.suspect)


def after_loss(job: Job, now: float) -> Retry | Fail:
    """Decide the fate of a processing job whose attempt ended with the bot's last run.

    A restart is not the job's fault, so it is not charged. After many restarts the job may be their
    cause. Growing pauses then let other jobs finish between its starts, and give the operator time
    to investigate before it is given up.
    """
    if job.sendings >= LOST_MOST:
        return Fail(problem=LOST)
    further = job.sendings - LOST_AT_ONCE
    pause = 0.0 if further < 0 else pause_s(further + 1)
    return Retry(not_before=now + pause, charged=False, suspect=job.suspect)


def _another_attempt_may_help(error: Exception) -> bool:
    if isinstance(error, BackendError):
        return error.retryable and not isinstance(error, NotLoaded)
    return isinstance(error, TimeoutError)


def pause_s(failures: int) -> float:
    """Return the backoff in seconds after that many failures: 5, 10, 20 … 120."""
    return float(min(FIRST_PAUSE_S * 2 ** min(failures - 1, 16), LONGEST_PAUSE_S))


def given_up(error: Exception, attempts: int) -> Problem:
    """Return why a job failed after that many attempts."""
    return problem_of(error).model_copy(update={"attempts": attempts})
