"""Discord: calls arrive as interactions; messages are sent and edited with the bot's own token.

Never edits through an interaction's token, which expires after fifteen minutes. Never waits out a
rate limit with a text that is outdated by then.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import discord
from discord import app_commands

from backends.common.proxies import NO_PROXIES, Proxies
from bot.config.chats import DISCORD_URL
from bot.core.command import Command
from bot.core.content import Content
from bot.core.errors import ChatGone, ChatRefused, ChatUnavailable, MessageGone, ServedElsewhere
from bot.core.platform import (
    ALONE,
    ChatAccount,
    ChatLease,
    ChatLimits,
    ChatPerson,
    CommandHandler,
    MessageRef,
    Notes,
)
from bot.platforms.discord.away import AwayCall, AwayCalls, answer, caller_of, is_away
from bot.platforms.discord.channels import chat_of, rights_of
from bot.platforms.discord.client import Client, Starts
from bot.platforms.discord.commands import Describe, missing_commands
from bot.platforms.discord.errors import (
    ARCHIVED_THREAD,
    CONNECTION_ERRORS,
    chat_errors,
)
from bot.platforms.discord.posts import (
    UNKNOWN_MESSAGE,
    answer_to,
    nonce_of,
    post_or_find,
    show,
    shows,
)
from bot.platforms.discord.renderer import TEXT_MOST, measured
from queueing.core.concurrency import TaskGroup, timeout

SCOPES = ("bot", "applications.commands")
PERMISSIONS = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    attach_files=True,
    read_message_history=True,
)
"""The permissions the bot needs on a server; docs/discord.md explains each."""


async def discord_account(token: str, proxies: Proxies = NO_PROXIES) -> ChatAccount:
    """Return the account that a token belongs to. Raises `ChatError`."""
    proxy = proxies.to(DISCORD_URL)
    async with discord.Client(intents=discord.Intents.none(), proxy=proxy) as client:
        try:
            with chat_errors():
                await client.login(token)
                about = await client.application_info()
        except discord.LoginFailure:
            raise ChatRefused(
                "Discord does not accept this token: create a new one in the developer portal"
                " (Bot, Reset Token)"
            ) from None
    return ChatAccount(
        name=str(client.user),
        invite=discord.utils.oauth_url(about.id, permissions=PERMISSIONS, scopes=SCOPES),
        owner=_owner(about),
    )


def _owner(about: discord.AppInfo) -> ChatPerson | None:
    """Return the application's owner; for a team, the owner of the team."""
    person = about.team.owner if about.team is not None else about.owner
    return None if person is None else ChatPerson(id=f"discord:{person.id}", name=str(person))


MEBIBYTE = 2**20

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0  # Discord resets the token of a bot that identifies 1000 times a day
STEADY_AFTER_S = 600.0  # a connection that lasted this long resets the pauses

REQUEST_TIMEOUT_S = 20.0  # discord.py retries a failing request for 25 s, with an outdated text
UPLOAD_BYTES_PER_S = 100_000  # the slowest upload speed allowed for

# https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway
_FINAL: Mapping[int, str] = {
    4004: "the bot token is not accepted: create a new one in the developer portal",
    4010: "the sharding is not accepted: restart Usher",
    4011: "the bot is in too many servers for one connection: restart Usher",
    4012: "this API version is no longer supported: update Usher",
    4013: "the requested intents are invalid: update Usher",
    4014: "the requested intents are not allowed: update Usher",
}
_SHARDING = frozenset({4010, 4011})
_SHARDING_TRIES = 3

_log = logging.getLogger(__name__)


