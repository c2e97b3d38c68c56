"""The web chat over HTTP: the page, its WebSocket, and the routes of files and the operator's page.

Everything except the bare page requires a signed-in person. Every request must name this server in
its Host header, and requests that change something must come from the server's own page.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.core.platform import ALONE, ChatLease
from bot.http.addresses import why_not_local
from bot.http.clients import host_allowed
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.page_connection import (
    CLOSE_S,
    HEARTBEAT_S,
    NOT_KNOWN,
    TOO_MANY_TABS,
    PageConnection,
    PageSession,
)
from bot.platforms.web.chat.protocol import MAX_FRAME, CommandRow, ReadOverview
from bot.platforms.web.chat.tab import ChatTab
from bot.platforms.web.operator.dashboard import DashboardData, DashboardFeed
from bot.platforms.web.operator.dashboard_routes import DashboardRoutes
from bot.platforms.web.routes.assets import (
    HEADERS,
    Assets,
    browsers_language,
    page_texts,
    require_own_page,
)
from bot.platforms.web.routes.sessions import Sessions, set_cookie
from bot.platforms.web.routes.shell import chat_assets
from bot.texts.catalogue import language_of
from queueing.core.concurrency import TaskGroup

MAX_TABS = 20  # per person
NOT_OUR_NAME = (
    "The web chat does not answer to this name. "
    "Its operator can add it to the names it is reached by.\n"
)
THIS_MACHINE_ONLY = (
    "Without a token the web chat serves this machine only: its operator can set chats.web.token."
)
SERVED_ELSEWHERE = "Another process serves the web chat now. Please reload the page in a moment.\n"
_SOON = {"Retry-After": "2"}


class PageRoutes(Protocol):
    """Further routes of the page, such as those of files. Each requires a signed-in person."""

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""


class WebServer:
    """The HTTP server of one web chat. `tabs` are the open pages.

    `commands` returns the commands offered to a person in a language. `who` identifies the sender
    of a request. `path` is the page's path at a proxy. `operator` is the content of the operator's
    page, or None to disable it. Answers no request unless the `lease` is held.
    """

    def __init__(
        self,
        *,
        who: Sessions,
        calls: Calls,
        routes: Sequence[PageRoutes],
        commands: Callable[[WebPerson, str | None], tuple[CommandRow, ...]],
        overview: ReadOverview,
        loopback: bool,
        names: Collection[str],
        path: str = "",
        operator: DashboardData | None = None,
        lease: ChatLease = ALONE,
    ) -> None:
        self._lease = lease
        self.tabs: set[ChatTab] = set()
        self.who = who
        self._calls = calls
        self.routes = routes
        self._commands = commands
        self._overview = overview
        self._loopback = loopback
        self._names = names
        self._path = path
        self._page = chat_assets()
        self._texts = Assets(page_texts())
        self.watcher = None if operator is None else DashboardFeed(operator)
        self._operator = None if self.watcher is None else self._operator_routes(self.watcher)

    def app(self) -> web.Application:
        """Return the aiohttp application with all routes."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            # Not request.host, which invents a name if the header is missing.
            host = request.headers.get("Host", "")
            if not host_allowed(host, loopback=self._loopback, names=self._names):
                raise web.HTTPForbidden(text=NOT_OUR_NAME)
            if not self.who.needed and (why := why_not_local(request.headers, self._names)):
                raise web.HTTPForbidden(text=f"{why} {THIS_MACHINE_ONLY}\n")
            if not self._lease.held:
                raise web.HTTPServiceUnavailable(text=SERVED_ELSEWHERE, headers=_SOON)
            return await handler(request)

        app = web.Application(middlewares=[guard])
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._close_tabs)
        self._add_to(app.router, "")
        if self._path:  # most proxies remove it from requests, some leave it there
            self._add_to(app.router, self._path)
            app.router.add_get(self._path, self._with_slash)
        return app

    def _add_to(self, router: web.UrlDispatcher, path: str) -> None:
        """Register the routes below a path. The pages name each other without it."""
        router.add_get(f"{path}/", self._index)
        router.add_get(
            f"{path}/{{name:sw\\.js}}", self._static
        )  # works for the pages below its path
        router.add_get(f"{path}/static/{{name:.+}}", self._static)
        router.add_get(f"{path}/texts/{{locale}}.json", self._words)
        router.add_get(f"{path}/socket", self._socket)
        router.add_post(f"{path}/signout", self._sign_out)
        for routes in (*self.routes, *([self._operator] if self._operator is not None else [])):
            routes.add_to(router, path)

    @property
    def pages(self) -> Iterator[PageConnection[Any]]:
        """All open pages, of the chat and of operators."""
        return chain(self.tabs, () if self._operator is None else self._operator.viewers)

    def _operator_routes(self, watcher: DashboardFeed) -> DashboardRoutes:
        return DashboardRoutes(
            watcher, calls=self._calls, admin_of=self.who.admin, lease=self._lease
        )

    # ------------------------------------------------------------ the page

    async def _with_slash(self, request: web.Request) -> web.Response:
        query = f"?{request.query_string}" if request.query_string else ""
        return web.Response(status=308, headers={"Location": f"{self._path}/{query}"})

    async def _index(self, request: web.Request) -> web.Response:
        # The page itself contains no personal data. It is served to unknown visitors too, because a
        # request that follows a link from another site lacks the SameSite=Strict cookie.
        token = request.query.get("token")
        if token is None:
            return self._page.answer(request, "index.html")
        response = web.Response(status=303, headers={"Location": "./"})
        self.who.require_patience(request, token)
        if self.who.by_token(request, token) is not None:
            set_cookie(request, response, token)
        else:
            response.headers["Location"] = "./#refused"
        return response

    async def _sign_out(self, request: web.Request) -> web.Response:
        """Make the browser delete the token and its cached images."""
        require_own_page(request)
        response = web.Response(status=204, headers={"Clear-Site-Data": '"cache"'})
        set_cookie(request, response, "", 0)
        return response

    async def _static(self, request: web.Request) -> web.Response:
        return self._page.answer(request, request.match_info["name"])

    async def _words(self, request: web.Request) -> web.Response:
        """Return the pages' texts in a language, or in English if there are none."""
        return self._texts.answer(request, language_of(request.match_info["locale"]))

    # ------------------------------------------------------------ the person's own

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        require_own_page(request)
        socket = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME
        )
        await socket.prepare(request)
        person = self.who.person(request)
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
        seat = PageSession(
            socket=socket,
            person=person,
            calls=self._calls,
            chosen=chosen,
            language=language,
            known=lambda: self.who.person(request) == person,
            lease=self._lease,
        )
        tab = ChatTab(
            seat,
            commands=self._commands(person, chosen or language),
            signed_in=self.who.needed,
            operates=self._operator is not None and self.who.operates(person),
            overview=partial(self._overview, self._calls.asker(person)),
        )
        self.tabs.add(tab)
        try:
            await tab.run()
        finally:
            self.tabs.discard(tab)

    async def _close_tabs(self, _app: web.Application) -> None:
        async with TaskGroup() as group:
            for page in list(self.pages):
                group.create_task(page.close())


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
