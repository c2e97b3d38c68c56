"""Telegram: commands arrive as messages; status messages are sent, then edited into results.

Never retries a send, because Telegram cannot detect duplicates. Never uses a parse mode.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from telegram import Bot, BotCommandScopeChat, Update
from telegram.error import InvalidToken, TelegramError

from backends.common.proxies import NO_PROXIES, Proxies
from bot.config.chats import TELEGRAM_URL
from bot.core.arrivals import Arrival
from bot.core.command import Topic
from bot.core.content import Content
from bot.core.errors import ChatGone, ChatRefused, ChatUnavailable, MessageGone
from bot.core.platform import (
    ALONE,
    ChatAccount,
    ChatLease,
    ChatLimits,
    ChatPerson,
    CommandHandler,
    Invocation,
    MessageRef,
)
from bot.platforms.telegram.activity import uploading
from bot.platforms.telegram.admins import GroupRoles, roles_of
from bot.platforms.telegram.attachments import DOWNLOAD_MOST
from bot.platforms.telegram.calls import CONFIRM_AFTER_S, ButtonCall, CallReader, place_of
from bot.platforms.telegram.commands import LANGUAGES, Describe, menu
from bot.platforms.telegram.errors import chat_errors
from bot.platforms.telegram.media import PHOTO_BYTES_MOST, PLAYED
from bot.platforms.telegram.messages import Destination, draft, post, show
from bot.platforms.telegram.reactions import Reactions
from bot.platforms.telegram.renderer import CAPTION_MOST, TEXT_MOST, measured
from bot.platforms.telegram.updates import Request, Updates, UpdatesRequest, pauses_s
from bot.platforms.telegram.write_access import WriteAccess
from bot.texts.catalogue import names_of
from queueing.core.concurrency import TaskGroup

ASK_EVERY_S = 1.0
WAIT_S = 10  # long-poll timeout in seconds
PRIVATE = "private"


async def telegram_account(
    token: str, api_url: str | None = None, proxies: Proxies = NO_PROXIES
) -> ChatAccount:
    """Return the account that a token belongs to. Raises `ChatError`."""
    async with _asking(token, api_url, proxies) as bot:
        return ChatAccount(name=f"@{bot.username}", invite=f"https://t.me/{bot.username}")


async def writer_of(
    word: str, token: str, api_url: str | None = None, proxies: Proxies = NO_PROXIES
) -> ChatPerson:
    """Wait for a private message that contains a word, and return its author.

    Confirms no updates, so the bot receives all of them when it starts. Raises `ChatError`.
    """
    async with _asking(token, api_url, proxies) as bot:
        while True:
            updates = await bot.get_updates(timeout=WAIT_S, read_timeout=2 * WAIT_S)
            if found := _writer(updates, word):
                return found
            # Pending updates are returned at once, so the long poll does not wait.
            await asyncio.sleep(ASK_EVERY_S)


def _writer(updates: Iterable[Update], word: str) -> ChatPerson | None:
    for update in updates:
        message = update.message
        if message is None or message.from_user is None or message.chat.type != PRIVATE:
            continue
        if word in (message.text or "").split():
            return ChatPerson(
                id=f"telegram:{message.from_user.id}", name=message.from_user.full_name
            )
    return None


@asynccontextmanager
async def _asking(token: str, api_url: str | None, proxies: Proxies) -> AsyncIterator[Bot]:
    """Provide a logged-in bot."""
    base_url = f"{api_url or TELEGRAM_URL}/bot"
    proxy = proxies.to(base_url)
    calling, asking = (Request(lease=ALONE, proxy=proxy) for _ in range(2))
    try:
        with chat_errors():
            async with Bot(
                token, base_url=base_url, request=calling, get_updates_request=asking
            ) as bot:
                yield bot
    except InvalidToken:
        raise _refused() from None
    except ChatUnavailable as error:
        if isinstance(error.__cause__, InvalidToken):
            raise _refused() from None
        raise


def _refused() -> ChatRefused:
    # The library's message contains the token.
    return ChatRefused("Telegram does not accept this token: ask @BotFather for the right one")


UPLOAD_MOST = 50_000_000

REQUEST_TIMEOUT_S = 20.0
UPLOAD_TIMEOUT_S = 120.0  # for one chunk of an upload; slow connections take longer in total

_log = logging.getLogger(__name__)

# Without this, the library warns at every 429 that pauses will become `timedelta`.
os.environ.setdefault("PTB_TIMEDELTA", "1")
# Telegram's URLs contain the token, and both libraries log them at INFO or DEBUG.
for _chatty in ("httpx", "telegram"):
    logging.getLogger(_chatty).setLevel(logging.WARNING)


class Telegram:
    """The Telegram platform; see `bot.core.platform.ChatPlatform` for each method's contract.

    A chat is written "<chat>" or, in a topic, "<chat>/<thread>". `base_url` and `base_file_url` are
    the addresses of a self-hosted Bot API server ("http://127.0.0.1:8081/bot", "…/file/bot").
    `admins` are the user ids whose menu also lists the admin commands. `groups` returns the
    groups whose admins the configuration names. `describe` returns help texts by key and language.
    Each request first checks the `lease`. The limits come from Telegram's documentation and from
    refusals observed on its server.
    """

    limits = ChatLimits(
        text=TEXT_MOST,
        caption=CAPTION_MOST,
        measure=measured,
        upload=UPLOAD_MOST,
        image=PHOTO_BYTES_MOST,
        download=DOWNLOAD_MOST,
        edit_every_s=3.0,
        chat_every_s=1.05,  # Telegram allows one per second
        overall_per_s=28.0,  # Telegram allows 30
        group_per_minute=20,
        files_per_edit=1,
        plays=PLAYED,
        animations=False,
    )

    def __init__(
        self,
        token: str,
        *,
        name: str = "telegram",
        base_url: str | None = None,
        base_file_url: str | None = None,
        admins: Sequence[str] = (),
        groups: Callable[[], Collection[str]] = tuple,
        describe: Describe = lambda key, _language: key,
        lease: ChatLease = ALONE,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self.name = name
        self.connected = asyncio.Event()
        self._token = token
        self._base_url = base_url or f"{TELEGRAM_URL}/bot"
        self._proxy = proxies.to(self._base_url)
        self._base_file_url = base_file_url or f"{TELEGRAM_URL}/file/bot"
        self._admins = tuple(admins)
        self._group_roles = GroupRoles(groups)
        self._write_access = WriteAccess()
        self._describe = describe
        self._lease = lease
        self._bot: Bot | None = None
        self.limits = replace(Telegram.limits, draft=self._draft, rights_in=self._rights_in)

    # ------------------------------------------------------------ incoming

    async def run(self, handler: CommandHandler) -> None:
        """Receive until cancelled, reconnecting.

        Raises `ChatRefused` if reconnecting is pointless.
        """
        async with self._connection() as bot:
            try:
                await self._log_in(bot)
                self._bot = bot
                self.connected.set()
                refusal = await self._receive(bot, handler)
            except InvalidToken:
                refusal = _refusal()
            finally:
                self.connected.clear()
                self._bot = None
        raise refusal

    async def _log_in(self, bot: Bot) -> None:
        """Log in, retrying while Telegram is unreachable. Raises `InvalidToken`."""
        for pause in pauses_s():
            try:
                await bot.initialize()
            except InvalidToken:
                raise
            except TelegramError as error:
                _log.warning("%s: cannot connect, retrying in %.0f s: %s", self.name, pause, error)
                await asyncio.sleep(pause)
            else:
                _log.info("%s: connected as @%s", self.name, bot.username)
                return

    async def _receive(self, bot: Bot, handler: CommandHandler) -> ChatRefused:
        """Serve updates until that becomes pointless. Returns the reason."""
        reception = CallReader(
            platform=self.name,
            bot=bot,
            known={name: each.name for each in handler.commands for name in names_of(each)},
            post=self._reply,
        )
        asking = (each.name for each in handler.commands if each.topic is Topic.MAKE)
        reactions = Reactions(bot, frozenset(asking))
        tasks = TaskGroup()

        def arrived(update: Update) -> Arrival:
            return handler.arrived(*reception.whose(update))

        async def serve(updates: Sequence[Update], arrival: Arrival) -> None:
            called = await self._serve(reception, updates, arrival, handler, tasks)
            if called is not None and reactions.wanted(called):
                tasks.create_task(reactions.seen(called))

        def answered() -> None:
            handler.answered(self.name)

        in_groups = bot.can_read_all_group_messages
        updates = Updates(bot, arrived, serve, tasks, answered, in_groups=in_groups)
        try:
            async with tasks:
                announcing = tasks.create_task(self._announce(bot, handler))
                try:
                    await updates.receive()
                except InvalidToken:
                    announcing.cancel()
        finally:
            await updates.confirm()
        return _refusal()

    async def _serve(
        self,
        reception: CallReader,
        updates: Sequence[Update],
        arrival: Arrival,
        handler: CommandHandler,
        tasks: TaskGroup,
    ) -> Invocation | None:
        """Pass a call to the handler, and return it. On return, its effects are durable."""
        if (change := updates[0].my_chat_member) is not None:
            self._write_access.told(change)
        call = reception.call_of(updates)
        if call is None:
            return None
        invocation = call.invocation()
        if isinstance(call, ButtonCall):
            tasks.create_task(call.confirm(CONFIRM_AFTER_S if invocation else 0.0))
        if invocation is not None:
            chat_id, _ = place_of(invocation.chat)
            person_id, anonymous = call.caller()
            rights = await self._group_roles.rights(
                reception.bot, self.name, chat_id, person_id, anonymous=anonymous
            )
            lacks = await self._write_access.lacking(reception.bot, chat_id)
            invocation = replace(invocation, rights=rights, lacks=lacks, arrival=arrival)
            await handler.call(invocation)
        return invocation

    async def _announce(self, bot: Bot, handler: CommandHandler) -> None:
        """Register the command menu. Commands work without it, so failures are only logged.

        An admin's own menu needs a chat with that admin, which exists only after their first
        message.
        """
        for language in ("", *LANGUAGES):
            await self._list(bot, handler, language, None)
            for admin in self._admins:
                await self._list(bot, handler, language, admin)

    async def _list(
        self, bot: Bot, handler: CommandHandler, language: str, admin: str | None
    ) -> None:
        commands = menu(handler.commands, self._describe, language or "en", admin=admin is not None)
        try:
            await bot.set_my_commands(
                commands,
                scope=None if admin is None else BotCommandScopeChat(int(admin)),
                language_code=language or None,
            )
        except (TelegramError, ValueError) as error:
            whose = "everyone" if admin is None else f"admin {admin}"
            _log.warning("%s: no menu of commands for %s: %s", self.name, whose, error)

    async def check(self) -> str:
        """Log in. Returns the account's name. Raises `ChatError`."""
        async with self._connection() as bot:
            try:
                with chat_errors():
                    me = await bot.get_me()
                    webhook = await bot.get_webhook_info()
            except ChatUnavailable as error:
                if isinstance(error.__cause__, InvalidToken):
                    raise _refusal() from None
                raise
        if webhook.url:
            raise ChatRefused("a webhook is set for this bot, so it cannot be polled: delete it")
        reads_all = "" if not me.can_read_all_group_messages else ", reads all group messages"
        return f"logged in as @{me.username}{reads_all}"

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Bot]:
        """Provide a bot that is not logged in yet, and close its connections on exit."""
        calling = Request(
            lease=self._lease,
            proxy=self._proxy,
            read_timeout=REQUEST_TIMEOUT_S,
            write_timeout=REQUEST_TIMEOUT_S,
            pool_timeout=REQUEST_TIMEOUT_S,
            media_write_timeout=UPLOAD_TIMEOUT_S,
        )
        asking = UpdatesRequest(
            lease=self._lease,
            proxy=self._proxy,
            connection_pool_size=1,
            pool_timeout=REQUEST_TIMEOUT_S,
        )
        try:
            yield Bot(
                self._token,
                base_url=self._base_url,
                base_file_url=self._base_file_url,
                request=calling,
                get_updates_request=asking,
            )
        finally:
            await calling.shutdown()
            await asking.shutdown()

    async def _rights_in(self, user: str, place: str) -> frozenset[str]:
        """Return a person's rights in a group; none in one that they have left."""
        person, bot = user.partition(":")[2], self._connected()
        if not person.isdecimal():
            return frozenset()
        with chat_errors():
            member = await bot.get_chat_member(int(place), int(person))
        return roles_of(member, self.name, place)

    # ------------------------------------------------------------ outgoing

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,  # noqa: ARG002  # Telegram cannot detect duplicate sends
    ) -> MessageRef:
        """Post a message. Not idempotent: never retry after an unclear failure."""
        return await self._reply(chat, content, reply_to)

    async def _reply(self, chat: str, content: Content, reply_to: MessageRef | None) -> MessageRef:
        chat_id, thread_id = place_of(chat)
        here = reply_to is not None and place_of(reply_to.chat)[0] == chat_id
        place = Destination(
            chat_id=chat_id,
            thread_id=thread_id,
            reply_to=int(reply_to.message) if reply_to is not None and here else None,
        )
        bot = self._connected()
        try:
            with chat_errors(unclear=True):
                async with uploading(bot, place, content.files):
                    sent, *others = await post(bot, place, content)
        except ChatGone as error:
            self._write_access.refused(chat_id, error)
            raise
        return MessageRef(
            platform=self.name,
            chat=chat,
            message=str(sent.message_id),
            others=tuple(str(each.message_id) for each in others),
        )

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Replace a message's whole content. Idempotent."""
        chat_id, thread_id = place_of(ref.chat)
        place, bot = Destination(chat_id=chat_id, thread_id=thread_id), self._connected()
        with chat_errors():
            async with uploading(bot, place, content.files):
                await show(bot, place, int(ref.message), content)

    async def _draft(self, chat: str, number: int, content: Content) -> None:
        chat_id, thread_id = place_of(chat)
        place = Destination(chat_id=chat_id, thread_id=thread_id)
        with chat_errors():
            await draft(self._connected(), place, number, content)

    async def delete(self, ref: MessageRef) -> None:
        """Delete one of the bot's messages. Idempotent."""
        try:
            with chat_errors():
                await self._connected().delete_message(place_of(ref.chat)[0], int(ref.message))
        except MessageGone:
            return

    def is_group(self, chat: str) -> bool:
        """Return whether several people read that chat. Telegram's group ids are negative."""
        return chat.startswith("-")

    def _connected(self) -> Bot:
        if self._bot is None:
            raise ChatUnavailable("not connected to Telegram")
        return self._bot


def _refusal() -> ChatRefused:
    # The library's message contains the token.
    return ChatRefused("Telegram does not accept the bot token: ask @BotFather for a new one")
