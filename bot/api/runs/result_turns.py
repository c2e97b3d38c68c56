"""Bounds how many results a person's calls hold in memory until they have been read.

A call takes its turn before it reads a result, and keeps it until its response has been sent. What
is never read is ended by the `Listener`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from http import HTTPStatus

from aiohttp import web

from bot.api.calls.errors import ApiError
from bot.http.files import DownloadSlots
from queueing.core.jobs import Job
from queueing.core.requests import Chat

_HELD: ContextVar[AsyncExitStack | None] = ContextVar("held", default=None)


@asynccontextmanager
async def until_sent() -> AsyncIterator[None]:
    """Hold what this call takes with `take_turn` until its response has been sent."""
    async with AsyncExitStack() as held:
        token = _HELD.set(held)
        try:
            yield
        finally:
            _HELD.reset(token)


async def take_turn(turns: DownloadSlots, job: Job) -> None:
    """Wait until one more result of a person may be in memory. Raises `ApiError`, a 429.

    Answers of text are small, and need no turn.
    """
    held = _HELD.get()
    if held is None or isinstance(job.request, Chat):
        return
    try:
        await held.enter_async_context(turns.of(job.owner))
    except web.HTTPTooManyRequests:
        raise unread() from None


def unread() -> ApiError:
    """Return the refusal of one more result for a person who reads none of those being sent."""
    return ApiError(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        message="Too many of your results are being sent and are not read.",
        code="unread",
        retry_after_s=10.0,
    )
