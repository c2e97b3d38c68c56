"""One open page: reads what it sends, and keeps it up to date with its chat.

It uses a WebSocket rather than server-sent events with POSTs: what a person sends stays in order, a
repeated line needs no cookie handling, and browsers allow only six open event streams a site, which
seven tabs would exhaust.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import ValidationError

from bot.chat.api.content import Form
from bot.chat.api.held import Held
from bot.chat.records.chat_log import ShownMessage
from bot.chat.texts import language_of
from bot.people.web_people import WebPerson
from bot.platforms.web.calls import Calls
from bot.platforms.web.wire import (
    FROM_PAGE,
    CommandRow,
    Earlier,
    EarlierMessages,
    EntryRow,
    Hello,
    Language,
    Messages,
    ModelLine,
    NotTaken,
    Overview,
    PressFrame,
    Say,
    Submit,
    Suggest,
    Values,
    Welcome,
    entry_row,
    form_row,
)
from bot.serving.bucket import Bucket
from queueing.core.errors import Fenced, StoreError
from queueing.core.requests import Record

_log = logging.getLogger(__name__)

PAGE = 60  # messages sent at once
FRAMES_PER_S = 30.0
FRAMES_BURST = 150
HEARTBEAT_S = 20.0
CLOSE_S = 2.0  # how long a page may take to close
TOO_MANY_TABS = 4429  # as NOT_KNOWN
NOT_KNOWN = 4401  # a close code: browsers hide from the page why a handshake was refused
MAX_REPLIES = 200  # for a page that does not read them


class Tab:
    """An open page of a person.

    `language` is the browser's, `chosen` the person's own. `wake` announces that its chat or the
    overview changed. What to send is then read from the log, so a slow page gets the newest state
    of each message and never a backlog of old ones.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        person: WebPerson,
        calls: Calls,
        *,
        chosen: str | None,
        language: str | None,
        commands: tuple[CommandRow, ...],
        signed_in: bool,
        operates: bool,
        known: Callable[[], bool],
        overview: Callable[[], Sequence[ModelLine]],
        held: Held,
    ) -> None:
        self.person = person
        self._socket = socket
        self._calls = calls
        self._own_language = language
        self._language = chosen or language
        self._commands = commands
        self._signed_in = signed_in
        self._operates = operates
        self.known = known
        self._overview = overview
        self._held = held
        self._shown_overview: Sequence[ModelLine] = ()
        self._greeted = False
        self._fresh = False
        self._number = 0
        self._replies: deque[Record] = deque()
        self._woken = asyncio.Event()
        self._bucket = Bucket(per_s=FRAMES_PER_S, burst=FRAMES_BURST)

    def wake(self) -> None:
        """Send news soon; many calls before that count as one."""
        self._woken.set()

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._write())
            try:
                await self._read()
            finally:
                writer.cancel()

    async def close(self) -> None:
        """Tell the page that the server stops; it reconnects by itself."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    # ------------------------------------------------------------ from the page

    async def _read(self) -> None:
        async for frame in self._socket:
            too_many = not self._bucket.take(asyncio.get_running_loop().time())
            if frame.type is not WSMsgType.TEXT or too_many or len(self._replies) > MAX_REPLIES:
                await self._socket.close(code=WSCloseCode.POLICY_VIOLATION)
                return
            if not self.known():
                await self._socket.close(code=NOT_KNOWN)
                return
            if not self._held():
                await self.close()
                return
            await self._take(frame.data)

    async def _take(self, text: str) -> None:
        try:
            message = FROM_PAGE.validate_json(text)
        except ValidationError as error:
            _log.info(
                "web chat: %s sent an invalid frame: %d errors",
                self.person.id,
                error.error_count(),
            )
            self._reply(NotTaken(key=None, reason="invalid"))
            return
        try:
            await self._carry_out(message)
        except Exception as error:  # noqa: BLE001  # no frame, whatever it contains, ends the page
            if isinstance(error, Fenced) or not self._held():
                await self.close()  # unanswered, the page repeats it where it is served now
                return
            _log.exception("web chat: a frame of %s could not be carried out", self.person.id)
            reason = "not-stored" if isinstance(error, StoreError) else "invalid"
            self._reply(NotTaken(key=getattr(message, "key", None), reason=reason))

    async def _carry_out(
        self, message: Hello | Say | PressFrame | Submit | Suggest | Earlier
    ) -> None:
        match message:
            case Hello():
                self._greet(message)
            case Say():
                taken = self._calls.say(self.person, message, self._language, self._show_form)
                self._reply(await taken)
            case PressFrame():
                taken = self._calls.press(self.person, message, self._language, self._show_form)
                self._reply(await taken)
            case Submit():
                self._reply(await self._calls.submit(self.person, message, self._language))
            case Suggest():
                self._reply(self._suggest(message))
            case Earlier():
                self._reply(await self._earlier(message))

    def _greet(self, hello: Hello) -> None:
        log = self._calls.log.id
        self._fresh = hello.log != log or hello.since == 0
        self._number = 0 if self._fresh else hello.since
        self._shown_overview = ()
        self._greeted = True
        self._reply(
            Welcome(
                log=log,
                fresh=self._fresh,
                person=self.person.id,
                name=self.person.name,
                commands=self._commands,
                signed_in=self._signed_in,
                operates=self._operates,
            )
        )
        self._reply(Language(language=language_of(self._language)))

    def show_once(self, message: str, shown: ShownMessage, now: float) -> None:
        """Show a message that is in no log, after all there are; it is gone with the page."""
        last = self._number
        row = EntryRow(message=message, number=last, place=last, at=now, shown=shown)
        self._reply(Messages(entries=(row,)))

    def speak(self, chosen: str | None) -> None:
        """Switch the page to the language its person chose, otherwise its browser's."""
        language = chosen or self._own_language
        if language != self._language:
            self._language = language
            self._reply(Language(language=language_of(language)))

    def _suggest(self, ask: Suggest) -> Values:
        handler = self._calls.handler
        params = (
            param
            for command in handler.commands
            if command.name == ask.command
            for param in command.params
            if param.name == ask.param
        )
        param = next(params, None)
        user = f"{self._calls.platform}:{self.person.id}"
        values = handler.suggest(param, ask.typed, user) if param is not None else ()
        return Values(id=ask.id, values=tuple(values))

    async def _earlier(self, ask: Earlier) -> EarlierMessages:
        entries = await self._calls.log.before(self.person.id, ask.before, PAGE)
        return EarlierMessages(
            entries=tuple(entry_row(entry) for entry in entries), more=len(entries) == PAGE
        )

    # ------------------------------------------------------------ to the page

    async def _show_form(self, form: Form) -> None:
        """Open a form on this page; a page that has gone meanwhile needs none."""
        self._reply(form_row(form))

    def _reply(self, record: Record) -> None:
        self._replies.append(record)
        self._woken.set()

    async def _write(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not self.known():  # their token was revoked while the page was open
                await self._socket.close(code=NOT_KNOWN)
                return
            if not self._held():
                await self.close()
                return
            while self._replies:
                await self._send(self._replies.popleft())
            if self._greeted:
                await self._send_messages()
                await self._send_overview()

    async def _send_messages(self) -> None:
        entries = await self._calls.log.since(self.person.id, self._number, PAGE)
        # A page that has seen nothing yet gets the newest again, and must know there may be more.
        full = len(entries) == PAGE
        fresh = self._fresh or (self._number == 0 and full)
        self._fresh = False
        if entries:
            self._number = entries[-1].number
        if entries or fresh:
            rows = tuple(entry_row(entry) for entry in entries)
            await self._send(Messages(entries=rows, fresh=fresh, more=fresh and full))
        if full and not fresh:
            self._woken.set()

    async def _send_overview(self) -> None:
        lines = self._overview()
        if lines != self._shown_overview:
            self._shown_overview = lines
            await self._send(Overview(lines=tuple(lines)))

    async def _send(self, record: Record) -> None:
        # The reader notices that a page has gone; what it missed stays in the log.
        try:
            await self._socket.send_str(record.model_dump_json())
        except ConnectionError:
            _log.debug("web chat: a page of %s went away", self.person.id)
