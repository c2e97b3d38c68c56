"""Calls text servers' control endpoints and reads their answers into validated records.

Unknown keys are ignored; an answer that lacks a required field counts as the server's failure,
whatever its status. Each flavour defines its own records; `Listed` is what all have.
"""

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_answers import ERROR_LIMIT, WORDS_LIMIT, HttpFailed, HttpRefused
from backends.common.recognition import TokenRefused
from backends.common.replies import Answer, ServerReply, read_whole, validated
from backends.openai.errors import classify, wants_token

MB = 1024 * 1024
BUSY = {408, 429, 502, 503, 504}  # reveals nothing about what kind of server it is


class Listed(ServerReply):
    """An entry of /v1/models, with llama.cpp's additions."""

    class Status(ServerReply):
        """llama.cpp's router and llama-swap: unloaded, loading, loaded, sleeping."""

        value: str = ""
        failed: bool = False
        exit_code: int | None = None

    class Architecture(ServerReply):
        """llama.cpp's router: accepted input."""

        input_modalities: tuple[str, ...] = ()

    class Meta(ServerReply):
        """llama.cpp: `size` of the weights in bytes, `n_ctx` the context of each slot."""

        size: int | None = None
        n_ctx: int | None = None

    id: str
    aliases: tuple[str, ...] | None = None
    owned_by: str | None = None
    status: Status | None = None
    architecture: Architecture | None = None
    meta: Meta = Meta()
    max_model_len: int | None = None  # vLLM's context


class Listing(ServerReply):
    """GET /v1/models."""

    data: tuple[Listed, ...]


def read(record: type[Answer], body: JsonValue) -> Answer:
    """Return an answer as a record.

    Raises the error that the answer contains, or `UnreadableAnswer` if it is neither.
    """
    if isinstance(body, dict) and body.get("error"):
        raise classify(200, body)
    return validated(record, body)


async def ask(http: Http, path: str, record: type[Answer]) -> Answer | None:
    """Return a GET's answer as a record, or None if the server has no such call.

    Statuses are no guide: LM Studio answers 200 with an error to any path, others with a web page.
    Raises `Unavailable` when there is none, `HttpFailed` when it is busy, `TokenRefused` when a token is required.
    """
    try:
        text, _ = await http.get_bytes(path, limit=WORDS_LIMIT)
    except (HttpRefused, HttpFailed) as error:
        _refuse_other(error.status, error.body)
        if error.status in BUSY:
            raise
        return None
    answer = await read_whole(record, text)
    if answer is None:
        _refuse_other(200, text[:ERROR_LIMIT].decode(errors="replace"))
    return answer


def _refuse_other(status: int, body: JsonValue) -> None:
    if wants_token(status, body):
        raise TokenRefused("the server refuses the token, or wants one (setting `token`)")


async def listing(http: Http) -> tuple[Listed, ...]:
    """Return GET /v1/models, which every server has."""
    return read(Listing, await http.get_json("/v1/models")).data


async def post_settled(http: Http, path: str, body: JsonValue, settled: str) -> None:
    """POST and ignore the answer; a refusal that contains `settled` means that it is already so."""
    try:
        async with http.stream_lines(path, body, read_s=60.0):  # llama-swap does not answer JSON
            pass
    except HttpRefused as error:
        if settled not in error.body:
            raise


def in_mb(size: int | None) -> int | None:
    """Return a size in bytes as MB, None if it is unknown."""
    return None if size is None else round(size / MB)
