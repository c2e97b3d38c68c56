"""Parses servers' responses into records.

Unknown keys are ignored. A response without a required field counts as the server's failure,
whatever its status.
"""

from typing import TypeVar

from pydantic import ConfigDict, JsonValue, ValidationError

from backends.common.error_rules import words_of
from backends.common.http import Http
from backends.common.http_replies import (
    ERROR_LIMIT,
    WORDS_LIMIT,
    BadStatus,
    ErrorInAnswer,
    Redirected,
    require_values,
)
from queueing.core.bounded_json import BoundedRecord, parsed
from queueing.core.errors import KeyRefused, Unavailable, UnreadableAnswer

KEY_S = 5.0  # a server that hangs is found by other calls
BUSY = {408, 429, 502, 503, 504}  # statuses that reveal nothing about the kind of server
TOKEN = ("invalid_api_key", "api token is required", "invalid api key", "unauthorized")


class ServerReply(BoundedRecord):
    """Base class of server responses. Ignores unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Answer = TypeVar("Answer", bound=ServerReply)


def read(record: type[Answer], body: JsonValue) -> Answer:
    """Parse a response into a record.

    Raises `ErrorInAnswer` if it reports an error, and `UnreadableAnswer` if it is invalid.
    """
    if isinstance(body, dict) and body.get("error"):
        raise ErrorInAnswer(body)
    return validated(record, body)


async def ask(http: Http, path: str, record: type[Answer]) -> Answer | None:
    """GET a response as a record; None if the server has no such call.

    Checks the content, not only the status: LM Studio sends 200 with an error for any unknown path,
    and other servers send a web page. Raises `Unavailable` if there is no response, `HttpFailed` if
    the server is busy or redirects, and `KeyRefused` if it requires a token.
    """
    try:
        text, _ = await http.get_bytes(path, limit=WORDS_LIMIT)
    except BadStatus as error:
        _require_token(error.status, error.body)
        if error.status in BUSY or isinstance(error, Redirected):
            raise
        return None
    answer = await read_whole(record, text)
    if answer is None:
        _require_token(200, text[:ERROR_LIMIT].decode(errors="replace"))
    return answer


async def require_key(http: Http, path: str) -> None:
    """Raise `KeyRefused` if a server refuses work at a path because of its token.

    The `messages` of the request are not a list, so no server answers it or loads a model for it.
    Raises `Redirected` if it redirects this work elsewhere. Any other outcome says nothing about the
    token.
    """
    answer: JsonValue = None
    try:
        answer = await http.post_json(path, {"messages": 0}, timeout_s=KEY_S, limit=WORDS_LIMIT)
    except Redirected:
        raise
    except BadStatus as error:
        _require_token(error.status, error.body)
    except (Unavailable, UnreadableAnswer):
        return
    if isinstance(answer, dict) and answer.get("error"):
        _require_token(200, answer)


def _require_token(status: int, body: JsonValue) -> None:
    """Raise `KeyRefused` if the response says that the token is missing or wrong."""
    said = words_of(body).casefold()
    if status in {401, 403} or any(word in said for word in TOKEN):
        raise KeyRefused("the server refuses the token, or requires one (setting `token`)")


async def read_whole(record: type[Answer], text: bytes) -> Answer | None:
    """Parse a JSON response into a record; None if it does not match. Raises `Unavailable`."""
    require_values(text)
    try:
        return await parsed(record.model_validate_json, text)
    except ValidationError:
        return None


def validated(record: type[Answer], body: JsonValue) -> Answer:
    """Convert parsed JSON to a record. Raises `UnreadableAnswer` if it does not match."""
    try:
        return record.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise UnreadableAnswer(f"unexpected answer: {where}: {fault['msg']}") from None
