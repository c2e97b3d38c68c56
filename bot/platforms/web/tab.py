"""One open page of the chat: handles its frames and sends it the chat's changes."""

import asyncio
from collections.abc import Callable, Sequence

from bot.core.content import Form
from bot.platforms.web.chat_log import Entry, ShownMessage
from bot.platforms.web.page_connection import PageConnection, PageSession
from bot.platforms.web.protocol import (
    FROM_PAGE,
    CommandRow,
    Earlier,
    EarlierMessages,
    EntryRow,
    FromPage,
    Hello,
    Language,
    Messages,
    ModelQueue,
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
from bot.platforms.web.renderer import with_blocks
from bot.texts.catalogue import language_of

PAGE = 60  # messages per batch


class ChatTab(PageConnection[FromPage]):
    """An open page of a person's chat.

    It is woken when the chat or the overview changed, and then reads from the log what to send.
    `operates` is whether the person may also open the operator's page.
    """

    def __init__(
        self,
        seat: PageSession,
        *,
        commands: tuple[CommandRow, ...],
        signed_in: bool,
        operates: bool,
        overview: Callable[[], Sequence[ModelQueue]],
    ) -> None:
        super().__init__(seat, FROM_PAGE)
        self._commands = commands
        self._signed_in = signed_in
        self._operates = operates
        self._overview = overview
        self._shown_overview: Sequence[ModelQueue] = ()
        self._greeted = False
        self._fresh = False
        self._number = 0

    # ------------------------------------------------------------ from the page

    async def _carry_out(self, message: FromPage) -> None:
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
        """Show a message below all others without storing it. It disappears with the page."""
        last = self._number
        shown = with_blocks(shown)
        row = EntryRow(message=message, number=last, place=last, at=now, shown=shown)
        self._reply(Messages(entries=(row,)))

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
        rows = await asyncio.to_thread(_rows, entries)
        return EarlierMessages(entries=rows, more=len(entries) == PAGE)

    # ------------------------------------------------------------ to the page

    async def _show_form(self, form: Form) -> None:
        """Open a form on this page."""
        self._reply(form_row(form))

    async def _send_news(self) -> None:
        if self._greeted:
            await self._send_messages()
            await self._send_overview()

    async def _send_messages(self) -> None:
        entries = await self._calls.log.since(self.person.id, self._number, PAGE)
        # A page without any messages receives the newest ones again, and must know whether there
        # are more.
        full = len(entries) == PAGE
        fresh = self._fresh or (self._number == 0 and full)
        self._fresh = False
        if entries:
            self._number = entries[-1].number
        if entries or fresh:
            text = await asyncio.to_thread(_messages, entries, fresh=fresh, more=fresh and full)
            await self._send(text)
        if full and not fresh:
            self._woken.set()

    async def _send_overview(self) -> None:
        lines = self._overview()
        if lines != self._shown_overview:
            self._shown_overview = lines
            await self._send(Overview(queues=tuple(lines)).model_dump_json())


def _rows(entries: Sequence[Entry]) -> tuple[EntryRow, ...]:
    return tuple(map(entry_row, entries))


def _messages(entries: Sequence[Entry], *, fresh: bool, more: bool) -> str:
    return Messages(entries=_rows(entries), fresh=fresh, more=more).model_dump_json()
