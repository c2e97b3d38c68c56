"""Answers one interaction within Discord's time limits.

Discord requires a first answer within three seconds and forgets an interaction after fifteen
minutes. Nothing depends on an interaction for longer: the returned message is an ordinary one,
which the bot edits with its own token.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import aiohttp
import discord

from bot.core.arrivals import Arrival
from bot.core.content import Content, Form
from bot.core.errors import ChatError, ChatUnavailable, ContentRefused
from bot.core.platform import Attachment, CommandHandler, Invocation, MessageRef
from bot.platforms.discord.attachments import Downloads, attachment_of, of_reply
from bot.platforms.discord.away import AwayCalls
from bot.platforms.discord.channels import chat_of, lacking_of_call, rights_of_call, within
from bot.platforms.discord.commands import FURTHER
from bot.platforms.discord.components.forms import modal_of
from bot.platforms.discord.errors import (
    ALREADY_ACKNOWLEDGED,
    EXPIRED_INTERACTION,
    chat_errors,
)
from bot.platforms.discord.forwards import said_in
from bot.platforms.discord.names import (
    PeopleSeen,
    channels_seen,
    look_up,
    names_here,
    options_by_id,
    people_chosen,
    people_of,
)
from bot.platforms.discord.renderer import outgoing
from bot.platforms.discord.rush import Rush
from bot.platforms.discord.text.mentions import Names, readable
from queueing.core.concurrency import TaskGroup, came

CONFIRM_AFTER_S = 2.0  # of Discord's three seconds; the rest is for the network
ANSWERABLE_S = 3.0  # without a confirmation
TOKEN_S = 890.0  # with one; a little less than Discord's fifteen minutes
CONFIRM_AGAIN_S = 0.4  # wait before the second try

_log = logging.getLogger(__name__)

Post = Callable[..., Awaitable[MessageRef]]
"""Posts an ordinary message to a chat; the platform's `send`."""


