"""Files in requests: data URLs, base64, bytes of a form, fetched addresses, and earlier files.

The one door for all of them, and for recordings: each is bounded, known by its bytes and stripped
of metadata.
"""

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus

from backends.common.file_types import is_sound, is_video, mime_of
from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, in_words, invalid, refused
from bot.api.calls.fetch_targets import NotFetched
from bot.api.calls.fetcher import Fetcher
from bot.api.calls.forms import NotData, data_of
from bot.api.calls.uploads import PREFIX, Uploads
from bot.core.queue import JobReader
from bot.core.refusals import Declined
from bot.requests import media
from bot.requests.images import IMAGE_MB, bare, checked, mask_of, require_weight
from bot.requests.limits import ban_of
from bot.requests.media import checked_sound
from queueing.core.concurrency import timeout_at
from queueing.core.ports import Clock
from queueing.core.requests import REFERENCES_MOST, File

BYTES_MOST = 64 * 1024 * 1024  # as much as a body may have
ADDRESSES_MOST = 16
WHOLE_S = 60.0


class Errands:
    """Fetches the addresses of one call."""

    def __init__(self, fetcher: Fetcher, *, whole_s: float = WHOLE_S) -> None:
        self._fetcher = fetcher
        self._bytes = BYTES_MOST
        self._addresses = ADDRESSES_MOST
        self._ends = asyncio.get_running_loop().time() + whole_s

    async def get(self, text: str) -> bytes:
        """Return the image at an address. Raises `NotFetched`."""
        if self._addresses == 0:
            raise NotFetched(f"a request must not contain more than {ADDRESSES_MOST} addresses")
        self._addresses -= 1
        most = min(IMAGE_MB * 1_000_000, self._bytes)
        try:
            async with timeout_at(self._ends):
                data = await self._fetcher.get(text, most)
        except TimeoutError:
            raise NotFetched("the images of this request took too long to fetch") from None
        self._bytes -= len(data)
        return data


_ENDINGS = {"audio/mpeg": "mp3", "audio/mp4": "m4a", "video/quicktime": "mov"}


def is_recorded(data: bytes) -> bool:
    """Return whether bytes look like a sound or a video."""
    mime = mime_of(data)
    return is_sound(mime) or is_video(mime)


def require_recording_weight(size: int, param: str) -> None:
    """Refuse a recording that is too large. Raises `ApiError`."""
    if size > media.SOUND_MB * 1_000_000:  # perhaps of more: the rest was not read
        raise invalid(f"{param}: I take files of up to {media.SOUND_MB} MB.", param)


async def kept_whole(data: bytes, param: str) -> File:
    """Return a sound or a video as it may be stored for later, without metadata. Raises `ApiError`."""
    require_recording_weight(len(data), param)
    mime = mime_of(data)
    bare_ = await bare(data)
    if not bare_:
        raise invalid(f"{param}: this is no recording that can be read here.", param)
    ending = _ENDINGS.get(mime) or mime.partition("/")[2].removeprefix("x-")
    return File(name=f"recording.{ending}", mime=mime, data=bare_)


async def recorded(data: bytes, param: str) -> File:
    """Return what is heard in a sound or a video, small and without metadata. Raises `ApiError`."""
    try:
        return await checked_sound("the file", data)
    except Declined as declined:
        raise invalid(f"{param}: {in_words(declined.refusal)}", param) from None


IMAGES_MOST = 64  # each may take a second to decode
LARGE = 500_000  # letters of base64 from which on it is worth a thread to decode them
NO_ADDRESS = "images must come as data URLs: this server does not fetch addresses"


