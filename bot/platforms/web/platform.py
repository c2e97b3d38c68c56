"""The web chat: a page served by this process, a platform like Discord and Telegram.

Owns the HTTP server and each person's conversations. Messages are stored in a `ChatLog`, so they
reach a person whether or not one of their pages is open.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import chain, count
from typing import Any

from aiohttp import web

from bot.core.asker import Asker
from bot.core.command import Command
from bot.core.content import Content
from bot.core.errors import AddressTaken, ChatGone, ChatUnavailable, MessageGone, TooLarge
from bot.core.live_settings import LiveSettings
from bot.core.platform import ALONE, ChatLease, ChatLimits, CommandHandler, MessageRef, Respond
from bot.core.queue import ResultFiles
from bot.http.addresses import is_loopback, opened_by
from bot.http.clients import Clients
from bot.http.listener import Listener
from bot.http.signed_links import LinkReader
from bot.people.upload_quota import Received
from bot.people.web_people import (
    LOCAL,
    CombinedPeople,
    FixedPeople,
    OnlyLocal,
    WebPeople,
    WebPerson,
)
from bot.platforms.web.chat.calls import Calls, answer_id, line_id
from bot.platforms.web.chat.chat_log import ChatLog, ShownFile, ShownMessage
from bot.platforms.web.chat.conversations import person_of
from bot.platforms.web.chat.page_connection import PageConnection
from bot.platforms.web.chat.protocol import (
    MAX_UPLOAD,
    CommandRow,
    FavouriteMark,
    ReadOverview,
    ResultsGone,
    command_rows,
)
from bot.platforms.web.chat.renderer import shown_of
from bot.platforms.web.chat.tab import ChatTab
from bot.platforms.web.chat.thumbnails import Thumbnails
from bot.platforms.web.operator.dashboard import DashboardData
from bot.platforms.web.routes.choices import ChoiceRoutes, Choices
from bot.platforms.web.routes.dictation_routes import DictationRoutes
from bot.platforms.web.routes.files import ChatFileRoutes, RecentFiles
from bot.platforms.web.routes.gallery import GalleryRoutes
from bot.platforms.web.routes.gallery_store import GalleryStore
from bot.platforms.web.routes.panels import PanelRoutes
from bot.platforms.web.routes.sessions import Sessions
from bot.platforms.web.server import PageRoutes, WebServer
from bot.requests.dictation import Dictation
from bot.requests.rules import RuleTable, offers_any
from queueing.core.catalog import Catalog
from queueing.core.errors import StoreError
from queueing.core.ports import Clock, SystemClock

_logger = logging.getLogger(__name__)

OVERVIEW_EVERY_S = 1.0
FINISH_S = 0.3  # for open requests during a stop; another process may be waiting for the lease
MAX_SENT = 100 * 1024 * 1024  # bytes of all files of a message
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, never bound by default


class Web:
    """The web chat as a `ChatPlatform`. Each conversation of a person is a chat.

    - `token` belongs to the person "local"; `people` are others with their own tokens. With neither,
      every visitor from this machine is "local".
    - `names` are further host names of the page, such as a proxy's, and `path` is its path there.
    - `proxies` are the addresses of proxies trusted to report the client's address.
    - `overview` reads the page's live overview.
    - `gallery` reads people's results, and `catalog` returns the models that may continue them,
      as far as `rules` allow.
    - `is_admin` returns whether a user such as "web:local" is offered the admin commands and the
      operator's page, whose content is `operator`.
    - `choices` are what the composer's pickers offer; without them it has none.
    - `dictation` transcribes what people say to the page.
    - `lease` is checked before each answer and each push.

    Raises `ValueError` if other machines can reach it without a token.
    """

    limits = ChatLimits(
        text=100_000,
        caption=100_000,
        upload=MAX_SENT,
        image=MAX_SENT,
        download=MAX_UPLOAD,
        edit_every_s=0.4,
        chat_every_s=0.05,
        overall_per_s=200.0,
        previews=True,
        sends_once=True,
    )

    def __init__(
        self,
        *,
        name: str = "web",
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | None = None,
        people: WebPeople | None = None,
        names: Collection[str] = (),
        path: str = "",
        proxies: Collection[str] = (),
        live: LiveSettings | None = None,
        log: ChatLog,
        overview: ReadOverview = lambda _: (),
        is_admin: Callable[[str], bool] | None = None,
        originals: LinkReader | None = None,
        results: ResultFiles | None = None,
        gallery: GalleryStore | None = None,
        catalog: Callable[[], Catalog] | None = None,
        rules: RuleTable | None = None,
        operator: DashboardData | None = None,
        choices: Choices | None = None,
        dictation: Dictation | None = None,
        clock: Clock | None = None,
        lease: ChatLease = ALONE,
    ) -> None:
        opened = opened_by(host, names=names, proxies=proxies)
        if token is None and people is None and opened:
            raise ValueError(f"{opened} opens the web chat to other machines: set a token")
        self.name = name
        self.connected = asyncio.Event()
        self._host = host
        self._port = port
        self._people = _known(token, people)
        self._names = frozenset(word.casefold() for word in names) | {host.casefold()}
        self._path = path
        self._clients = Clients(proxies)
        self._live = live or LiveSettings()
        self._log = log
        self._overview = overview
        self._is_admin = is_admin
        self._originals = originals
        self._thumbnails = Thumbnails(self._log, results, originals)
        self._gallery = gallery
        self._catalog = catalog
        self._rules = rules or RuleTable()
        self._operator = operator
        self._choices = choices
        self._dictation = dictation
        self._lease = lease
        self._clock = clock or SystemClock()
        self._lately = RecentFiles(self._clock)
        self._server: WebServer | None = None

    @property
    def url(self) -> str:
        """The page's address. Port 0 becomes the actual port once `connected` is set."""
        host = "localhost" if self._host in EVERYWHERE else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}/"

    # ------------------------------------------------------------ coming in

    async def run(self, handler: CommandHandler) -> None:
        """Serve the page until cancelled. Raises `AddressTaken`."""
        server = self._serve(handler)
        listener = Listener(
            server.app(), who=server.who.known_as, clients=self._clients, finish_s=FINISH_S
        )
        try:
            await self._listen(listener)
            self._server = server
            self.connected.set()
            _logger.info("web chat: the page is at %s", self.url)
            with handler.telling_languages(self._speak):
                async with _watched(server):
                    await self._watch_tabs(server)
        finally:
            self.connected.clear()
            self._server = None
            await listener.close()

    async def check(self) -> str:
        """Listen on the address briefly. Raises `AddressTaken`."""
        listener = Listener(web.Application())
        try:
            await self._listen(listener)
        finally:
            await listener.close()
        return f"the page can be served at {self.url}"

    def _serve(self, handler: CommandHandler) -> WebServer:
        def commands(person: WebPerson, language: str | None) -> tuple[CommandRow, ...]:
            admin = self._is_admin is None or self._operates(person)
            offered = self._offered_to(calls.asker(person), handler.commands)
            return command_rows(offered, language, admin=admin)

        calls = Calls(
            platform=self.name,
            handler=handler,
            log=self._log,
            clock=self._clock,
            respond=self._responder,
            posted=self._wake,
            received=Received(self._live, self._clock),
        )
        who = Sessions(self._people, self._clients, self._operates)
        originals, thumbnails = self._originals, self._thumbnails
        files = ChatFileRoutes(who, calls, self._lately, originals=originals, thumbnails=thumbnails)
        routes: list[PageRoutes] = [
            *self._gallery_routes(who, calls),
            files,
            PanelRoutes(who, calls),
            ChoiceRoutes(who, calls, self._choices),
        ]
        if self._dictation is not None:
            routes.append(DictationRoutes(who, calls, self._dictation, self._clock))
        return WebServer(
            who=who,
            calls=calls,
            routes=routes,
            commands=commands,
            overview=self._overview,
            loopback=is_loopback(self._host),
            names=self._names,
            path=self._path,
            operator=self._operator,
            lease=self._lease,
        )

    def _offered_to(self, asker: Asker, commands: Sequence[Command]) -> Sequence[Command]:
        """Return the commands without those for which a rule leaves no model."""
        catalog = Catalog((), ()) if self._catalog is None else self._catalog()
        rule = self._rules.of(asker)
        return [
            each for each in commands if not each.makes or offers_any(catalog, rule, each.makes)
        ]

    def _gallery_routes(self, who: Sessions, calls: Calls) -> tuple[PageRoutes, ...]:
        if self._gallery is None or self._catalog is None:
            return ()
        return (
            GalleryRoutes(
                who,
                calls,
                self._gallery,
                thumbnails=self._thumbnails,
                catalog=self._catalog,
                rules=self._rules,
                live=self._live,
                tell=self._tell,
            ),
        )

    def _operates(self, person: WebPerson) -> bool:
        return self._is_admin is not None and self._is_admin(f"{self.name}:{person.id}")

    async def _listen(self, listener: Listener) -> None:
        try:
            port = await listener.open(self._host or None, self._port)
        except OSError as error:
            # The library's message repeats the address as a tuple.
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else str(error)
            raise AddressTaken(f"cannot listen on {self._host}:{self._port}: {why}") from error
        self._port = self._port or port

    async def _watch_tabs(self, server: WebServer) -> None:
        """Wake pages when their overview changes, and close those whose token was revoked."""
        known: object = None
        while True:
            await self._people.look()
            now = (tuple(self._overview(None)), self._rules.rules) if server.tabs else known
            for page in server.pages:
                if now != known or not page.known() or not self._lease.held:
                    page.wake()
            known = now
            await asyncio.sleep(OVERVIEW_EVERY_S)

    # ------------------------------------------------------------ going out

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        """Post to a conversation. Repeating a `nonce` finds the message it created."""
        answered = reply_to.message if reply_to is not None else None
        return await self._post(chat, content, nonce=nonce, reply_to=answered)

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Replace a message's whole content. Idempotent."""
        self._require(ref.chat, content)
        with _stored():
            old = await self._log.get(ref.chat, ref.message)
        if old is None or old.shown is None:
            raise MessageGone(f"message {ref.message} is not in the log")
        shown = await _shown(
            ref,
            content,
            quiet=old.shown.quiet,
            reply_to=old.shown.reply_to,
            about=old.shown.about,
        )
        with _stored():
            if await self._log.edit(ref.chat, ref.message, shown, content.files) is None:
                raise MessageGone(f"message {ref.message} is not in the log")
        self._lately.keep(ref.chat, ref.message, shown.files, content.files)
        self._wake(ref.chat)

    async def delete(self, ref: MessageRef) -> None:
        """Delete a message. Idempotent."""
        self._require_up()
        with _stored():
            await self._log.delete(ref.chat, ref.message)
        self._wake(ref.chat)
        self._tell(person_of(ref.chat), ResultsGone())

    def is_group(self, chat: str) -> bool:  # noqa: ARG002 - the protocol's
        """Return False, because every chat belongs to one person."""
        return False

    async def _post(
        self,
        chat: str,
        content: Content,
        *,
        nonce: str | None = None,
        reply_to: str | None = None,
        quiet: bool = False,
        about: tuple[ShownFile, ...] = (),
    ) -> MessageRef:
        self._require(chat, content)
        message = f"msg-{secrets.token_hex(10)}" if nonce is None else answer_id(nonce)
        ref = MessageRef(platform=self.name, chat=chat, message=message)
        shown = await _shown(ref, content, quiet=quiet, reply_to=reply_to, about=about)
        with _stored():
            there = await self._log.put(chat, message, self._clock.now(), shown, content.files)
        if there.shown is not None and there.shown != shown:
            # Sent before a crash with older content.
            await self.edit(ref, content)
        self._wake(chat)
        return ref

    def _responder(self, chat: str, key: str) -> Respond:
        # Derived from the call, so that a call repeated after a crash finds its answer.
        nonces = chain([key], (f"{key} {number}" for number in count(2)))

        async def respond(content: Content, private: bool) -> MessageRef | None:
            if content.secret:
                await self._show_once(chat, content)
                return None
            about = await self._attached(chat, key)
            return await self._post(chat, content, nonce=next(nonces), quiet=private, about=about)

        return respond

    async def _attached(self, chat: str, key: str) -> tuple[ShownFile, ...]:
        """Return the files of the line that a call answers, if it was a line."""
        with _stored():
            line = await self._log.get(chat, line_id(key.rpartition(":")[2]))
        return line.shown.files if line is not None and line.shown is not None else ()

    async def _show_once(self, chat: str, content: Content) -> None:
        """Show content on a person's open pages without storing it."""
        self._lease.require()
        ref = MessageRef(platform=self.name, chat=chat, message=f"once-{secrets.token_hex(10)}")
        shown = await _shown(ref, content, quiet=True, reply_to=None)
        for tab in self._tabs(person_of(chat)):
            tab.show_once(ref.message, shown, self._clock.now())

    def _tell(self, person: str, news: FavouriteMark | ResultsGone) -> None:
        for tab in self._tabs(person):
            tab.tell(news)

    def _speak(self, user: str, language: str | None) -> None:
        """Switch all open pages of a person to the language they chose."""
        for page in self._pages():
            if f"{self.name}:{page.person.id}" == user:
                page.speak(language)

    def _wake(self, chat: str) -> None:
        for page in self._pages():
            if page.person.id == person_of(chat):
                page.wake()

    def _tabs(self, person: str) -> Iterable[ChatTab]:
        """Return a person's open pages of the chat."""
        tabs = () if self._server is None else self._server.tabs
        return [tab for tab in tabs if tab.person.id == person]

    def _pages(self) -> Iterable[PageConnection[Any]]:
        return () if self._server is None else self._server.pages

    def _require(self, chat: str, content: Content) -> None:
        self._require_up()
        if self._people.by_id(person_of(chat)) is None:
            raise ChatGone(f"the web chat has no person {person_of(chat)!r}")
        if sum(len(file.data) for file in content.files) > MAX_SENT:
            raise TooLarge(f"files of more than {MAX_SENT} bytes")

    def _require_up(self) -> None:
        self._lease.require()
        if self._server is None:
            raise ChatUnavailable("the web chat's server is not running")


def _known(token: str | None, people: WebPeople | None) -> WebPeople:
    if token is None:
        return people or OnlyLocal()
    owner = FixedPeople({token: LOCAL})
    return CombinedPeople(owner, people) if people else owner


@asynccontextmanager
async def _watched(server: WebServer) -> AsyncIterator[None]:
    """Keep the operator's pages up to date inside the block."""
    watching = None if server.watcher is None else asyncio.create_task(server.watcher.run())
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])


@contextmanager
def _stored() -> Iterator[None]:
    # A failure of the log counts as an unreachable chat, so the caller retries.
    try:
        yield
    except StoreError as error:
        raise ChatUnavailable(f"cannot access the web chat's log: {error}") from error


async def _shown(
    ref: MessageRef,
    content: Content,
    *,
    quiet: bool,
    reply_to: str | None,
    about: tuple[ShownFile, ...] = (),
) -> ShownMessage:
    made = partial(shown_of, ref.chat, ref.message, content, quiet=quiet, reply_to=reply_to)
    # Without files there is nothing to decode or hash, so no thread is needed.
    shown = await asyncio.to_thread(made) if content.files else made()
    return shown.model_copy(update={"about": about}) if about else shown
