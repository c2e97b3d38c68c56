"""The routes of the operator's page, and one open connection of it.

Without an admin's cookie every route answers 403.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from bot.core.platform import ChatLease
from bot.monitoring.records import HourSpan, PeopleSpan
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.page_connection import (
    CLOSE_S,
    HEARTBEAT_S,
    TOO_MANY_TABS,
    PageConnection,
    PageSession,
)
from bot.platforms.web.chat.protocol import (
    ACTS,
    FROM_OPERATOR,
    Answered,
    Language,
    NotTaken,
    Readable,
    Submit,
)
from bot.platforms.web.operator.dashboard import DashboardFeed, DashboardState
from bot.platforms.web.routes.assets import Assets, browsers_language, page_files, require_own_page
from bot.texts.catalogue import language_of
from queueing.core.errors import QueueError

ANSWERS_FOLLOWED = 20  # newest acts per page; answers to older ones appear only in the chat


class DashboardTab(PageConnection[Submit]):
    """An open operator's page.

    Woken by changes of the dashboard and of the admin's chat, which contains the answers to acts.
    """

    def __init__(self, seat: PageSession, watcher: DashboardFeed) -> None:
        super().__init__(seat, FROM_OPERATOR)
        self._watcher = watcher
        self._state = DashboardState(language=language_of(self._language), changed=self.wake)
        self._sent: dict[str, bytes] = {}
        self._readable = True
        self._answers: dict[str, Answered | None] = {}  # by the key of an act, oldest first

    def speak(self, chosen: str | None) -> None:
        """Switch the page to the admin's chosen language, or else the browser's."""
        super().speak(chosen)
        self._state.language = language_of(self._language)

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        self._reply(Language(language=language_of(self._language)))
        with self._watcher.watching(self._state):
            await super().run()

    async def _carry_out(self, message: Submit) -> None:
        if message.command not in ACTS:
            self._reply(NotTaken(key=message.key, reason="invalid"))
            return
        self._answers.setdefault(message.key, None)
        if len(self._answers) > ANSWERS_FOLLOWED:
            del self._answers[next(iter(self._answers))]
        self._reply(await self._calls.submit(self.person, message, self._language))

    async def _send_news(self) -> None:
        await self._send_frames()
        await self._send_answers()

    async def _send_frames(self) -> None:
        readable = not self._state.unreadable
        if readable != self._readable:
            self._readable = readable
            await self._send(Readable(readable=readable).model_dump_json())
        for kind, frame in tuple(self._state.frames.items()):
            if self._sent.get(kind) is not frame:
                self._sent[kind] = frame
                await self._send(frame.decode())

    async def _send_answers(self) -> None:
        for key, known in tuple(self._answers.items()):
            shown = await self._calls.answer_to(self.person, key)
            answer = None if shown is None else Answered(key=key, body=shown.body)
            if answer is not None and answer != known:
                self._answers[key] = answer
                await self._send(answer.model_dump_json())


MAX_FRAME = 64 * 1024  # bytes; an act is a command and a few names


Span = TypeVar("Span", HourSpan, PeopleSpan)
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


def _span(kind: type[Span], request: web.Request) -> Span:
    """Return the span that a request names. Raises `HTTPNotFound`."""
    try:
        return kind(request.match_info["span"])
    except ValueError:
        raise web.HTTPNotFound from None


def _number(said: str) -> int:
    """Return a number in a request. Raises `HTTPNotFound`."""
    if not _NUMBER.fullmatch(said):
        raise web.HTTPNotFound
    return int(said)


async def _json(reading: Awaitable[bytes | None]) -> web.Response:
    """Return what is read, 404 if there is nothing, or 503 if it cannot be read."""
    try:
        body = await reading
    except QueueError:
        raise web.HTTPServiceUnavailable from None
    if body is None:
        raise web.HTTPNotFound
    return web.Response(body=body, content_type="application/json", charset="utf-8")


class DashboardRoutes:
    """The operator's page, its files, its WebSocket and its history. `viewers` are the open pages.

    `admin_of` returns the admin who sent a request, or None for anyone else.
    """

    def __init__(
        self,
        watcher: DashboardFeed,
        *,
        calls: Calls,
        admin_of: Callable[[web.Request], WebPerson | None],
        lease: ChatLease,
    ) -> None:
        self.viewers: set[DashboardTab] = set()
        self._watcher = watcher
        self._calls = calls
        self._admin_of = admin_of
        self._lease = lease
        self._assets = Assets(page_files("dashboard_page"))

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""
        router.add_get(f"{path}/operator", self._index)
        router.add_get(f"{path}/operator/static/{{name}}", self._static)
        router.add_get(f"{path}/operator/hours/{{span}}", self._hours)
        router.add_get(f"{path}/operator/people/{{span}}", self._people)
        router.add_get(f"{path}/operator/jobs/{{job}}", self._job)
        router.add_get(f"{path}/operator/log", self._log)
        router.add_get(f"{path}/operator/socket", self._socket)

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
        language = await self._language(request)
        span = _span(HourSpan, request)
        return await _json(self._watcher.data.hours(span, language))

    async def _people(self, request: web.Request) -> web.Response:
        self._require_admin(request)
        return await _json(self._watcher.data.people(_span(PeopleSpan, request)))

    async def _job(self, request: web.Request) -> web.Response:
        language = await self._language(request)
        return await _json(self._watcher.data.job(_number(request.match_info["job"]), language))

    async def _log(self, request: web.Request) -> web.Response:
        self._require_admin(request)
        body = self._watcher.data.log(_number(request.query.get("after", "0")))
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _language(self, request: web.Request) -> str:
        """Return the language of the admin who sent a request."""
        chosen = await self._calls.language_of(self._require_admin(request))
        return language_of(chosen or browsers_language(request))

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
        seat = PageSession(
            socket=socket,
            person=person,
            calls=self._calls,
            chosen=await self._calls.language_of(person),
            language=browsers_language(request),
            known=lambda: self._admin_of(request) == person,
            lease=self._lease,
        )
        viewer = DashboardTab(seat, self._watcher)
        self.viewers.add(viewer)
        try:
            await viewer.run()
        finally:
            self.viewers.discard(viewer)