class CallImages:
    """The images of one call: so many at most, and fetched only if there are `errands`."""

    def __init__(self, caller: Caller, errands: Errands | None) -> None:
        self.caller = caller
        self._errands = errands
        self._left = IMAGES_MOST

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
        """Return bytes as an image, checked and without metadata.

        Raises `ApiError`, which names the field.
        """
        if self._left == 0:
            message = f"{param}: a request must not contain more than {IMAGES_MOST} images."
            raise invalid(message, param)
        self._left -= 1
        try:
            require_weight(len(data))
            return await checked(data)
        except Declined as declined:
            raise invalid(in_words(declined.refusal), param) from None

    async def masked(self, image: File, mask: File, param: str) -> File:
        """Return a mask as models take it, of the image's size. Raises `ApiError`."""
        try:
            return await mask_of(image, mask)
        except Declined as declined:
            raise invalid(in_words(declined.refusal), param) from None

    async def recorded(self, data: bytes, param: str) -> File:
        """Return what is heard in a sound or a video, without metadata. Raises `ApiError`."""
        return await recorded(data, param)

    async def any_kind(self, data: bytes, param: str) -> File:
        """Return bytes as an image, a sound or a video, checked. Raises `ApiError`."""
        if not mime_of(data):
            message = f"{param}: this is no image (PNG, JPEG or WebP), no sound and no video."
            raise invalid(message, param)
        return await (kept_whole if is_recorded(data) else self.sent)(data, param)

    async def _fetched(self, text: str) -> bytes:
        if self._errands is None:
            raise NotFetched(NO_ADDRESS)
        return await self._errands.get(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestImages:
    """Takes the images of calls; with a `fetcher`, they may be addresses."""

    clock: Clock
    fetcher: Fetcher | None = None

    def of(self, caller: Caller) -> CallImages:
        """Return what takes the images of a new call. Raises `ApiError` for a banned person.

        Whatever else is refused is refused later; a ban must not cost a fetch or a decoder.
        """
        now = self.clock.now()
        if (ban := ban_of(caller.person, now)) is not None:
            raise refused(ban, now)
        return CallImages(caller, None if self.fetcher is None else Errands(self.fetcher))


def require_number(count: int, param: str) -> None:
    """Refuse more images than a model can change or start from. Raises `ApiError`."""
    if count > REFERENCES_MOST:
        text = f"a model takes at most {REFERENCES_MOST} images; you sent {count}"
        raise invalid(f"{param}: {text}.", param)


_RESULT = re.compile(r"job-(\d{1,18})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFiles:
    """Finds the files that a request names: `file-…`, `job-12/1`, a data URL or base64."""

    jobs: JobReader
    uploads: Uploads
    clock: Clock

    async def find(self, taken: CallImages, text: str, param: str) -> File:
        """Return an image, checked. Raises `ApiError`, a 404 if the caller has no such file."""
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.named(text, param)
        return await taken.sent(found.data, param)

    async def hear(self, taken: CallImages, text: str, param: str) -> File:
        """Return a recording, checked. Raises `ApiError`, a 404 if the caller has no such file."""
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.heard(text, param)
        return await taken.recorded(found.data, param)

    async def _kept(self, caller: Caller, text: str, param: str) -> File | None:
        """Return the file of that name, None for a text that is no name. Raises `ApiError`."""
        if text.startswith(PREFIX):
            found = await self.uploads.file(caller.user, text, self.clock.now())
        elif match := _RESULT.fullmatch(text):
            found = await self._result(caller, int(match[1]), int(match[2]))
        else:
            return None
        if found is None:
            raise no_file(text, param)
        return found

    async def _result(self, caller: Caller, job_id: int, number: int) -> File | None:
        job = await self.jobs.get(job_id)
        if job is None or job.owner != caller.user:
            return None
        output = await self.jobs.output(job)
        files = output.files if output is not None else ()
        return files[number - 1] if 1 <= number <= len(files) else None


def no_file(name: str, param: str | None = None) -> ApiError:
    """Return the error for a file that the caller does not have."""
    return ApiError(
        status=HTTPStatus.NOT_FOUND, message=f"You have no file {name[:60]}.", param=param
    )
