"""`/v1/files`: uploaded files for later jobs. `/v1/originals/…`: result files by signed link."""

import asyncio
import logging
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from aiohttp import web

from bot.api.calls.bodies import json_response
from bot.api.calls.callers import Caller
from bot.api.calls.errors import ApiError, invalid
from bot.api.calls.forms import form_of
from bot.api.calls.request_files import RequestImages, no_file, require_recording_weight
from bot.api.calls.uploads import NoRoom, Upload, Uploads
from bot.api.jobs.records import DeletedUpload, UploadList, UploadView
from bot.http import signed_links
from bot.http.clients import Clients
from bot.http.files import FILE_POLICY, FileSender, Sendable
from bot.http.signed_links import LinkReader
from queueing.core.errors import StoreError
from queueing.core.ports import Clock, doubt_of

log = logging.getLogger(__name__)

TIDY_EVERY_S = 3600.0
FIELD: Final = "file"
FILE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": FILE_POLICY,
    "Cache-Control": "private, no-cache",
}
_NAME: Final = re.compile(r"file-[0-9a-f]{24}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRoutes:
    """Serves uploaded files. Another person's file gets a 404."""

    uploads: Uploads
    images: RequestImages
    clock: Clock
    sender: FileSender

    async def new(self, request: web.Request, caller: Caller) -> web.Response:
        """Store an image, audio or video file. Raises `ApiError`."""
        taken = self.images.of(caller)
        form = await form_of(request, files={FIELD}, weigh=require_recording_weight)
        if len(form.files) != 1:
            raise invalid(f"{FIELD}: send exactly one file.", FIELD)
        file = await taken.any_kind(form.files[0].data, FIELD)
        now = self.clock.now()
        try:
            upload = await self.uploads.new(caller.user, file, now)
        except NoRoom as full:
            raise _full(full, now) from None
        return json_response(_view(upload))

    async def listed(self, _request: web.Request, caller: Caller) -> web.Response:
        """Return the caller's files, newest first."""
        uploads = await self.uploads.listed(caller.user, self.clock.now())
        return json_response(UploadList(data=tuple(_view(each) for each in uploads)))

    async def one(self, request: web.Request, caller: Caller) -> web.Response:
        """Return a file's description. Raises `ApiError`."""
        name = _name(request)
        upload = await self.uploads.get(caller.user, name, self.clock.now())
        if upload is None:
            raise no_file(name)
        return json_response(_view(upload))

    async def content(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Return a file's content. Raises `ApiError`."""
        name = _name(request)
        upload = await self.uploads.get(caller.user, name, self.clock.now())
        if upload is None:
            raise no_file(name)
        file = Sendable(
            name=upload.name,
            mime=upload.mime,
            size=upload.size,
            tag=name,
            piece=partial(self.uploads.piece, name),
        )
        return await send_file(self.sender, request, caller, file)

    async def delete(self, request: web.Request, caller: Caller) -> web.Response:
        """Delete a file. Raises `ApiError`."""
        name = _name(request)
        if not await self.uploads.delete(caller.user, name):
            raise no_file(name)
        return json_response(DeletedUpload(id=name))


async def send_file(
    sender: FileSender, request: web.Request, caller: Caller, file: Sendable
) -> web.StreamResponse:
    """Send a caller's file, whole or the range requested by a player or a resumed download.

    Raises `HTTPException`s, such as 416.
    """
    plain = "".join(each for each in file.name if each.isascii() and each.isprintable())
    plain = plain.replace('"', "").replace("\\", "")
    disposition = f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name, safe='')}"
    about = {"Content-Type": file.mime, "Content-Disposition": disposition}
    return await sender.send(request, file, whose=caller.user, headers={**FILE_HEADERS, **about})


async def keep_tidy(uploads: Uploads, clock: Clock) -> None:
    """Delete expired files every hour, until cancelled."""
    while True:
        try:
            if doubt_of(clock) is None:
                await uploads.expire(clock.now())
        except StoreError as error:
            log.warning("cannot delete expired files: %s", error)
        await asyncio.sleep(TIDY_EVERY_S)


def _name(request: web.Request) -> str:
    name = request.match_info["file"]
    if not _NAME.fullmatch(name):
        raise no_file(name)
    return name


def _view(upload: Upload) -> UploadView:
    return UploadView(
        id=upload.id,
        bytes=upload.size,
        created_at=int(upload.created_at),
        expires_at=int(upload.expires_at),
        filename=upload.name,
        mime=upload.mime,
    )


def _full(full: NoRoom, now: float) -> ApiError:
    return ApiError(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        message="There is no space for more files. Delete some, or wait until some expire.",
        code="files_full",
        retry_after_s=None if full.free_at is None else max(1.0, full.free_at - now),
        repeat=full.free_at is not None,
    )


ROUTE = f"GET /v1{signed_links.PATH}"


@dataclass(eq=False, repr=False)
class OriginalFiles:
    """Serves signed links. They need no key, and a key in the request is ignored."""

    links: LinkReader
    clients: Clients
    sender: FileSender

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Send a link's file. Every invalid link gets a 404."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        whose = f"link {self.clients.of(request.remote or '', forwarded)}"
        return await signed_links.answer(request, self.links, self.sender, whose=whose)
