"""Files in requests: data URLs, base64, form files, fetched URLs, and earlier files.

All images and recordings of requests pass through here. Each is limited in size, identified by its
content and stripped of metadata.
"""

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus

from backends.common.file_types import is_sound, is_video, mime_of
from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, in_words, invalid, refused
from bot.api.calls.fetcher import Fetcher, NotFetched
from bot.api.calls.forms import NotData, data_of
from bot.api.calls.uploads import PREFIX, Uploads
from bot.core.queue import JobReader
from bot.core.refusals import Declined
from bot.requests.files import media
from bot.requests.files.images import IMAGE_MB, bare, checked, mask_of, require_weight
from bot.requests.files.media import checked_sound
from bot.requests.limits import ban_of
from queueing.core.concurrency import timeout_at
from queueing.core.ports import Clock
from queueing.core.requests import REFERENCES_MOST, File

BYTES_MOST = 64 * 1024 * 1024  # the limit of a request body
ADDRESSES_MOST = 16
WHOLE_S = 60.0


class CallFetcher:
    """Fetches the URLs of one call, within limits on all of them together."""

    def __init__(self, fetcher: Fetcher, *, whole_s: float = WHOLE_S) -> None:
        self._fetcher = fetcher
        self._bytes = BYTES_MOST
        self._addresses = ADDRESSES_MOST
        self._ends = asyncio.get_running_loop().time() + whole_s

    async def get(self, text: str) -> bytes:
        """Fetch the image at a URL. Raises `NotFetched`."""
        if self._addresses == 0:
            raise NotFetched(f"a request must not contain more than {ADDRESSES_MOST} URLs to fetch")
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
    """Return whether the data looks like audio or video."""
    mime = mime_of(data)
    return is_sound(mime) or is_video(mime)


def require_recording_weight(size: int, param: str) -> None:
    """Reject a recording that is too large. Raises `ApiError`."""
    if size > media.SOUND_MB * 1_000_000:  # the full size is unknown: reading stopped here
        raise invalid(f"{param}: must not be larger than {media.SOUND_MB} MB.", param)


async def kept_whole(data: bytes, param: str) -> File:
    """Prepare audio or video for storage, without its metadata. Raises `ApiError`."""
    require_recording_weight(len(data), param)
    mime = mime_of(data)
    bare_ = await bare(data)
    if not bare_:
        raise invalid(f"{param}: this recording cannot be read.", param)
    ending = _ENDINGS.get(mime) or mime.partition("/")[2].removeprefix("x-")
    return File(name=f"recording.{ending}", mime=mime, data=bare_)


async def recorded(data: bytes, param: str) -> File:
    """Extract the audio of a recording in compact form, without metadata. Raises `ApiError`."""
    try:
        return await checked_sound("the file", data)
    except Declined as declined:
        raise invalid(f"{param}: {in_words(declined.refusal)}", param) from None


IMAGES_MOST = 64  # decoding each may take a second
LARGE = 500_000  # base64 characters above which a thread decodes
NO_ADDRESS = "send images as data URLs: this server does not fetch other URLs"


class CallImages:
    """Loads the images of one call, up to `IMAGES_MOST`. Fetches URLs only if `fetcher` is set."""

    def __init__(self, caller: Caller, fetcher: CallFetcher | None) -> None:
        self.caller = caller
        self._fetcher = fetcher
        self._left = IMAGES_MOST

    async def named(self, text: str, param: str) -> File:
        """Load an image from a data URL, base64 or a URL. Checks it and removes its metadata.

        Raises `ApiError`, which names the field.
        """
        return await self.sent(await self._data(text, param), param)

    async def heard(self, text: str, param: str) -> File:
        """Load a recording from a data URL, base64 or a URL, as `recorded` does."""
        return await self.recorded(await self._data(text, param), param)

    async def _data(self, text: str, param: str) -> bytes:
        try:
            if "://" in text[:20]:
                return await self._fetched(text)
            # Decoding megabytes takes a while.
            return await asyncio.to_thread(data_of, text) if len(text) > LARGE else data_of(text)
        except (NotData, NotFetched) as error:
            raise invalid(f"{param}: {error}.", param) from None

    async def sent(self, data: bytes, param: str) -> File:
        """Check an image and remove its metadata.

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
        """Convert a mask to the image's size, in the form that models expect. Raises `ApiError`."""
        try:
            return await mask_of(image, mask)
        except Declined as declined:
            raise invalid(in_words(declined.refusal), param) from None

    async def recorded(self, data: bytes, param: str) -> File:
        """Extract the audio of a recording, without metadata. Raises `ApiError`."""
        return await recorded(data, param)

    async def any_kind(self, data: bytes, param: str) -> File:
        """Check an image, audio or video file. Raises `ApiError`."""
        if not mime_of(data):
            message = f"{param}: must be an image (PNG, JPEG, WebP, AVIF, GIF, BMP or TIFF), audio or video."
            raise invalid(message, param)
        return await (kept_whole if is_recorded(data) else self.sent)(data, param)

    async def _fetched(self, text: str) -> bytes:
        if self._fetcher is None:
            raise NotFetched(NO_ADDRESS)
        return await self._fetcher.get(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestImages:
    """Loads the images of calls. URLs are only fetched with a `fetcher`."""

    clock: Clock
    fetcher: Fetcher | None = None

    def of(self, caller: Caller) -> CallImages:
        """Return the loader for a new call. Raises `ApiError` for a banned person.

        Limits are checked later, but a banned person must not cause fetches or decoding.
        """
        now = self.clock.now()
        if (ban := ban_of(caller.person, now)) is not None:
            raise refused(ban, now)
        return CallImages(caller, None if self.fetcher is None else CallFetcher(self.fetcher))


def require_number(count: int, param: str) -> None:
    """Reject more images than a model can use. Raises `ApiError`."""
    if count > REFERENCES_MOST:
        text = f"a model takes at most {REFERENCES_MOST} images; you sent {count}"
        raise invalid(f"{param}: {text}.", param)


_RESULT = re.compile(r"job-(\d{1,18})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFiles:
    """Loads files that a request refers to: `file-…`, `job-12/1`, a data URL or base64."""

    jobs: JobReader
    uploads: Uploads
    clock: Clock

    async def find(self, taken: CallImages, text: str, param: str) -> File:
        """Load an image and check it.

        Raises `ApiError`, with 404 if the caller has no such file.
        """
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.named(text, param)
        return await taken.sent(found.data, param)

    async def hear(self, taken: CallImages, text: str, param: str) -> File:
        """Load a recording and check it.

        Raises `ApiError`, with 404 if the caller has no such file.
        """
        found = await self._kept(taken.caller, text, param)
        if found is None:
            return await taken.heard(text, param)
        return await taken.recorded(found.data, param)

    async def _kept(self, caller: Caller, text: str, param: str) -> File | None:
        """Return the stored file with this name, or None if the text is not a file name.

        Raises `ApiError` if the caller has no such file.
        """
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
