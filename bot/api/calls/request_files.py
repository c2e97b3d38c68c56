"""Files in requests: data URLs, base64, bytes of a form and fetched addresses become pictures.

The one door for all of them, and for recordings: each is bounded, known by its bytes and stripped of
metadata.
"""

import asyncio
from dataclasses import dataclass

from backends.common.file_types import mime_of
from bot.api.calls.callers import Caller
from bot.api.calls.data_urls import NotData, data_of
from bot.api.calls.errands import Errands
from bot.api.calls.errors import invalid
from bot.api.calls.fetch_targets import NotFetched
from bot.api.calls.fetcher import Fetcher
from bot.api.calls.outcomes import in_words, refused
from bot.api.calls.recordings import is_recorded, kept_whole, recorded
from bot.core.refusals import Declined
from bot.requests.images import checked, require_weight
from bot.requests.limits import ban_of
from bot.requests.masks import mask_of
from queueing.core.ports import Clock
from queueing.core.requests import REFERENCES_MOST, File

PICTURES_MOST = 64  # each may take a second to decode
LARGE = 500_000  # letters of base64 from which on it is worth a thread to decode them
NO_ADDRESS = "pictures must come as data URLs: this server does not fetch addresses"


class CallPictures:
    """The pictures of one call: so many at most, and fetched only if there are `errands`."""

    def __init__(self, caller: Caller, errands: Errands | None) -> None:
        self.caller = caller
        self._errands = errands
        self._left = PICTURES_MOST

    async def named(self, text: str, param: str) -> File:
        """Return a data URL, base64 or the file at an address, checked and without metadata.

        Raises `ApiError`, which names the field.
        """
        return await self.sent(await self._data(text, param), param)

    async def heard(self, text: str, param: str) -> File:
        """Return a data URL, base64 or the file at an address as a recording, as `recorded` does."""
        return await self.recorded(await self._data(text, param), param)

    async def _data(self, text: str, param: str) -> bytes:
        try:
            if "://" in text[:20]:
                return await self._fetched(text)
            # Megabytes take a while to decode.
            return await asyncio.to_thread(data_of, text) if len(text) > LARGE else data_of(text)
        except (NotData, NotFetched) as error:
            raise invalid(f"{param}: {error}.", param) from None

    async def sent(self, data: bytes, param: str) -> File:
        """Return bytes as a picture, checked and without metadata.

        Raises `ApiError`, which names the field.
        """
        if self._left == 0:
            message = f"{param}: a request must not contain more than {PICTURES_MOST} pictures."
            raise invalid(message, param)
        self._left -= 1
        try:
            require_weight(len(data))
            return await checked(data)
        except Declined as declined:
            raise invalid(in_words(declined.refusal), param) from None

    async def masked(self, picture: File, mask: File, param: str) -> File:
        """Return a mask as models take it, of the picture's size. Raises `ApiError`."""
        try:
            return await mask_of(picture, mask)
        except Declined as declined:
            raise invalid(in_words(declined.refusal), param) from None

    async def recorded(self, data: bytes, param: str) -> File:
        """Return what is heard in a sound or a film, without metadata. Raises `ApiError`."""
        return await recorded(data, param)

    async def any_kind(self, data: bytes, param: str) -> File:
        """Return bytes as a picture, a sound or a film, checked. Raises `ApiError`."""
        if not mime_of(data):
            message = f"{param}: this is no picture (PNG, JPEG or WebP), no sound and no film."
            raise invalid(message, param)
        return await (kept_whole if is_recorded(data) else self.sent)(data, param)

    async def _fetched(self, text: str) -> bytes:
        if self._errands is None:
            raise NotFetched(NO_ADDRESS)
        return await self._errands.get(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPictures:
    """Takes the pictures of calls; with a `fetcher`, they may be addresses."""

    clock: Clock
    fetcher: Fetcher | None = None

    def of(self, caller: Caller) -> CallPictures:
        """Return what takes the pictures of a new call. Raises `ApiError` for a banned person.

        Whatever else is refused is refused later; a ban must not cost a fetch or a decoder.
        """
        now = self.clock.now()
        if (ban := ban_of(caller.person, now)) is not None:
            raise refused(ban, (), now)
        return CallPictures(caller, None if self.fetcher is None else Errands(self.fetcher))


def require_number(count: int, param: str) -> None:
    """Refuse more pictures than a model can change or start from. Raises `ApiError`."""
    if count > REFERENCES_MOST:
        text = f"a model takes at most {REFERENCES_MOST} pictures; you sent {count}"
        raise invalid(f"{param}: {text}.", param)
