"""Serves the files of a chat over HTTP, and accepts uploads.

`RecentFiles` keeps files that an edit has just replaced, because a page may be about to fetch them.
Previews change faster than a slow connection can fetch them, so it would otherwise never show one.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from backends.common.file_types import mime_of
from bot.http import signed_links
from bot.http.files import FileSender, Sendable, bare_name, sendable
from bot.http.signed_links import LinkReader
from bot.http.unpacking import encoding_of
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.chat_log import FileHead, ShownFile
from bot.platforms.web.chat.conversations import person_of
from bot.platforms.web.chat.protocol import MAX_FILES, MAX_UPLOAD
from bot.platforms.web.chat.thumbnails import Thumbnails
from bot.platforms.web.routes.assets import require_own_page
from bot.platforms.web.routes.sessions import Sessions
from bot.requests.files.images import bare
from queueing.core.concurrency import timeout
from queueing.core.ports import Clock
from queueing.core.requests import File

KEPT_S = 10.0
MOST_BYTES = 16 * 1024 * 1024  # for all chats together


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentFile:
    """A file that a message of a chat shows or has just shown."""

    chat: str
    message: str
    file: File
    until: float


class RecentFiles:
    """Keeps the files shown by messages in memory for ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, RecentFile] = OrderedDict()
        self._bytes = 0

    def keep(
        self, chat: str, message: str, shown: Sequence[ShownFile], files: Sequence[File]
    ) -> None:
        """Keep the files that a message shows at present."""
        until = self._clock.now() + KEPT_S
        for name, file in zip(shown, files, strict=True):
            self._drop(name.id)
            self._kept[name.id] = RecentFile(chat=chat, message=message, file=file, until=until)
            self._bytes += len(file.data)
        while self._kept and (self._bytes > MOST_BYTES or self._oldest_is_over()):
            self._drop(next(iter(self._kept)))

    def find(self, person: str, file: str) -> RecentFile | None:
        """Return a file in one of a person's chats, or None if it has expired."""
        kept = self._kept.get(file)
        if kept is None or person_of(kept.chat) != person or kept.until < self._clock.now():
            return None
        return kept

    def _oldest_is_over(self) -> bool:
        return next(iter(self._kept.values())).until < self._clock.now()

    def _drop(self, file: str) -> None:
        kept = self._kept.pop(file, None)
        self._bytes -= len(kept.file.data) if kept is not None else 0


UPLOAD_S = 600.0  # allows the largest image over a slow connection


class ChatFileRoutes:
    """The routes for files. `originals` are the files behind signed links."""

    def __init__(
        self,
        who: Sessions,
        calls: Calls,
        lately: RecentFiles,
        *,
        originals: LinkReader | None,
        thumbnails: Thumbnails,
    ) -> None:
        self._who = who
        self._calls = calls
        self._lately = lately
        self._originals = originals
        self._thumbnails = thumbnails
        self.uploading: Counter[str] = Counter()  # number of uploads in progress by person
        self._files = FileSender()

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""
        router.add_post(f"{path}/upload", self._upload)
        router.add_get(f"{path}/files/{{file}}", self._file)
        router.add_get(f"{path}/past/{{job}}", self._past_image)
        router.add_get(path + signed_links.PATH, self._original)

    async def _upload(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._who.require(request)
        if not self._calls.allowed(person) or self.uploading[person.id] >= MAX_FILES:
            raise web.HTTPTooManyRequests
        self.uploading[person.id] += 1
        try:
            async with timeout(UPLOAD_S):
                data = await read_body(request)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        finally:
            self.uploading[person.id] -= 1
        name = unquote(request.headers.get("X-File-Name", ""))
        kept = await bare(data)
        mime = request.content_type if kept is data else mime_of(kept) or request.content_type
        file = File(name=bare_name(name), mime=mime, data=kept)
        return web.json_response({"id": self._calls.upload(person, file)})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        person = self._who.require(request)
        wanted = request.match_info["file"]
        head = await self._calls.log.file_head(person.id, wanted)
        if head is None:
            file = await self._replaced(person, wanted)
        else:
            file = self._stored(person, head, wanted)
            if "small" in request.query:
                file = await self._thumbnails.of_file(head.chat, file) or file
        return await self._own(request, person, file)

    async def _past_image(self, request: web.Request) -> web.StreamResponse:
        person = self._who.require(request)
        owner, said = self._calls.user(person), request.match_info["job"]
        file = await self._thumbnails.of_past_job(owner, said)
        return await self._own(request, person, file)

    async def _own(
        self, request: web.Request, person: WebPerson, file: Sendable | None
    ) -> web.StreamResponse:
        if file is None:
            raise web.HTTPNotFound
        # Always revalidated, so that no browser cache shows a deleted file.
        headers = {"Cache-Control": "private, no-cache"}
        return await self._files.send(request, file, whose=person.id, headers=headers)

    async def _original(self, request: web.Request) -> web.StreamResponse:
        whose = f"link {self._who.address(request)}"
        return await signed_links.answer(request, self._originals, self._files, whose=whose)

    def _stored(self, person: WebPerson, head: FileHead, file: str) -> Sendable:
        async def piece(start: int, length: int) -> bytes | None:
            stored = await self._calls.log.file_piece(head.chat, file, start, length)
            if stored is not None:
                return stored
            lately = await self._replaced(person, file)  # by an edit while it was being sent
            return None if lately is None else await lately.piece(start, length)

        return Sendable(name=head.name, mime=head.mime, size=head.size, tag=file, piece=piece)

    async def _replaced(self, person: WebPerson, file: str) -> Sendable | None:
        """Return a file that an edit has just replaced, but never one of a deleted message."""
        lately = self._lately.find(person.id, file)
        if lately is None or await self._calls.log.get(lately.chat, lately.message) is None:
            return None
        return sendable(lately.file, tag=file)


async def read_body(request: web.Request) -> bytes:
    """Return a request's body of at most `MAX_UPLOAD` bytes. Raises `HTTPException`."""
    too_large = web.HTTPRequestEntityTooLarge(max_size=MAX_UPLOAD, actual_size=MAX_UPLOAD + 1)
    if (request.content_length or 0) > MAX_UPLOAD:
        raise too_large
    if encoding_of(request):  # browsers do not compress uploads
        raise web.HTTPUnsupportedMediaType
    data = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        data += chunk
        if len(data) > MAX_UPLOAD:  # Content-Length may be missing
            raise too_large
    return bytes(data)