class Discord:
    """The Discord platform; see `bot.core.platform.ChatPlatform` for each method's contract.

    A chat is written as its channel's id, prefixed with "@" for a direct message. `describe`
    returns help texts by key and language. `notes` stores across restarts which commands Discord
    knows; without it the commands are sent at every start, which Discord tolerates. `check` looks
    for `commands`. With `anywhere`, people may install the bot for themselves. Each request and each connection first checks the `lease`. The bot needs no
    privileged intent and receives nothing but interactions.
    """

    limits = ChatLimits(
        text=TEXT_MOST,
        caption=TEXT_MOST,
        measure=measured,
        upload=10 * MEBIBYTE,
        image=10 * MEBIBYTE,
        download=25 * MEBIBYTE,
        edit_every_s=5.0,
        chat_every_s=1.05,  # 5 in 5 s
        burst=5,
        overall_per_s=45.0,  # of 50
        free_edit_s=3300.0,  # after an hour, edits have a separate small budget (error 30046)
        previews=True,
        gallery=True,
        free_answers=True,  # an initial response does not count against the channel's budget
        sends_once=True,
    )

    def __init__(
        self,
        token: str,
        *,
        name: str = "discord",
        describe: Describe = lambda key, _language: key,
        notes: Notes | None = None,
        commands: Sequence[Command] = (),
        lease: ChatLease = ALONE,
        proxies: Proxies = NO_PROXIES,
        anywhere: bool = False,
    ) -> None:
        self.name = name
        self.connected = asyncio.Event()
        self._token = token
        self._describe = describe
        self._notes = notes
        self._commands = commands
        self._starts = Starts()
        self._lease = lease
        self._proxy = proxies.to(DISCORD_URL)
        self._client: Client | None = None
        self._aways = AwayCalls()
        self._anywhere = anywhere
        self.limits = replace(
            Discord.limits,
            upload_in=self._upload_in,
            direct=self._direct,
            rights_in=self._rights_in,
        )

    # ------------------------------------------------------------ incoming

    async def run(self, handler: CommandHandler) -> None:
        """Receive until cancelled, reconnecting.

        Raises `ChatRefused` if reconnecting is pointless.
        """
        async with TaskGroup() as calls:
            refusal = await self._keep_connected(handler, calls)
        raise refusal

    async def _keep_connected(self, handler: CommandHandler, calls: TaskGroup) -> ChatRefused:
        """Reconnect until that becomes pointless. Returns the reason."""
        loop = asyncio.get_running_loop()
        pauses = restart_pauses_s()
        closed: list[int] = []  # close codes of recent connections
        while True:
            began_at = loop.time()
            try:
                async with self.client(handler, calls) as client:
                    await client.start(self._token)
                _log.warning("%s: the connection was closed", self.name)
            except (discord.LoginFailure, discord.PrivilegedIntentsRequired) as error:
                return _refusal(error)
            except discord.ConnectionClosed as error:
                _log.warning("%s: the connection was closed: %s", self.name, error)
                closed.append(error.code)
                if (refusal := _closed_for_good(closed)) is not None:
                    return refusal
            except (*CONNECTION_ERRORS, ServedElsewhere) as error:
                _log.warning("%s: cannot connect: %s: %s", self.name, type(error).__name__, error)
            except Exception:  # noqa: BLE001 - discord.py lets an event it cannot read end the connection
                _log.exception("%s: the connection broke", self.name)
            if loop.time() - began_at > STEADY_AFTER_S:
                pauses, closed = restart_pauses_s(), []
            await asyncio.sleep(next(pauses))

    @asynccontextmanager
    async def client(self, handler: CommandHandler, calls: TaskGroup) -> AsyncIterator[Client]:
        """Provide a new discord.py client that passes interactions to the handler.

        discord.py cannot start a client twice. `calls` owns the tasks that serve interactions.
        """
        client = Client(
            platform=self,
            handler=handler,
            calls=calls,
            describe=self._describe,
            notes=self._notes,
            starts=self._starts,
            lease=self._lease,
            proxy=self._proxy,
            aways=self._aways,
            anywhere=self._anywhere,
        )
        async with client:
            self._client = client
            try:
                yield client
            finally:
                self.connected.clear()
                self._client = None

    async def check(self) -> str:
        """Log in without the gateway.

        Returns the account's name and servers. Raises `ChatError`.
        """
        async with discord.Client(intents=discord.Intents.none(), proxy=self._proxy) as client:
            try:
                with chat_errors():
                    await client.login(self._token)
            except discord.LoginFailure as error:
                raise _refusal(error) from error
            application = client.application
            if application is not None and application.interactions_endpoint_url:
                raise ChatRefused(
                    "the application has an interactions endpoint URL, so no command reaches this"
                    " bot: remove it in the developer portal"
                )
            servers = application.approximate_guild_count if application else 0
            with chat_errors():
                known = await app_commands.CommandTree(client).fetch_commands()
            account = (
                f"logged in as {client.user}, in {servers} server{'' if servers == 1 else 's'}"
            )
            missing = missing_commands(self._commands, self._describe, known)
            if not missing:
                return account
            names = "none of the commands" if not known else ", ".join(missing)
            return f"{account}; Discord does not have {names} yet: the next start registers them"

    # ------------------------------------------------------------ outgoing

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        """Post a message.

        Repeating a nonce within a few minutes changes the message it created. One with the token of
        an interaction changes the answer to it.
        """
        # discord.py retries after a 5xx; the nonce prevents a duplicate.
        key, _, token = (nonce or secrets.token_hex(8)).partition(" token=")
        if is_away(chat):
            return await self._send_away(chat, content, key, follows=reply_to is not None)
        with chat_errors(unclear=True):
            async with timeout(_patience_s(content)):
                channel, client = self._channel(chat), self._client
                answered = await answer_to(client, token) if client and token else None
                sent = answered or await post_or_find(channel, content, reply_to, nonce_of(key))
        ref = MessageRef(platform=self.name, chat=chat, message=str(sent.id))
        if not shows(sent, content):
            await self.edit(ref, content)
        return ref

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Replace a message's whole content. Idempotent."""
        if is_away(ref.chat):
            with chat_errors():
                async with timeout(_patience_s(content)):
                    webhook = self._answers_to(ref.chat).webhook
                    await show(partial(webhook.edit_message, int(ref.message)), content)
            return
        channel = self._channel(ref.chat)
        message = channel.get_partial_message(int(ref.message))
        with chat_errors():
            async with timeout(_patience_s(content)):
                try:
                    await show(message.edit, content)
                except discord.HTTPException as error:
                    if error.code != ARCHIVED_THREAD:
                        raise
                    await self._unarchive(channel.id)
                    await show(message.edit, content)

    async def delete(self, ref: MessageRef) -> None:
        """Delete one of the bot's messages. Idempotent."""
        number = int(ref.message)
        try:
            with chat_errors():
                async with timeout(REQUEST_TIMEOUT_S):
                    if is_away(ref.chat):
                        await self._answers_to(ref.chat).webhook.delete_message(number)
                    else:
                        await self._channel(ref.chat).get_partial_message(number).delete()
        except MessageGone as gone:
            if is_away(ref.chat) and getattr(gone.__cause__, "code", None) != UNKNOWN_MESSAGE:
                raise ChatGone(f"the answer stays: {gone}") from gone  # it is too late

    def is_group(self, chat: str) -> bool:
        """Return whether several people read that chat."""
        return not (chat.startswith("@") or is_away(chat))

    async def _send_away(
        self, chat: str, content: Content, key: str, *, follows: bool
    ) -> MessageRef:
        """Answer a call, or write to its caller directly if that is too late.

        With `follows`, posts a further message.
        """
        try:
            answers = self._answers_to(chat)
            with chat_errors(unclear=True):
                async with timeout(_patience_s(content)):
                    sent = await answer(answers, content, follows=follows)
            return MessageRef(platform=self.name, chat=chat, message=str(sent))
        except MessageGone:
            pass
        except ChatUnavailable as error:
            if error.unclear:
                self._aways.unclear(chat)
            raise
        direct = await self._direct(f"{self.name}:{caller_of(chat)}")
        return await self.send(direct, content, nonce=key)

    async def _direct(self, user: str) -> str:
        """Return a person's direct chat. Raises `ChatError`."""
        if self._client is None:
            raise ChatUnavailable("not connected to Discord")
        person = discord.Object(int(user.rpartition(":")[2]))
        with chat_errors():
            async with timeout(REQUEST_TIMEOUT_S):
                channel = await self._client.create_dm(person)
        return chat_of(channel.id, group=False)

    async def _rights_in(self, user: str, place: str) -> frozenset[str]:
        """Return a person's rights in a server; none in one that they or the bot have left."""
        client = self._client
        guild = client.get_guild(int(place)) if client is not None else None
        if client is None or (guild is None and not client.is_ready()):
            raise ChatUnavailable("not connected to Discord")
        if guild is None:
            return frozenset()
        with chat_errors():
            async with timeout(REQUEST_TIMEOUT_S):
                try:
                    member = await guild.fetch_member(int(user.rpartition(":")[2]))
                except discord.NotFound:
                    return frozenset()
        return rights_of(member, member.guild_permissions)

    def _answers_to(self, chat: str) -> AwayCall:
        """Return the webhook of a call. Raises `MessageGone` if it is too late to answer."""
        answers = self._aways.answers_to(chat)
        if answers is None:
            raise MessageGone("the call can be answered no longer")
        return answers

    def _upload_in(self, chat: str) -> int:
        """Return the upload limit in a chat. Server boosts raise it until they expire."""
        if self._client is None or is_away(chat):
            return Discord.limits.upload
        channel = self._client.get_channel(int(chat.removeprefix("@")))
        guild = getattr(channel, "guild", None)
        boosted = guild.filesize_limit if isinstance(guild, discord.Guild) else 0
        return max(Discord.limits.upload, boosted)

    def _channel(self, chat: str) -> discord.PartialMessageable:
        client = self._client
        if client is None or client.user is None or client.is_closed():
            raise ChatUnavailable("not connected to Discord")
        return client.get_partial_messageable(int(chat.removeprefix("@")))

    async def _unarchive(self, channel_id: int) -> None:
        """Open an archived thread, so that its messages can be edited again."""
        if self._client is None:
            raise ChatUnavailable("not connected to Discord")
        thread = await self._client.fetch_channel(channel_id)
        if isinstance(thread, discord.Thread):
            await thread.edit(archived=False)


def restart_pauses_s() -> Iterator[float]:
    """Yield the pauses between reconnects, in seconds, without end."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _patience_s(content: Content) -> float:
    return REQUEST_TIMEOUT_S + sum(len(file.data) for file in content.files) / UPLOAD_BYTES_PER_S


def _closed_for_good(codes: Sequence[int]) -> ChatRefused | None:
    """Return a refusal if the last close code is permanent, otherwise None.

    The number of shards is asked for at every start, so a code about sharding is permanent only
    after several repetitions.
    """
    code = codes[-1]
    if code not in _FINAL or (code in _SHARDING and codes.count(code) < _SHARDING_TRIES):
        return None
    return ChatRefused(f"Discord closed the connection for good ({code}): {_FINAL[code]}")


def _refusal(error: discord.DiscordException) -> ChatRefused:
    if isinstance(error, discord.LoginFailure):
        return ChatRefused("Discord does not accept the bot token: create a new one in the portal")
    return ChatRefused(f"Discord refuses the bot: {error}")
