"""Errors of the API in OpenAI's format, and the mapping from failed jobs to errors.

openai-python and openai-node decide by the status. They retry 408, 409, 429 and everything from 500
up, without an idempotency key, unless the response has `x-should-retry: false`. Messages are the
English sentences shown in chats.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil

from pydantic import JsonValue

from bot.core.refusals import Refusal
from bot.texts import reasons
from bot.texts.catalogue import is_far, plain, word
from bot.texts.refusals import sentence, told
from queueing.core.errors import Problem, ProblemKind
from queueing.core.jobs import Job, JobState
from queueing.core.snapshot import Reason

RETRIES_END_S = 60.0
"""With a longer `Retry-After`, openai-node waits that long and openai-python gives up."""

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


@dataclass(kw_only=True, eq=False)  # not frozen, because Python sets an exception's traceback
class ApiError(Exception):
    """An error response. `message` is one English sentence.

    `param` names the invalid field, and `code` is for programs. A retry can succeed after
    `retry_after_s`. `repeat` is False if a retry would create a second job or fail again. Create a
    new instance each time it is raised, because an exception keeps the frames that it passed
    through, and these hold request bodies.
    """

    status: HTTPStatus
    message: str
    param: str | None = None
    code: str | None = None
    retry_after_s: float | None = None
    repeat: bool = True

    @property
    def body(self) -> dict[str, JsonValue]:
        """The error object: a response body, or the last event of a stream."""
        return {
            "error": {
                "message": self.message,
                "type": error_type(self.status),
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which SDKs decide whether and when to retry."""
        headers: dict[str, str] = {}
        late = self.retry_after_s is not None and self.retry_after_s > RETRIES_END_S
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, ceil(self.retry_after_s)))
        if late or not self.repeat:
            headers["x-should-retry"] = "false"
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def error_type(status: HTTPStatus) -> str:
    """Return OpenAI's error type for a status."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "server_error"
    return _TYPES.get(status, "invalid_request_error")


def invalid(message: str, param: str | None = None) -> ApiError:
    """Build a 400, which SDKs never retry."""
    return ApiError(status=HTTPStatus.BAD_REQUEST, message=message, param=param)


def reason_sentence(reason: Reason) -> str:
    """Return a reason as one sentence without a final period, with times in UTC."""
    return reasons.sentence(reason, LANGUAGE, _clock)


def _clock(at: float) -> str:
    form = "%Y-%m-%d %H:%M:%S UTC" if is_far(at, time.time()) else "%H:%M:%S UTC"
    return datetime.fromtimestamp(at, UTC).strftime(form)


LANGUAGE = "en"
_CLIENTS = frozenset(
    {
        ProblemKind.TOO_LONG,
        ProblemKind.TOO_LARGE,
        ProblemKind.BLIND,
        ProblemKind.MANY_IMAGES,
        ProblemKind.REFUSED,
        ProblemKind.FILTERED,
        ProblemKind.SETTING,
        ProblemKind.UNKNOWN_FIELD,
        ProblemKind.NO_SUFFIX,
        ProblemKind.NO_COMPLETIONS,
        ProblemKind.TEXT_PROMPTS,
        ProblemKind.NO_ECHO,
        ProblemKind.NO_LORA,
        ProblemKind.OTHER_LORAS,
        ProblemKind.AMBIGUOUS_LORA,
        ProblemKind.OTHER_CHOICES,
        ProblemKind.NOT_TAKEN,
        ProblemKind.TAKES_NO,
        ProblemKind.ONE_AT_A_TIME,
        ProblemKind.NO_START,
        ProblemKind.NEEDS_START,
        ProblemKind.NEEDS,
        ProblemKind.NO_PLACE,
        ProblemKind.FEWER_IMAGES,
        ProblemKind.ONE_LORA,
        ProblemKind.BAD_IMAGE,
        ProblemKind.BAD_START,
        ProblemKind.HUGE_IMAGE,
        ProblemKind.NOTHING_TO_ENLARGE,
        ProblemKind.NO_DIMENSIONS,
        ProblemKind.NO_TOKENS,
        ProblemKind.NO_IMAGE_EMBEDDINGS,
        ProblemKind.NO_SPEECH,
        ProblemKind.NO_HEARING,
        ProblemKind.NO_TRANSLATION,
        ProblemKind.NO_VOICE,
        ProblemKind.OTHER_VOICES,
        ProblemKind.NOTHING_SAID,
        ProblemKind.BAD_SOUND,
        ProblemKind.LONG_SOUND,
        ProblemKind.NO_EMBEDDINGS,
        ProblemKind.DRAWS_ONLY,
        ProblemKind.UNWANTED,
        ProblemKind.NOT_HEARD_HERE,
    }
)
"""Problems caused by the request itself: a retry cannot help."""
_OF_SERVERS: Mapping[ProblemKind, HTTPStatus] = {
    ProblemKind.BUSY: HTTPStatus.TOO_MANY_REQUESTS,
    ProblemKind.AWAY: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.MEMORY: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.NO_ROOM: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.STOPPED: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.UNLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.LOST: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.STORE: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.GONE: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemKind.UNREADABLE: HTTPStatus.BAD_GATEWAY,
    ProblemKind.CRASHED: HTTPStatus.BAD_GATEWAY,
    ProblemKind.FAILED: HTTPStatus.BAD_GATEWAY,
    ProblemKind.LATE: HTTPStatus.GATEWAY_TIMEOUT,
    ProblemKind.WAITED: HTTPStatus.GATEWAY_TIMEOUT,
}
"""Server problems that a later request may not have. All others become 500."""

TOO_LONG = (
    "This model's maximum context length is smaller than this request. Please shorten it or start"
    " a new conversation."
)
"""Programs recognise requests that are too long by the first words, which are OpenAI's."""
REFUSED_FIELD = "The server of this model doesn't accept a field of this request."
"""A program sets the fields itself; people meet the operator's setting."""
_OWN_TEXTS = {ProblemKind.TOO_LONG: TOO_LONG, ProblemKind.SETTING: REFUSED_FIELD}
BUSY_S = 30.0
"""Retry delay for a busy server that does not announce one."""
RESTART_S = 10.0
"""How long a restart takes. SDKs retry after this time."""


