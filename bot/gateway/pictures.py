"""Pictures in requests: data URLs, base64, bytes of a form and fetched addresses become files.

The one door for all of them: each is bounded, known by its bytes and stripped of metadata.
"""

from contextvars import ContextVar

from aiohttp import web

from bot.gateway.callers import Caller
from bot.gateway.errors import invalid
from bot.gateway.fetching.errands import Errands
from bot.gateway.fetching.fetcher import Fetcher
from bot.gateway.fetching.targets import NotFetched
from bot.gateway.openai.data_urls import NotData, data_of
from bot.gateway.outcomes import in_words
from bot.gateway.server import Route
from bot.requests.images import checked, require_weight
from bot.requests.refusals import Declined
from queueing.core.requests import File

START_PICTURES = 1
PICTURES_MOST = 64  # each may take a second to decode
NO_ADDRESS = "pictures must come as data URLs: this server does not fetch addresses"


class _CallPictures:
    """How many pictures the call that is being answered may still have, and where they are fetched."""

    def __init__(self, fetcher: Fetcher | None) -> None:
        self.left = PICTURES_MOST
        self.errands = None if fetcher is None else Errands(fetcher)


_call: ContextVar[_CallPictures | None] = ContextVar("pictures of the call", default=None)


def taking_pictures(route: Route, fetcher: Fetcher | None) -> Route:
    """Return a route that bounds the pictures of each call; with a `fetcher`, they may be addresses."""

    async def called(request: web.Request, caller: Caller) -> web.StreamResponse:
        _call.set(_CallPictures(fetcher))
        return await route(request, caller)

    return called


async def picture_of(text: str, param: str) -> File:
    """Return a picture of a request, checked and stripped of metadata.

    Raises `ApiError`, which names the field.
    """
    try:
        data = await _fetched(text) if "://" in text[:20] else data_of(text)
    except (NotData, NotFetched) as error:
        raise invalid(f"{param}: {error}.", param) from None
    return await picture_in(data, param)


async def picture_in(data: bytes, param: str) -> File:
    """Return bytes of a request as a picture, checked and stripped of metadata.

    Raises `ApiError`, which names the field.
    """
    if (call := _call.get()) is not None:
        if call.left == 0:
            message = f"{param}: a request must not contain more than {PICTURES_MOST} pictures."
            raise invalid(message, param)
        call.left -= 1
    try:
        require_weight(len(data))
        return await checked(data)
    except Declined as declined:
        raise invalid(in_words(declined.refusal), param) from None


def require_number(count: int, param: str) -> None:
    """Refuse more pictures than a model that draws can start from. Raises `ApiError`."""
    if count > START_PICTURES:
        raise invalid(f"{param}: models here start from one picture; you sent {count}.", param)


async def _fetched(text: str) -> bytes:
    call = _call.get()
    if call is None or call.errands is None:
        raise NotFetched(NO_ADDRESS)
    return await call.errands.get(text)