class InteractionReply:
    """Answers one interaction: first with its initial response, later through its token."""

    def __init__(
        self,
        interaction: "discord.Interaction[Any]",
        *,
        platform: str,
        post: Post,
        about: discord.Message | None = None,
        seen: PeopleSeen | None = None,
        rush: Rush | None = None,
        aways: AwayCalls,
        far: bool = False,
    ) -> None:
        self._interaction = interaction
        self._rush = rush or Rush()
        self._late_s = self._rush.delay_s(interaction)
        self._read_at = time.monotonic()
        self._about = about  # the message whose menu was opened
        self._form = interaction.type is discord.InteractionType.modal_submit
        self._seen = seen or PeopleSeen()
        self._channels: Mapping[int, str] = {}
        self._platform = platform
        self._post = post
        self._button = interaction.type is discord.InteractionType.component
        self._aways = aways
        self._far = far  # the bot is not a member of the chat
        self._away = far  # only the caller can read the answers
        self._group = interaction.guild_id is not None and not far
        here = interaction.channel_id or 0
        self._chat = aways.chat_of(interaction) if far else chat_of(here, group=self._group)
        self._lock = asyncio.Lock()
        self._answered = asyncio.Event()
        self._acknowledged = False
        self._thinking: bool | None = None  # "thinking…" is shown; True: only to the caller

    async def serve(
        self,
        handler: CommandHandler,
        command: str,
        values: Mapping[str, Any],
        arrival: Arrival,
        *,
        downloads: Downloads,
    ) -> None:
        """Run the call, and confirm it to Discord in time if no answer comes."""
        async with TaskGroup() as group:
            opens = {each.name for each in handler.commands if each.opens_form}
            reminder = group.create_task(self._confirm_in_time())
            if self._button and command not in opens:
                await self._reopen()
            async with self._rush.turn(self._age_s, self._confirm, opens=command in opens):
                by_id = options_by_id(handler.commands, command)
                await self._look_up(values, by_id)
                invocation = self._invocation(command, values, downloads, by_id)
                await handler.call(replace(invocation, arrival=arrival))
            if self._button and command not in opens:
                # The press takes effect in another message, so end the button's spinner.
                reminder.cancel()
                await self._confirm()

    async def _reopen(self) -> None:
        """Let a press on a message that only the caller sees bring it up to date again."""
        message = self._interaction.message
        if message is not None and message.flags.ephemeral and await self._confirm():
            self._aways.reopen(self._interaction)

    def _invocation(
        self,
        command: str,
        values: Mapping[str, Any],
        downloads: Downloads,
        by_id: Collection[str],
    ) -> Invocation:
        interaction = self._interaction
        given = {
            name: self._readable(value) if name not in by_id and isinstance(value, str) else value
            for name, value in values.items()
            if value is not None
        }
        files = {
            name: value for name, value in given.items() if isinstance(value, discord.Attachment)
        }
        return Invocation(
            key=f"{self._platform}:{interaction.id}",
            token="" if self._button else interaction.token,
            platform=self._platform,
            user=f"{self._platform}:{interaction.user.id}",
            user_name=interaction.user.display_name,
            chat=self._chat,
            group=self._group,
            command=command,
            respond=self.respond,
            text=str(given.pop(FURTHER, "")),
            options={name: value for name, value in given.items() if name not in files},
            files=(
                *(
                    replace(attachment_of(file, downloads), option=name)
                    for name, file in files.items()
                ),
                *self._about_files(downloads),
            ),
            language=interaction.locale.value,
            rights=frozenset() if self._far else rights_of_call(interaction),
            within=within(
                interaction.channel,
                None if self._far else interaction.guild_id,
                interaction.user.id,
            ),
            replied_to=self._source(),
            button=self._button,
            quoted=self._readable(said_in(self._about)) if self._about else "",
            quoted_by=self._about.author.display_name if self._about and not self._source() else "",
            show_form=None if self._form else self.show_form,
            form=self._form,
            comes_again=False,
            lacks=() if self._far else lacking_of_call(interaction),
            in_time=self.in_time,
            aside=self._aside if self._group else None,
        )

    async def _aside(self, call: Invocation) -> Invocation:
        """Answer to the caller alone from now on."""
        async with self._lock:
            self._away, self._group = True, False
            self._chat = self._aways.chat_of(self._interaction)
        return call.moved(self._chat, self.respond)

    def _readable(self, text: str) -> str:
        """Return a text with names in place of ids."""
        return readable(text, self._names())

    def _names(self) -> Names:
        here = self._interaction
        named = {**people_chosen(here), **people_of(self._about)}
        return names_here(here.guild, here.user, named, self._seen, self._channels)

    async def _look_up(self, values: Mapping[str, Any], by_id: Collection[str]) -> None:
        """Look up the people mentioned in typed text, because Discord does not describe them."""
        texts = [
            value for name, value in values.items() if isinstance(value, str) and name not in by_id
        ]
        here = self._interaction
        await look_up(here.guild, texts, self._names(), self._seen)
        if here.guild is None:
            self._channels = await channels_seen(here.client, here.user.id, texts)

    def _about_files(self, downloads: Downloads) -> Iterator[Attachment]:
        """Yield the attachments of the message whose menu was opened."""
        if self._about is not None:
            yield from of_reply(self._about, downloads, ours=self._source() is not None)

    def _source(self) -> MessageRef | None:
        """Return the bot's message that was pressed or whose menu was opened."""
        message = self._about or self._interaction.message
        me = self._interaction.client.user
        if message is None or me is None or message.author.id != me.id:
            return None
        return self._ref(message.id)

    @property
    def _age_s(self) -> float:
        return self._late_s + time.monotonic() - self._read_at

    def in_time(self) -> bool:
        """Return whether the interaction can probably still be answered."""
        return self._age_s < (TOKEN_S if self._acknowledged else ANSWERABLE_S)

    async def _confirm_in_time(self) -> None:
        if await came(self._answered, max(0.0, CONFIRM_AFTER_S - self._age_s)):
            return
        if not await self._confirm():
            await asyncio.sleep(CONFIRM_AGAIN_S)
            await self._confirm()

    async def _confirm(self) -> bool:
        """Announce to Discord that an answer will follow. Returns whether Discord knows of one."""
        async with self._lock:
            if self._acknowledged or self._answered.is_set():
                return True
            try:
                with chat_errors():
                    await self._defer(thinking=not self._button, private=self._away)
            except ChatError as error:
                _log.warning("could not confirm interaction %s: %s", self._interaction.id, error)
                return False
        return True

    async def _defer(self, *, thinking: bool, private: bool) -> None:
        try:
            await self._interaction.response.defer(thinking=thinking, ephemeral=private)
        except discord.HTTPException as error:
            if error.code != ALREADY_ACKNOWLEDGED:  # a retry after a lost response
                raise
        self._acknowledged = True
        self._thinking = private if thinking else None

    async def respond(self, content: Content, private: bool) -> MessageRef | None:
        """Answer; see `bot.core.platform.Respond`.

        After a failed answer the call is still confirmed in time and may be answered again.
        """
        async with self._lock:
            try:
                with chat_errors(unclear=True):
                    given = await self._respond_or_post(content, private=private)
            except ChatUnavailable as error:
                if error.unclear and self._repeatable:
                    raise ChatUnavailable(str(error)) from error
                if error.unclear:
                    self._aways.unclear(self._chat)
                raise
            self._answered.set()
            return given

    @property
    def _repeatable(self) -> bool:
        """Whether repeating an answer would replace one that may have arrived."""
        return not self._acknowledged or self._thinking is not None

    async def show_form(self, form: Form) -> None:
        """Open a form. Discord accepts it only as the initial response."""
        async with self._lock:
            if self._acknowledged:
                raise ContentRefused("too late for a form")
            with chat_errors():
                await self._interaction.response.send_modal(modal_of(form))
            self._acknowledged = True
            self._answered.set()

    async def _respond_or_post(self, content: Content, *, private: bool) -> MessageRef | None:
        try:
            message_id = await self._answer(content, private=private or self._away)
        except discord.HTTPException as error:
            if error.code not in EXPIRED_INTERACTION:
                raise
            _log.warning("interaction %s expired, posting a message instead", self._interaction.id)
            return await self._post_instead(content, private=private)
        return None if private else self._ref(message_id)

    async def _answer(self, content: Content, *, private: bool) -> int:
        """Show the content in whichever way is still possible. Returns the message's id."""
        if content.files and not self._acknowledged:
            # An upload may take longer than three seconds.
            await self._defer(thinking=True, private=private)
        if not self._acknowledged:
            message_id = await self._answer_first(content, private=private)
            if message_id is not None:
                return message_id
        if self._thinking is None:
            return await self._follow_up(content, private=private)
        if self._thinking != private:
            # The audience of "thinking…" is fixed, and a follow-up would replace it and inherit its
            # audience.
            await self._interaction.delete_original_response()
            self._thinking = None
            return await self._follow_up(content, private=private)
        return await self._replace_thinking(content)

    async def _answer_first(self, content: Content, *, private: bool) -> int | None:
        """Send the initial response, or return None if Discord already has one."""
        try:
            try:
                given = await self._send_first(content, private=private)
            except aiohttp.ClientError:
                # The response was lost. Retrying is safe, because Discord accepts only one initial
                # response.
                given = await self._send_first(content, private=private)
        except discord.HTTPException as error:
            if error.code != ALREADY_ACKNOWLEDGED:
                raise
            self._acknowledged, self._thinking = True, private
            return None
        self._acknowledged = True
        if given.message_id is None:
            return (await self._interaction.original_response()).id
        return given.message_id

    async def _send_first(
        self, content: Content, *, private: bool
    ) -> "discord.InteractionCallbackResponse[Any]":
        message = outgoing(content, now=time.time())
        return await self._interaction.response.send_message(ephemeral=private, **message.first())

    async def _replace_thinking(self, content: Content) -> int:
        message = outgoing(content, now=time.time())
        edited = await self._interaction.edit_original_response(**message.replaced())
        private, self._thinking = self._thinking, None
        if "://" in message.text and not (private or message.layout):
            await _fold(edited)
        return edited.id

    async def _follow_up(self, content: Content, *, private: bool) -> int:
        message = outgoing(content, now=time.time())
        sent = await self._interaction.followup.send(ephemeral=private, wait=True, **message.sent())
        return sent.id

    async def _post_instead(self, content: Content, *, private: bool) -> MessageRef | None:
        """Post an ordinary message; private content goes to the caller's direct messages."""
        nonce = f"{self._platform}:{self._interaction.id}"
        if not (private and self._group):
            return await self._post(self._chat, content, nonce=nonce)
        direct = await self._interaction.client.create_dm(self._interaction.user)
        await self._post(chat_of(direct.id, group=False), content, nonce=nonce)
        return None

    def _ref(self, message_id: int) -> MessageRef:
        return MessageRef(platform=self._platform, chat=self._chat, message=str(message_id))


async def _fold(message: discord.InteractionMessage) -> None:
    """Suppress link previews, which is not possible in advance with "thinking…"."""
    try:
        # An edit through the interaction cannot do this, so edit it as an ordinary message.
        await discord.Message.edit(message, suppress=True)
    except (discord.HTTPException, discord.RateLimited) as error:
        _log.info("could not suppress link previews of message %d: %s", message.id, error)
