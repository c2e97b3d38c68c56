"""Errors of the HTTP API in OpenAI's format, with their statuses and headers.

The status decides what openai-python and openai-node do: they retry 408, 409, 429 and everything
from 500 on, without an idempotency key, unless the response has `x-should-retry: false`.
"""

from dataclasses import dataclass
from http import HTTPStatus
from math import ceil

from pydantic import JsonValue

RETRIES_END_S = 60.0
"""With a longer `Retry-After`, openai-node waits that long and openai-python gives up."""

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


@dataclass(kw_only=True, eq=False)  # not frozen: Python sets the traceback of an exception
class ApiError(Exception):
    """A refusal or failure as a client receives it; `message` is one sentence in English.

    `param` names the field at fault and `code` is a word for programs. A retry can succeed after
    `retry_after_s`; `repeat` is False if a retry would create a second job or change nothing. Each
    is made where it is raised: Python keeps in an error the frames of every time it was raised, with
    the bodies of the requests in them.
    """

    status: HTTPStatus
    message: str
    param: str | None = None
    code: str | None = None
    retry_after_s: float | None = None
    repeat: bool = True

    @property
    def body(self) -> dict[str, JsonValue]:
        """The error object, sent as the body of a response or the last event of a stream."""
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
        """The headers that tell SDKs whether, and when, to try again."""
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


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return a 400, which no SDK retries."""
    return ApiError(status=HTTPStatus.BAD_REQUEST, message=message, param=param, code=code)
