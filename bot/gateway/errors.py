"""Errors of the HTTP API: what a client is sent, in OpenAI's shape, and with which status.

The status decides what SDKs do: they repeat 408, 409, 429 and everything from 500 on by themselves,
without any key, unless `x-should-retry: false` stands beside it (openai-python, openai-node).
"""

from dataclasses import dataclass
from http import HTTPStatus

from pydantic import JsonValue

RETRIES_END_S = 60.0
"""A longer `Retry-After` makes openai-node wait as long and openai-python give up."""

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


@dataclass(kw_only=True, eq=False)  # not frozen: Python sets the traceback of an exception
class ApiError(Exception):
    """A refusal or failure as a client reads it; `message` is one sentence in English.

    `param` names the field at fault and `code` is a word for programs. `retry_after_s` is when a
    repeat can succeed; `repeat` is False where a repeat would make a second job or change nothing.
    """

    status: HTTPStatus
    message: str
    param: str | None = None
    code: str | None = None
    retry_after_s: float | None = None
    repeat: bool = True

    @property
    def body(self) -> dict[str, JsonValue]:
        """The error object, which is the body of an answer or the last event of a stream."""
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
            headers["Retry-After"] = str(max(1, round(self.retry_after_s)))
        if late or not self.repeat:
            headers["x-should-retry"] = "false"
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def error_type(status: HTTPStatus) -> str:
    """Return OpenAI's word for an error of that status."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "server_error"
    return _TYPES.get(status, "invalid_request_error")


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return a 400, which no SDK repeats."""
    return ApiError(status=HTTPStatus.BAD_REQUEST, message=message, param=param, code=code)
