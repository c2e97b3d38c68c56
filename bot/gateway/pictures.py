"""Pictures in requests: data URLs and base64 become checked files; addresses are never fetched."""

from bot.gateway.errors import invalid
from bot.gateway.openai.data_urls import NotData, data_of
from bot.gateway.outcomes import in_words
from bot.requests.images import checked, require_weight
from bot.requests.refusals import Declined
from queueing.core.requests import File

START_PICTURES = 1
NO_ADDRESS = "pictures must come as data URLs: this server does not fetch addresses"


async def picture_of(text: str, param: str) -> File:
    """Return a picture of a request, checked and stripped of metadata.

    Raises `ApiError`, which names the field.
    """
    if "://" in text[:20]:
        raise invalid(f"{param}: {NO_ADDRESS}.", param)
    try:
        data = data_of(text)
    except NotData as error:
        raise invalid(f"{param}: {error}.", param) from None
    return await picture_in(data, param)


async def picture_in(data: bytes, param: str) -> File:
    """Return bytes of a request as a picture, checked and stripped of metadata.

    Raises `ApiError`, which names the field.
    """
    try:
        require_weight(len(data))
        return await checked(data)
    except Declined as declined:
        raise invalid(in_words(declined.refusal), param) from None


def require_number(count: int, param: str) -> None:
    """Refuse more pictures than a model that draws can start from. Raises `ApiError`."""
    if count > START_PICTURES:
        raise invalid(f"{param}: models here start from one picture; you sent {count}.", param)
