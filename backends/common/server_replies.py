"""Servers' answers as validated records.

Unknown keys are ignored; an answer that lacks a required field counts as the server's failure,
whatever its status.
"""

from typing import TypeVar

from pydantic import ConfigDict, JsonValue, ValidationError

from backends.common.error_rules import words_of
from backends.common.http import Http
from backends.common.http_replies import (
    ERROR_LIMIT,
    WORDS_LIMIT,
    ErrorInAnswer,
    HttpFailed,
    HttpRefused,
    require_values,
)
from queueing.core.bounded_json import BoundedRecord, parsed
from queueing.core.errors import Unavailable, UnreadableAnswer

BUSY = {408, 429, 502, 503, 504}  # reveals nothing about what kind of server it is
TOKEN = ("invalid_api_key", "api token is required", "invalid api key", "unauthorized")


class TokenRefused(Unavailable):
    """The server refuses this call without another token; jobs wait until an admin fixes it."""


class ServerReply(BoundedRecord):
    """Base of server answers: they may add unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Answer = TypeVar("Answer", bound=ServerReply)


def read(record: type[Answer], body: JsonValue) -> Answer:
    """Return an answer as a record.

    Raises `ErrorInAnswer` if it holds an error, `UnreadableAnswer` if it is neither.
    """
    if isinstance(body, dict) and body.get("error"):
        raise ErrorInAnswer(body)
    return validated(record, body)


async def ask(http: Http, path: str, record: type[Answer]) -> Answer | None:
    """Return a GET's answer as a record, or None if the server has no such call.

    Statuses are no guide: LM Studio answers 200 with an error to any path, others with a web page.
    Raises `Unavailable` when there is none, `HttpFailed` when it is busy, `TokenRefused` when a
    token is required.
    """
    try:
        text, _ = await http.get_bytes(path, limit=WORDS_LIMIT)
    except (HttpRefused, HttpFailed) as error:
        _require_token(error.status, error.body)
        if error.status in BUSY:
            raise
        return None
    answer = await read_whole(record, text)
    if answer is None:
        _require_token(200, text[:ERROR_LIMIT].decode(errors="replace"))
    return answer


def _require_token(status: int, body: JsonValue) -> None:
    """Raise `TokenRefused` if a server refuses because the right token is missing."""
    said = words_of(body).casefold()
    if status in {401, 403} or any(word in said for word in TOKEN):
        raise TokenRefused("the server refuses the token, or wants one (setting `token`)")


async def read_whole(record: type[Answer], text: bytes) -> Answer | None:
    """Return the JSON of an answer as a record, None if it is none. Raises `Unavailable`."""
    require_values(text)
    try:
        return await parsed(record.model_validate_json, text)
    except ValidationError:
        return None


def validated(record: type[Answer], body: JsonValue) -> Answer:
    """Return an answer as a record. Raises `UnreadableAnswer` if it is none."""
    try:
        return record.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise UnreadableAnswer(f"unexpected answer: {where}: {fault['msg']}") from None
