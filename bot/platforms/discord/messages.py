"""Messages meant for the bot: a mention, a reply to it, or any direct message.

Discord withholds the text of all other messages, because the bot requests no privileged intent.
They are ignored, except for a mention of the bot's role: Discord gives each bot a role with the
bot's name, and people pick it from the list by mistake.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import discord

from bot.core.addressing import asks_nothing, without_name
from bot.core.content import Content
from bot.core.errors import ChatError, ChatGone
from bot.core.platform import Attachment, ChatPlatform, ForwardedText, Invocation, MessageRef
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.platforms.discord.attachments import (
    Downloads,
    attachments_of,
    of_reply,
    unseen,
    withheld,
)
from bot.platforms.discord.channels import chat_of, lacking_at, rights_of_author, within
from bot.platforms.discord.components.layouts import media_in
from bot.platforms.discord.forwards import said_in
from bot.platforms.discord.names import PeopleSeen, names_here, people_of
from bot.platforms.discord.text.mentions import Named, nobody, readable
from bot.texts.catalogue import language_of, say

_log = logging.getLogger(__name__)

_PERSONS = {discord.MessageType.default, discord.MessageType.reply}
_PERSON = re.compile(r"\s*<@[!&]?[0-9]+>")
_COMMAND = re.compile(r"/([^\W\d_](?:-?[^\W\d_])*)(?=\s|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class DiscordMessageCall:
    """A message to the bot, as a call."""

    message: discord.Message
    platform: ChatPlatform
    me: int
    by_id: frozenset[str] = frozenset()  # commands that need ids, not names
    downloads: Downloads
    seen: PeopleSeen = field(default_factory=PeopleSeen)
    place: Named = nobody  # the name of a server's channel
    forward: discord.Message | None = None  # what it comments on
    channels: Mapping[int, str] = field(default_factory=dict)  # those seen from a direct chat

    def invocation(self) -> Invocation | None:
        """Return the call for the handler, or None for a message not meant for the bot."""
        message = self.message
        if message.author.bot or message.webhook_id or message.type not in _PERSONS:
            return None  # bots that answer each other would never stop
        if not self._is_for_us():
            return None
        command, text = self._command_and_text()
        replied = self._replied()
        ours = replied is not None and replied.author.id == self.me
        return Invocation(
            key=self._key,
            platform=self.platform.name,
            user=f"{self.platform.name}:{message.author.id}",
            user_name=message.author.display_name,
            chat=self._chat(),
            group=message.guild is not None,
            command=command,
            respond=self.respond,
            text=text,
            files=tuple(self._files(replied, ours=ours)),
            language=message.guild.preferred_locale.value if message.guild else None,
            rights=rights_of_author(message),
            within=self._within(),
            comes_again=False,
            request=self._ref(message.id),
            replied_to=self._ref(replied.id) if replied is not None and ours else None,
            quoted=self._readable(said_in(replied)) if replied is not None else "",
            quoted_by=replied.author.display_name if replied is not None and not ours else "",
            forwarded=tuple(self._forwarded()),
            to_words=self._is_only_a_reply(),
            lacks=lacking_at(message),
            aside=self._aside,
        )

    async def _aside(self, call: Invocation) -> Invocation:
        """Return a call moved to the author's direct messages. Raises `Declined`.

        The first message there shows whether the author accepts direct messages.
        """
        here, platform = self.message.jump_url, self.platform
        text = say(language_of(call.language), "result.comes_here", place=here)
        try:
            if platform.limits.direct is None:
                raise ChatGone("there are no direct messages")
            chat = await platform.limits.direct(call.user)
            await platform.send(chat, Content(body=text), nonce=f"{call.key}:aside")
        except ChatError as error:
            _log.info("call %s: its author takes no direct messages: %s", call.key, error)
            raise Declined(Refusal(RefusalKind.DIRECT_CLOSED)) from None

        async def respond(content: Content, private: bool) -> MessageRef:  # noqa: ARG001
            return await platform.send(chat, content, nonce=call.key)

        return call.moved(chat, respond)

    async def respond(self, content: Content, private: bool) -> MessageRef:  # noqa: ARG002
        """Answer with a reply.

        Ignores `private`: on Discord only answers to commands can be private. If this is repeated
        within a few minutes, the first reply is changed.
        """
        request = self._ref(self.message.id)
        return await self.platform.send(self._chat(), content, reply_to=request, nonce=self._key)

    @property
    def _key(self) -> str:
        return f"{self.platform.name}:message:{self.message.id}"

    def _is_for_us(self) -> bool:
        """Return whether a message is meant for the bot, as far as its form shows."""
        if self.message.guild is None or self._names_us():
            return True
        replied = self._replied()
        to_us = replied is not None and replied.author.id == self.me and not self._names_another()
        speaks = self.message.content or any(attachments_of(self.message, self.downloads))
        return to_us and bool(speaks)

    def _is_only_a_reply(self) -> bool:
        """Return whether only a reply to one of the bot's files makes this a call.

        Discord adds a mention of the author to every reply, so only a name in the text counts.
        """
        replied = self._replied()
        here = self.message.guild is not None and not self._names_us()
        shown = replied is not None and (replied.attachments or any(media_in(replied)))
        return here and bool(shown)

    def _names_us(self) -> bool:
        return self._names_our_role() or self._name().search(self.message.content) is not None

    def _names_another(self) -> bool:
        """Return whether the text begins with somebody else's name, and so is meant for them."""
        return _PERSON.match(self.message.content) is not None

    def _names_our_role(self) -> bool:
        return any(map(self._is_our_role, self.message.role_mentions))

    def _is_our_role(self, role: discord.Role) -> bool:
        return role.tags is not None and role.tags.bot_id == self.me

    def _name(self) -> re.Pattern[str]:
        """Return the pattern of what names the bot: its mention, or that of its role."""
        ours = (role for role in self.message.role_mentions if self._is_our_role(role))
        marks = (f"@!?{self.me}", *(f"@&{role.id}" for role in ours))
        return re.compile(rf"<(?:{'|'.join(marks)})>")

    def _without_name(self) -> str:
        name, text = self._name(), self.message.content
        while (found := name.search(text)) is not None:
            text = without_name(text[: found.start()], text[found.end() :], self._own_name())
        return text.strip()

    def _own_name(self) -> str:
        """Return the bot's name here."""
        names = {each.id: each.display_name for each in self.message.mentions}
        roles = (role.name for role in self.message.role_mentions if self._is_our_role(role))
        return names.get(self.me) or next(roles, "")

    def _is_withheld(self) -> bool:
        return self._names_our_role() and not self.message.content

    def _command_and_text(self) -> tuple[str, str]:
        """Return the command and its text. A bare mention of the bot lists the commands.

        In a reply to another person's text, it is about that text.
        """
        text = self._without_name()
        if (named := _COMMAND.match(text)) is not None:
            command, text = named[1].lower(), text[named.end() :].strip()
            return command, text if command in self.by_id else self._readable(text)
        shows = any(self._files(self._replied(), ours=False)) or any(self._forwarded())
        alone = self._names_us() and asks_nothing(text) and self._replied() is None
        replied = self._replied()
        about = replied is not None and replied.author.id != self.me and said_in(replied)
        asks = shows or about or (text and not alone)
        return ("ask" if asks else "help"), self._readable(text)

    def _files(self, replied: discord.Message | None, *, ours: bool) -> Iterator[Attachment]:
        """Yield the attachments of the message and of the message it replies to."""
        if self._is_withheld():
            yield withheld()
            return
        for message in self._messages():
            yield from attachments_of(message, self.downloads)
        if self.forward is not None and not self._shows(self.forward):
            yield unseen()
        if replied is not None:
            shown = tuple(of_reply(replied, self.downloads, ours=ours))
            yield from shown
            if self.message.guild is not None and not (ours or shown or said_in(replied)):
                yield unseen()  # in a server Discord withholds other people's messages from bots

    def _shows(self, forward: discord.Message) -> bool:
        """Return whether Discord shows anything of a forward, which it withholds in servers."""
        files = attachments_of(forward, self.downloads)
        return any(files) or any(map(said_in, forward.message_snapshots))

    def _messages(self) -> Iterator[discord.Message]:
        """Yield the messages that the call consists of."""
        if self.forward is not None:
            yield self.forward
        yield self.message

    def _forwarded(self) -> Iterator[ForwardedText]:
        """Yield the forwarded texts. Discord reports where they come from, not who wrote them."""
        for message in self._messages():
            reference = message.reference
            place = self.place(reference.channel_id) if reference is not None else None
            for snapshot in message.message_snapshots:
                if said := self._readable(said_in(snapshot)):
                    yield ForwardedText(text=said, by=place or "")

    def _readable(self, text: str) -> str:
        """Return a text with names in place of ids."""
        message = self.message
        named = people_of(message, self._replied())
        here = message.guild, message.author
        return readable(text, names_here(*here, named, self.seen, self.channels))

    def texts(self) -> Iterator[str]:
        """Yield the texts that may contain ids."""
        for message in (*self._messages(), self._replied()):
            if message is not None:
                yield said_in(message)
                for snapshot in message.message_snapshots:
                    yield said_in(snapshot)

    def _replied(self) -> discord.Message | None:
        """Return the message replied to, or None if there is none or it was deleted."""
        reference = self.message.reference
        found = reference.resolved if reference is not None else None
        return found if isinstance(found, discord.Message) else None

    def _within(self) -> tuple[str, ...]:
        guild = self.message.guild
        return within(self.message.channel, guild.id if guild else None, self.message.author.id)

    def _chat(self) -> str:
        return chat_of(self.message.channel.id, group=self.message.guild is not None)

    def _ref(self, message_id: int) -> MessageRef:
        return MessageRef(platform=self.platform.name, chat=self._chat(), message=str(message_id))
