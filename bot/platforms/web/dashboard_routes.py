"""The routes of the operator's page. Without an admin's cookie each of them answers 403."""

from collections.abc import Callable

from aiohttp import web

from bot.core.held import ChatLease
from bot.monitoring.records import HourSpan
from bot.people.web_people import WebPerson
from bot.platforms.web.assets import Assets, browsers_language, require_own_page
from bot.platforms.web.calls import Calls
from bot.platforms.web.page_connection import CLOSE_S, HEARTBEAT_S, TOO_MANY_TABS, Seat
from bot.platforms.web.page_files import page_files
from bot.platforms.web.viewer import Viewer
from bot.platforms.web.watcher import Watcher
from queueing.core.errors import QueueError

MAX_FRAME = 64 * 1024  # bytes: an act is a command and a few names


class OperatorRoutes:
    """The page, its files, its events and its history. `viewers` are the open pages.

    `admin_of` returns whose request it is if they are an admin, None for anyone else.
    """

    def __init__(
        self,
        watcher: Watcher,
        *,
        calls: Calls,
        admin_of: Callable[[web.Request], WebPerson | None],
        lease: ChatLease,
    ) -> None:
        self.viewers: set[Viewer] = set()
        self._watcher = watcher
        self._calls = calls
        self._admin_of = admin_of
        self._lease = lease
        self._assets = Assets(page_files("dashboard_page"))

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Serve them."""
        router.add_get("/operator", self._index)
        router.add_get("/operator/static/{name}", self._static)
        router.add_get("/operator/hours/{span}", self._hours)
        router.add_get("/operator/socket", self._socket)

    def _require_admin(self, request: web.Request) -> WebPerson:
        person = self._admin_of(request)
        if person is None:
            raise web.HTTPForbidden
        return person

    async def _index(self, request: web.Request) -> web.Response:
        self._require_admin(request)
        return self._assets.answer(request, "operator.html")

    async def _static(self, request: web.Request) -> web.Response:
        self._require_admin(request)
        return self._assets.answer(request, request.match_info["name"])

    async def _hours(self, request: web.Request) -> web.Response:
        self._require_admin(request)
        try:
            span = HourSpan(request.match_info["span"])
        except ValueError:
            raise web.HTTPNotFound from None
        try:
            body = await self._watcher.picture.hours(span)
        except QueueError:
            raise web.HTTPServiceUnavailable from None
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        person = self._require_admin(request)
        require_own_page(request)
        socket = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME
        )
        await socket.prepare(request)
        if self._watcher.full:
            await socket.close(code=TOO_MANY_TABS)
        else:
            await self._serve(socket, person, request)
        return socket

    async def _serve(
        self, socket: web.WebSocketResponse, person: WebPerson, request: web.Request
    ) -> None:
        seat = Seat(
            socket=socket,
            person=person,
            calls=self._calls,
            chosen=await self._calls.language_of(person),
            language=browsers_language(request),
            known=lambda: self._admin_of(request) == person,
            lease=self._lease,
        )
        viewer = Viewer(seat, self._watcher)
        self.viewers.add(viewer)
        try:
            await viewer.run()
        finally:
            self.viewers.discard(viewer)
