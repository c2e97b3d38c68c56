"""The web chat over HTTP: the page, its WebSocket, uploads and files; who is let in.

Everything but the bare page needs a known person; every request must name this server as its host,
and requests that change something must come from its own page.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from urllib.parse import unquote

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.chat.api.held import Held, always
from bot.people.web_people import WebPeople, WebPerson
from bot.platforms.web.calls import Calls
from bot.platforms.web.guard import HEADERS
from bot.platforms.web.lately import Lately
from bot.platforms.web.operator.picture import OperatorPicture
from bot.platforms.web.operator.routes import OperatorRoutes
from bot.platforms.web.operator.viewer import Viewer
from bot.platforms.web.operator.watcher import Watcher
from bot.platforms.web.page import page_files
from bot.platforms.web.page_requests import Assets, browsers_language, require_own_page
from bot.platforms.web.small import PastPictures, Small, past_file, small_file
from bot.platforms.web.tab import CLOSE_S, HEARTBEAT_S, NOT_KNOWN, TOO_MANY_TABS, Tab
from bot.platforms.web.wire import MAX_FILES, MAX_FRAME, MAX_UPLOAD, CommandRow, ModelLine
from bot.requests.images import bare
from bot.serving import originals as signed_links
from bot.serving.address import Clients
from bot.serving.files import FileSender, Sendable, bare_name, sendable
from bot.serving.guesses import Guesses
from bot.serving.hosts import host_allowed
from bot.serving.originals import Originals
from queueing.core.requests import File

COOKIE = "usher"
COOKIE_S = 400 * 24 * 3600  # the longest a browser keeps one
UPLOAD_S = 600.0  # for the largest picture over a slow connection
MAX_TABS = 20  # open pages of one person
TOO_MANY_TOKENS = "Too many wrong tokens came from your address. Please try again in a minute.\n"
NOT_OUR_NAME = (
    "The web chat does not answer to this name. "
    "Its operator can add it to the names it is reached by.\n"
)
SERVED_ELSEWHERE = "Another process serves the web chat now. Please reload the page in a moment.\n"
_SOON = {"Retry-After": "2"}


class WebServer:
    """The routes of one web chat. `tabs` are the open pages.

    `commands` returns the rows a person is offered, by person and language. `originals` are the
    files behind signed links, `past` the pictures of past jobs; `clients` identifies requests.
    `operator` is what admins see on their page, None where there is no such page. Without the post
    that `held` asks about, it answers no request.
    """

    def __init__(
        self,
        *,
        people: WebPeople,
        calls: Calls,
        lately: Lately,
        commands: Callable[[WebPerson, str | None], tuple[CommandRow, ...]],
        overview: Callable[[], Sequence[ModelLine]],
        loopback: bool,
        names: Collection[str],
        is_admin: Callable[[WebPerson], bool],
        operator: OperatorPicture | None = None,
        originals: Originals | None = None,
        past: PastPictures | None = None,
        clients: Clients | None = None,
        held: Held = always,
    ) -> None:
        self._held = held
        self.tabs: set[Tab] = set()
        self._people = people
        self._calls = calls
        self._lately = lately
        self._commands = commands
        self._overview = overview
        self._loopback = loopback
        self._names = names
        self._guesses = Guesses(time.monotonic)
        self._originals = originals
        self._past = past
        self._small = Small()
        self._clients = clients or Clients()
        self._uploading: Counter[str] = Counter()  # by person
        self._files = FileSender()
        self._page = Assets(page_files())
        self._is_admin = is_admin
        self.watcher = None if operator is None else Watcher(operator)
        self._operator = None if self.watcher is None else self._operator_routes(self.watcher)

    def app(self) -> web.Application:
        """Return the application that serves them."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            # Not request.host, which invents a name if the header is missing.
            host = request.headers.get("Host", "")
            if not host_allowed(host, loopback=self._loopback, names=self._names):
                raise web.HTTPForbidden(text=NOT_OUR_NAME)
            if not self._held():
                raise web.HTTPServiceUnavailable(text=SERVED_ELSEWHERE, headers=_SOON)
            return await handler(request)

        app = web.Application(middlewares=[guard])
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._close_tabs)
        app.router.add_get("/", self._index)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/socket", self._socket)
        app.router.add_post("/upload", self._upload)
        app.router.add_post("/signout", self._sign_out)
        app.router.add_get("/files/{file}", self._file)
        app.router.add_get("/past/{job}", self._past_picture)
        app.router.add_get(signed_links.PATH, self._original)
        if self._operator is not None:
            self._operator.add_to(app.router)
        return app

    @property
    def pages(self) -> Iterator[Tab | Viewer]:
        """Every open page, of the chat and of operators."""
        return chain(self.tabs, () if self._operator is None else self._operator.viewers)

    def _operator_routes(self, watcher: Watcher) -> OperatorRoutes:
        return OperatorRoutes(watcher, calls=self._calls, admin_of=self._admin, held=self._held)

    def _admin(self, request: web.Request) -> WebPerson | None:
        """Return whose request it is if they are an admin."""
        person = self._person(request)
        return person if person is not None and self._is_admin(person) else None

    # ------------------------------------------------------------ the page

    async def _index(self, request: web.Request) -> web.Response:
        # The page itself holds no one's data. It is served to unknown visitors too, because a
        # link followed from another site comes without the SameSite=Strict cookie.
        token = request.query.get("token")
        if token is None:
            return self._page.answer(request, "index.html")
        response = web.Response(status=303, headers={"Location": "/"})
        if not self._guesses.may_try(self._address(request), token):
            raise web.HTTPTooManyRequests(text=TOO_MANY_TOKENS)
        if self._by_token(request, token) is not None:
            _set_cookie(request, response, token, COOKIE_S)
        else:
            response.headers["Location"] = "/#refused"
        return response

    async def _sign_out(self, request: web.Request) -> web.Response:
        """Make the browser forget the token and its cached pictures."""
        require_own_page(request)
        response = web.Response(status=204, headers={"Clear-Site-Data": '"cache"'})
        _set_cookie(request, response, "", 0)
        return response

    async def _static(self, request: web.Request) -> web.Response:
        return self._page.answer(request, request.match_info["name"])

    # ------------------------------------------------------------ the person's own

    def _person(self, request: web.Request) -> WebPerson | None:
        return self._by_token(request, request.cookies.get(COOKIE, ""))

    def _by_token(self, request: web.Request, token: str) -> WebPerson | None:
        address = self._address(request)
        if not self._guesses.may_try(address, token):
            return None
        person = self._people.by_token(token)
        if person is not None:
            self._guesses.right(token)
        elif token:
            self._guesses.wrong(address, token)
        return person

    def _address(self, request: web.Request) -> str:
        forwarded = request.headers.getall("X-Forwarded-For", [])
        return self._clients.of(request.remote or "", forwarded)

    def known_as(self, request: web.Request) -> str | None:
        """Return the id of the person whose cookie a request carries."""
        person = self._person(request)
        return person.id if person is not None else None

    def _require_person(self, request: web.Request) -> WebPerson:
        person = self._person(request)
        if person is None:
            raise web.HTTPUnauthorized(text="Open the link you were given to sign in.")
        return person

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        require_own_page(request)
        socket = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME
        )
        await socket.prepare(request)
        person = self._person(request)
        if person is None:
            await socket.close(code=NOT_KNOWN)
        elif sum(tab.person == person for tab in self.tabs) >= MAX_TABS:
            await socket.close(code=TOO_MANY_TABS)
        else:
            await self._serve(socket, person, request)
        return socket

    async def _serve(
        self, socket: web.WebSocketResponse, person: WebPerson, request: web.Request
    ) -> None:
        chosen, language = await self._calls.language_of(person), browsers_language(request)
        tab = Tab(
            socket,
            person,
            self._calls,
            chosen=chosen,
            language=language,
            commands=self._commands(person, chosen or language),
            signed_in=self._people.by_token("") is None,
            operates=self._operator is not None and self._is_admin(person),
            known=lambda: self._person(request) == person,
            overview=self._overview,
            held=self._held,
        )
        self.tabs.add(tab)
        try:
            await tab.run()
        finally:
            self.tabs.discard(tab)

    async def _upload(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._require_person(request)
        if not self._calls.allowed(person) or self._uploading[person.id] >= MAX_FILES:
            raise web.HTTPTooManyRequests
        self._uploading[person.id] += 1
        try:
            async with asyncio.timeout(UPLOAD_S):
                data = await _read_body(request)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        finally:
            self._uploading[person.id] -= 1
        name = unquote(request.headers.get("X-File-Name", ""))
        file = File(name=bare_name(name), mime=request.content_type, data=await bare(data))
        return web.json_response({"id": self._calls.upload(person, file)})

    async def _file(self, request: web.Request) -> web.StreamResponse:
        person = self._require_person(request)
        wanted = request.match_info["file"]
        file = await self._kept(person, wanted) or await self._replaced(person, wanted)
        if file is not None and "small" in request.query:
            file = await small_file(self._small, self._calls.log, person.id, file) or file
        return await self._own(request, person, file)

    async def _past_picture(self, request: web.Request) -> web.StreamResponse:
        person = self._require_person(request)
        owner, said = self._calls.user(person), request.match_info["job"]
        file = await past_file(self._small, self._past, owner, said)
        return await self._own(request, person, file)

    async def _own(
        self, request: web.Request, person: WebPerson, file: Sendable | None
    ) -> web.StreamResponse:
        if file is None:
            raise web.HTTPNotFound
        # Revalidated each time, so that no browser's cache shows what was deleted.
        headers = {"Cache-Control": "private, no-cache"}
        return await self._files.send(request, file, whose=person.id, headers=headers)

    async def _original(self, request: web.Request) -> web.StreamResponse:
        whose = f"link {self._address(request)}"
        return await signed_links.answer(request, self._originals, self._files, whose=whose)

    async def _kept(self, person: WebPerson, file: str) -> Sendable | None:
        log = self._calls.log
        head = await log.file_head(person.id, file)
        if head is None:
            return None
        return Sendable(
            name=head.name,
            mime=head.mime,
            size=head.size,
            tag=file,
            piece=lambda start, length: log.file_piece(person.id, file, start, length),
        )

    async def _replaced(self, person: WebPerson, file: str) -> Sendable | None:
        """Return a file that an edit has just replaced; never one that was deleted."""
        lately = self._lately.find(person.id, file)
        if lately is None or await self._calls.log.get(person.id, lately[0]) is None:
            return None
        return sendable(lately[1], tag=file)

    async def _close_tabs(self, _app: web.Application) -> None:
        async with asyncio.TaskGroup() as group:
            for page in list(self.pages):
                group.create_task(page.close())


def _set_cookie(request: web.Request, response: web.Response, token: str, age_s: int) -> None:
    response.set_cookie(
        COOKIE,
        token,
        max_age=age_s,
        httponly=True,
        samesite="Strict",
        secure=request.headers.get("X-Forwarded-Proto", request.scheme) == "https",
    )


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


async def _read_body(request: web.Request) -> bytes:
    too_large = web.HTTPRequestEntityTooLarge(max_size=MAX_UPLOAD, actual_size=MAX_UPLOAD + 1)
    if (request.content_length or 0) > MAX_UPLOAD:
        raise too_large
    data = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        data += chunk
        if len(data) > MAX_UPLOAD:  # the announced length may be missing
            raise too_large
    return bytes(data)