def problem_of(job: Job) -> ApiError:
    """Return the error for a job that ended without a result."""
    if job.state is JobState.CANCELLED:
        return ApiError(
            status=HTTPStatus.CONFLICT,
            message="The job was cancelled.",
            code="cancelled",
            repeat=False,
        )
    problem = Problem.read(job.error) if job.error else None
    if problem is None:
        return ApiError(
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
            message=word(LANGUAGE, "failed.unknown"),
            repeat=False,
        )
    return ApiError(
        status=_status(problem.what),
        message=_for_programs(problem),
        code="context_length_exceeded"
        if problem.what is ProblemKind.TOO_LONG
        else str(problem.what),
        retry_after_s=_after_s(problem),
        repeat=False,  # the queue has already retried enough
    )


def _status(what: ProblemKind) -> HTTPStatus:
    if what in _CLIENTS:
        return HTTPStatus.BAD_REQUEST
    return _OF_SERVERS.get(what, HTTPStatus.INTERNAL_SERVER_ERROR)


def _after_s(problem: Problem) -> float | None:
    """Return the retry delay of a busy server, or None for other problems."""
    return (
        float(problem.values.get("seconds", BUSY_S)) if problem.what is ProblemKind.BUSY else None
    )


def _for_programs(problem: Problem) -> str:
    """Return the sentence shown in chats, followed by the server's own message."""
    text = _OWN_TEXTS.get(problem.what) or told(problem, LANGUAGE)
    return f"{text} Its server said: “{problem.said}”." if problem.said else text


def cancelled_before(job: Job) -> ApiError:
    """Return the error for a call whose `Idempotency-Key` belongs to a cancelled job."""
    return ApiError(
        status=HTTPStatus.CONFLICT,
        message=f"This Idempotency-Key belongs to job {job.id}, which was cancelled: by a person, or"
        " because the connection of its call was closed. Send the request with a new key.",
        code="cancelled",
        repeat=False,
    )


def too_late(job: Job, reason: Reason | None = None) -> ApiError:
    """Return the error for a call that has reached its time limit. Its job continues.

    `reason` is why the job still waits, if it does.
    """
    state = "waiting or running" if reason is None else f"waiting ({reason_sentence(reason)})"
    return ApiError(
        status=HTTPStatus.GATEWAY_TIMEOUT,
        message=f"The job is still {state}. Its result will be at /v1/jobs/{job.id}.",
        code="timeout",
        repeat=False,
    )


def cannot_start(reason: Reason) -> ApiError:
    """Return the error for a call whose job was cancelled because nothing could start it."""
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message=f"This request cannot start at present: {reason_sentence(reason)}.",
        code="cannot_start",
        repeat=False,
    )


def stopping(job: Job) -> ApiError:
    """Return the error for a call that is interrupted because Usher, or its queue here, stops.

    The job is kept and continues after the restart, or on the process that takes over the queue.
    """
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Usher is restarting, or another machine is taking over its queue."
        f" The job is kept. Its result will be at /v1/jobs/{job.id}.",
        code="stopping",
        retry_after_s=RESTART_S,
    )


def gone(job: Job) -> ApiError:
    """Return the error for a job whose result is no longer kept."""
    return ApiError(
        status=HTTPStatus.GONE,
        message=f"The result of job {job.id} is no longer kept.",
        repeat=False,
    )


def no_sound(text: str = "The server finished without producing audio.") -> ApiError:
    """Return the error for a job that ended without the requested audio."""
    return ApiError(
        status=HTTPStatus.INTERNAL_SERVER_ERROR, message=text, code="no_sound", repeat=False
    )


def other_sound(made: str, asked: str) -> ApiError:
    """Return the error for audio in another format that could not be converted."""
    return no_sound(
        f"The server produced {made}, which could not be converted to {asked}: that requires"
        f" usher-bot[media], which the operator can install. Request {made} instead."
    )


def refused(refusal: Refusal, now: float) -> ApiError:
    """Return the error for a rejected request."""
    api, moment = refusal.kind.value.api, refusal.moment
    after_s = None if api.again_s is None or moment is None else max(api.again_s, moment - now)
    return ApiError(
        status=api.status,
        message=in_words(refusal),
        param=api.param,
        code=api.code,
        retry_after_s=after_s,
        repeat=api.again_s is not None,
    )


def in_words(refusal: Refusal) -> str:
    """Return the English sentence that chats show."""
    return plain(sentence(refusal, LANGUAGE))


def lost() -> ApiError:
    """Return the error for a connection to the server that broke while it was answering."""
    return ApiError(
        status=HTTPStatus.BAD_GATEWAY,
        message="The connection to the model's server was lost in the middle of the answer.",
        code="server_lost",
    )
