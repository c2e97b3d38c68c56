"""One open page of the chat: handles its frames and sends it the chat's changes."""

import asyncio
from collections.abc import Callable, Sequence

from bot.core.content import Form
from bot.platforms.web.chat.chat_log import Entry, ShownMessage
from bot.platforms.web.chat.conversations import MOST, ConversationHead, chat_of, key_of
from bot.platforms.web.chat.page_connection import PageConnection, PageSession
from bot.platforms.web.chat.protocol import (
    FROM_PAGE,
    CommandRow,
    ConversationList,
    ConversationRow,
    Earlier,
    EarlierMessages,
    EntryRow,
    FavouriteMark,
    Find,
    FoundConversations,
    FromPage,
    Hello,
    Language,
    ListMost,
    Messages,
    ModelQueue,
    Overview,
    PressFrame,
    Remove,
    Rename,
    ResultsGone,
    Say,
    Seen,
    Submit,
    Suggest,
    Values,
    Welcome,
    conversation_row,
    entry_row,
    form_row,
)
from bot.platforms.web.chat.renderer import with_blocks
from bot.texts.catalogue import language_of
from queueing.core.requests import Record

PAGE = 60  # messages per batch
LISTED = 40  # conversations in the list at first


class ChatTab(PageConnection[FromPage]):
    """An open page with one of a person's conversations.

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
        self._chat = seat.person.id
        self._most_listed = LISTED
        self._listed_at = -1
        self._listed: ConversationList | None = None
        self._hello: Hello | None = None
        self._fresh = False
        self._number = 0

    # ------------------------------------------------------------ from the page

    async def _carry_out(self, message: FromPage) -> None:
        match message:
            case Hello():
                self._greet(message)
            case Seen():
                await self._calls.see(self.person, self._chat)
            case ListMost():
                self._most_listed, self._listed_at = message.most, -1
                self.wake()
            case _:
                self._reply(await self._answer(message))

    async def _answer(  # noqa: PLR0911  # one return for each kind
        self, ask: Say | PressFrame | Submit | Rename | Remove | Suggest | Earlier | Find
    ) -> Record:
        calls, person, language = self._calls, self.person, self._language
        match ask:
            case Say():
                return await calls.say(person, ask, language, self._show_form)
            case PressFrame():
                return await calls.press(person, ask, language, self._show_form)
            case Submit():
                return await calls.submit(person, ask, language)
            case Rename():
                return await calls.rename(person, ask)
            case Remove():
                return await calls.remove(person, ask)
            case Suggest():
                return self._suggest(ask)
            case Earlier():
                return await self._earlier(ask)
            case Find():
                return await self._find(ask)

    def _greet(self, hello: Hello) -> None:
        log = self._calls.log.id
        self._fresh = hello.log != log or hello.since == 0
        self._number = 0 if self._fresh else hello.since
        self._chat = chat_of(self.person.id, hello.conversation)
        self._shown_overview = ()
        self._listed = None
        self._listed_at = -1
        self._hello = hello
        self._reply(
            Welcome(
                conversation=hello.conversation,
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
        self._reply(Messages(conversation=key_of(self._chat), entries=(row,)))

    def tell(self, news: FavouriteMark | ResultsGone) -> None:
        """Tell the page what has happened to its person's results."""
        self._reply(news)

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
        asker = self._calls.asker(self.person)
        values = handler.suggest(param, ask.typed, asker) if param is not None else ()
        return Values(id=ask.id, values=tuple(values))

    async def _earlier(self, ask: Earlier) -> EarlierMessages:
        entries = await self._calls.log.before(self._chat, ask.before, PAGE)
        rows = await asyncio.to_thread(_rows, entries)
        more = len(entries) == PAGE
        return EarlierMessages(conversation=key_of(self._chat), entries=rows, more=more)

    async def _find(self, ask: Find) -> FoundConversations:
        heads = await self._calls.find(self.person, ask.text)
        rows = await asyncio.to_thread(self._listed_rows, heads)
        return FoundConversations(id=ask.id, rows=rows)

    def _listed_rows(self, heads: Sequence[ConversationHead]) -> tuple[ConversationRow, ...]:
        words_of = self._calls.handler.words_of
        return tuple(conversation_row(head, words_of) for head in heads)

    # ------------------------------------------------------------ to the page

    async def _show_form(self, form: Form) -> None:
        """Open a form on this page."""
        self._reply(form_row(form))

    async def _send_news(self) -> None:
        if self._hello is not None:
            await self._send_messages()
            await self._send_conversations()
            await self._send_overview()

    async def _send_messages(self) -> None:
        hello, chat = self._hello, self._chat
        entries = await self._calls.log.since(chat, self._number, PAGE)
        if hello is not self._hello:  # the page opened another conversation in the meantime
            self._woken.set()
            return
        # A page without any messages receives the newest ones again, and must know whether there
        # are more.
        full = len(entries) == PAGE
        fresh = self._fresh or (self._number == 0 and full)
        self._fresh = False
        if entries:
            self._number = entries[-1].number
        if entries or fresh:
            more = fresh and full
            text = await asyncio.to_thread(_messages, chat, entries, fresh=fresh, more=more)
            await self._send(text)
        if full and not fresh:
            self._woken.set()

    async def _send_conversations(self) -> None:
        kept = self._calls.log.conversations
        if self._listed_at == kept.revision:
            return
        self._listed_at, most = kept.revision, self._most_listed
        heads = await kept.newest(self.person.id, min(most + 1, MOST))
        rows = await asyncio.to_thread(self._listed_rows, heads[:most])
        listed = ConversationList(rows=rows, more=len(heads) > most)
        if listed != self._listed:
            self._listed = listed
            await self._send(listed.model_dump_json())

    async def _send_overview(self) -> None:
        lines = tuple(self._overview())
        if lines != self._shown_overview:
            self._shown_overview = lines
            await self._send(Overview(queues=tuple(lines)).model_dump_json())


def _rows(entries: Sequence[Entry]) -> tuple[EntryRow, ...]:
    return tuple(map(entry_row, entries))


def _messages(chat: str, entries: Sequence[Entry], *, fresh: bool, more: bool) -> str:
    rows, key = _rows(entries), key_of(chat)
    return Messages(conversation=key, entries=rows, fresh=fresh, more=more).model_dump_json()
