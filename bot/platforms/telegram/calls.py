"""Handles one message or button press from its arrival to its answer.

Decides whether it is a call at all: a command for the bot, its name, or a reply to one of its
texts. Does not know what commands do.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telegram import Bot, CallbackQuery, Chat, Message, MessageEntity, Update
from telegram.constants import ChatAction

from bot.core.addressing import asks_nothing
from bot.core.content import Content, utf16_length
from bot.core.errors import ChatError, ChatGone, ContentRefused
from bot.core.platform import Album, Attachment, ForwardedText, Invocation, MessageRef
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.platforms.telegram.acts import HandledAlbums, in_order, joined, may_be_cut
from bot.platforms.telegram.attachments import attachment_of, attachments_of
from bot.platforms.telegram.commands import TypedCommand, typed
from bot.platforms.telegram.errors import chat_errors
from bot.platforms.telegram.renderer import ALERT_MOST, outgoing, pressed
from bot.platforms.telegram.text.marks import Reader, text_in, written
from bot.platforms.telegram.text.mentions import Heard, heard, names_another
from bot.platforms.telegram.text.sources import author_of, id_of, quoted, quoted_by, source_of
from queueing.core.concurrency import timeout

CONFIRM_AFTER_S = 0.7  # how long a pressed button may spin before it is confirmed without an answer
GENERAL_TOPIC = 1  # a forum's first topic; Telegram refuses its id when sending

_START = "start"
_NOTHING = TypedCommand(command="ask", addressee=None, text="")
_HELP = TypedCommand(command="help", addressee=None, text="")

_log = logging.getLogger(__name__)

Post = Callable[[str, Content, MessageRef | None], Awaitable[MessageRef]]
"""Posts an ordinary message: `post(chat, content, reply_to)`."""


def chat_of(chat_id: int, thread_id: int | None) -> str:
    """Return the bot's id for a chat: "<chat>" or "<chat>/<thread>"."""
    return f"{chat_id}/{thread_id}" if thread_id else f"{chat_id}"


def place_of(chat: str) -> tuple[int, int | None]:
    """Return a chat's id and its thread's id, if any."""
    chat_id, _, thread_id = chat.partition("/")
    return int(chat_id), int(thread_id) if thread_id else None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallReader:
    """Turns updates into calls. `known` has the bot's commands by each name people may type."""

    platform: str
    bot: Bot
    known: Mapping[str, str]
    post: Post
    albums: HandledAlbums = field(default_factory=HandledAlbums)

    def whose(self, update: Update) -> tuple[str, str]:
        """Return an update's sender and chat.

        Calls of one sender in one chat are accepted in order.
        """
        query, message, chat = update.callback_query, update.message, update.effective_chat
        if chat is not None and query is not None:
            return f"{self.platform}:{query.from_user.id}", f"{chat.id}"
        if chat is not None and message is not None:
            return f"{self.platform}:{author_of(message)[0]}", f"{chat.id}"
        return self.platform, ""

    def call_of(self, updates: Sequence[Update]) -> "MessageCall | ButtonCall | None":
        """Return the call of an update or of an act's parts, or None if it is not for the bot."""
        query = updates[0].callback_query
        if query is not None:
            return ButtonCall(self, query)
        messages = in_order(updates)
        if not messages or _is_bot(messages[0]):
            return None
        first = messages[0]
        if first.media_group_id is not None and first.forward_origin is None:
            return self._album_call(messages, first.media_group_id)
        asked = self._command_of(first)
        if asked is None:
            return None
        own = [each for each in messages if each.forward_origin is None]
        said = self._said(_reader(asked))
        rest = joined(own, said).removeprefix(said(own[0])) if own else ""
        return MessageCall(self, first, replace(asked, text=f"{asked.text}{rest}"), messages)

    def _album_call(self, messages: tuple[Message, ...], album: str) -> "MessageCall":
        """Return an album's call. Only the handler knows whether late parts belong to a call."""
        chat = messages[0].chat
        found = ((message, self._command_of(message)) for message in messages)
        asking = [(message, asked) for message, asked in found if asked is not None]
        spoken = [each for each in asking if each[0].caption]
        main, asked = next(iter(spoken or asking), (messages[0], _NOTHING))
        said = self._said(_reader(asked))
        captions = (said(each) for each in messages if each is not main)
        asked = replace(asked, text="\n".join(filter(None, (asked.text, *captions))))
        asks, before = bool(asking), self.albums.asked(chat.id, album)
        self.albums.note(chat.id, album, asked=asks)
        hidden = not is_private(chat) and not self.bot.can_read_all_group_messages
        about = Album(
            asks=bool(before) or asks,
            begun=before is not None,
            partial=hidden and len(messages) == 1,
        )
        return MessageCall(self, main, asked, messages, about)

    def _command_of(self, message: Message) -> TypedCommand | None:
        """Return the command of a message, or None if it is not for the bot.

        A command that is forwarded to a group calls nobody, like a name in forwarded words.
        """
        words = heard(message, self.bot.bot)
        command = self._typed(words.text, words.entities)
        if command is None:
            return self._question(message, words)
        forwarded = message.forward_origin is not None and not is_private(message.chat)
        if forwarded or not self._is_addressed(command, message.chat, named=words.named):
            return None
        if command.command == _START:  # possibly with a parameter from a link "t.me/bot?start=x"
            return _HELP
        return self._typed(_reader(command)(words.text, words.entities), words.entities)

    def _typed(self, text: str, entities: Sequence[MessageEntity]) -> TypedCommand | None:
        """Return the command at the start of a text, by its own name if it is one of the bot's."""
        found = typed(text, entities, self.known)
        return found and replace(found, command=self.known.get(found.command, found.command))

    async def aside(self, call: Invocation) -> Invocation:
        """Return a call moved to its caller's private chat. Raises `Declined`."""
        chat = call.user.partition(":")[2]
        if not chat.isdecimal():  # who writes in the name of a group has none
            raise Declined(Refusal(RefusalKind.PRIVATE_ONLY))
        try:
            with chat_errors():
                await self.bot.send_chat_action(int(chat), ChatAction.TYPING)
        except (ChatGone, ContentRefused) as error:
            _log.info("call %s: its caller has not started the bot: %s", call.key, error)
            link = f"https://t.me/{self.bot.username}"
            raise Declined(Refusal(RefusalKind.START_FIRST, link=link)) from None
        except ChatError as error:
            _log.info("call %s: cannot tell whether its caller can be told: %s", call.key, error)

        async def respond(content: Content, private: bool) -> MessageRef:  # noqa: ARG001
            return await self.post(chat, content, None)

        return call.moved(chat, respond)

    def _said(self, read: Reader) -> Callable[[Message], str]:
        """Return a reader that leaves out the bot's name."""

        def said(message: Message) -> str:
            words = heard(message, self.bot.bot)
            return read(words.text, words.entities)

        return said

    def _question(self, message: Message, words: Heard) -> TypedCommand | None:
        """Return what a message without a command asks.

        The bot's name alone asks about another person's text if it replies to one, and otherwise
        asks for the commands. A reply that begins with somebody else's name is meant for them.
        """
        to_us = self.is_ours(message.reply_to_message) and not names_another(words)
        asks = words.named or is_private(message.chat) or to_us
        shows = (
            any(attachments_of(self.bot, message))
            if words.named
            else attachment_of(self.bot, message) is not None
        )
        alone = words.named and asks_nothing(words.text) and not quoted(message, _only_text)
        theirs = bool(quoted(message, _only_text)) and bool(quoted_by(message))
        about = words.named and theirs and not self.is_ours(message.reply_to_message)
        if asks and (shows or about or (words.text and not alone)):
            own = message.forward_origin is None
            return replace(_NOTHING, text=written(words.text, words.entities) if own else "")
        return _HELP if words.named else None

    def _is_addressed(self, command: TypedCommand, chat: Chat, *, named: bool) -> bool:
        if command.addressee is not None:
            return command.addressee == (self.bot.username or "").lower()
        ours = command.command == _START or command.command in self.known
        return named or is_private(chat) or ours

    def is_ours(self, message: Message | None) -> bool:
        """Return whether the bot wrote a message.

        In a topic, a message that replies to nothing else counts as a reply to the topic's
        beginning.
        """
        wrote = message is not None and id_of(message.from_user) == self.bot.id
        return wrote and message is not None and message.forum_topic_created is None

    def ref(self, message: Message) -> MessageRef:
        """Return the bot's reference to a message."""
        thread = message.message_thread_id if message.is_topic_message else None
        if thread == GENERAL_TOPIC:
            thread = None
        return MessageRef(
            platform=self.platform,
            chat=chat_of(message.chat.id, thread),
            message=str(message.message_id),
        )


def _reader(asked: TypedCommand) -> Reader:
    """Return a reader for a call's texts. Only a text model needs the marks of Telegram."""
    return written if asked.command == "ask" else _only_text


def _only_text(text: str, _marks: Sequence[MessageEntity]) -> str:
    return text


def _is_bot(message: Message) -> bool:
    """Return whether a bot wrote the message. Bots that answer each other would never stop."""
    author = message.from_user
    return author is not None and author.is_bot and not message.sender_chat


def is_private(chat: Chat) -> bool:
    """Return whether a chat has only one person and the bot."""
    return chat.type == Chat.PRIVATE


@dataclass(frozen=True, slots=True)
class MessageCall:
    """A message that calls a command."""

    reception: CallReader
    message: Message
    asked: TypedCommand
    parts: tuple[Message, ...] = ()
    album: Album | None = None

    def invocation(self) -> Invocation:
        """Return the call for the handler."""
        message, name = self.message, self.reception.platform
        user, user_name = author_of(message)
        request, replied = self.reception.ref(message), message.reply_to_message
        ours = self.reception.is_ours(replied)
        return Invocation(
            key=f"{name}:{message.chat.id}:{self._number()}",
            platform=name,
            user=f"{name}:{user}",
            user_name=user_name,
            chat=request.chat,
            group=not is_private(message.chat),
            command=self.asked.command,
            respond=self.respond,
            text=self.asked.text,
            files=tuple(self._files()),
            album=self.album,
            language=message.from_user.language_code if message.from_user else None,
            request=request,
            replied_to=self.reception.ref(replied) if replied and ours else None,
            quoted=quoted(message, _reader(self.asked)),
            quoted_by="" if ours else quoted_by(message),
            forwarded=tuple(self._forwarded()),
            to_words=ours and self._is_only_a_reply(),
            may_be_cut=self._may_be_cut(),
            aside=self.reception.aside,
        )

    def caller(self) -> tuple[int | None, bool]:
        """Return the author's id, and whether an anonymous admin writes as the group itself."""
        speaker = self.message.sender_chat
        if speaker is None:
            return id_of(self.message.from_user), False
        return None, speaker.id == self.message.chat.id

    def _number(self) -> str:
        """Return an id of the call that is unique within its chat."""
        album = self.message.media_group_id if self.album is not None else None
        return f"{self.message.message_id}" if album is None else f"album:{album}"

    def _forwarded(self) -> Iterator[ForwardedText]:
        """Yield the texts that are forwarded with the call, with their sources."""
        for part in self.parts:
            text = text_in(part)
            if text and part.forward_origin is not None and not self._is_command(part):
                yield ForwardedText(text=text, by=source_of(part.forward_origin))

    def _is_command(self, part: Message) -> bool:
        return part is self.message and bool(self.asked.text or self.asked.command != "ask")

    def _is_only_a_reply(self) -> bool:
        """Return whether only a reply to one of the bot's files makes this a call."""
        message, replied = self.message, self.message.reply_to_message
        if is_private(message.chat) or self.asked.command != "ask":
            return False
        words = heard(message, self.reception.bot.bot)
        is_remark = not words.named and typed(words.text, words.entities) is None
        return is_remark and replied is not None and replied.text is None

    def _may_be_cut(self) -> bool:
        """Return whether the rest of a long text is withheld, as it is in groups."""
        if is_private(self.message.chat) or self.reception.bot.can_read_all_group_messages:
            return False
        return may_be_cut(self.message)

    def _files(self) -> Iterator[Attachment]:
        """Yield the attachments of the message or its album; those replied to only once."""
        for part in self.parts or (self.message,):
            for file in attachments_of(self.reception.bot, part):
                if file.replied and part is not self.message:
                    continue
                yield file

    async def respond(self, content: Content, private: bool) -> MessageRef | None:  # noqa: ARG002
        """Answer with a reply. Ignores `private`: Telegram groups have no private answers."""
        request = self.reception.ref(self.message)
        return await self.reception.post(request.chat, content, request)


class ButtonCall:
    """A pressed button. Telegram accepts one answer to it, and the button spins until then."""

    def __init__(self, reception: CallReader, query: CallbackQuery) -> None:
        self._reception = reception
        self._query = query
        self._answered = asyncio.Event()

    def invocation(self) -> Invocation | None:
        """Return the call for the handler, or None for an unknown button."""
        query, name = self._query, self._reception.platform
        source, press = self._source(), pressed(query.data or "")
        if source is None or query.message is None or press is None:
            return None
        command, options = press
        return Invocation(
            key=f"{name}:cb:{query.id}",
            platform=name,
            user=f"{name}:{query.from_user.id}",
            user_name=query.from_user.full_name,
            chat=source.chat,
            group=not is_private(query.message.chat),
            command=command,
            respond=self.respond,
            options=options,
            language=query.from_user.language_code,
            replied_to=source,
            button=True,
            alert=self.alert,
            aside=self._reception.aside,
        )

    def caller(self) -> tuple[int | None, bool]:
        """Return the id of the person who pressed. Telegram gives it even for anonymous admins."""
        return self._query.from_user.id, False

    def _source(self) -> MessageRef | None:
        """Return the button's message, even if its content is unavailable."""
        message = self._query.message
        if message is None:
            return None
        if isinstance(message, Message):
            return self._reception.ref(message)
        return MessageRef(
            platform=self._reception.platform,
            chat=chat_of(message.chat.id, None),
            message=str(message.message_id),
        )

    async def confirm(self, after_s: float = 0.0) -> None:
        """Stop the button's spinner after `after_s`, unless an answer stops it earlier."""
        try:
            async with timeout(after_s):
                await self._answered.wait()
        except TimeoutError:
            if self._take():
                try:
                    await self._answer()
                except ChatError as error:
                    _log.info("could not confirm a pressed button: %s", error)

    async def respond(self, content: Content, private: bool) -> MessageRef | None:
        """Answer. A short private text appears as an alert, only to the person who pressed."""
        if private and await self.alert(content):
            return None
        await self.confirm()
        source = self._source()
        if source is None:
            raise ChatGone("the pressed button belongs to no message in a chat")
        return await self._reception.post(source.chat, content, source)

    async def alert(self, content: Content) -> bool:
        """Show a short text as an alert. Returns False if it must be sent as a message instead."""
        text = _alert(content)
        if text is None or not self._take():
            return False
        try:
            await self._answer(text)
        except ChatError as error:  # usually because it is too late
            _log.info("could not answer a pressed button with an alert: %s", error)
            return False
        return True

    def _take(self) -> bool:
        """Claim the single answer to the press. Returns False if it was already claimed."""
        free = not self._answered.is_set()
        self._answered.set()
        return free

    async def _answer(self, alert: str | None = None) -> None:
        with chat_errors():
            await self._reception.bot.answer_callback_query(
                self._query.id, text=alert, show_alert=alert is not None or None
            )


def _alert(content: Content) -> str | None:
    """Return the text if it fits into an alert, or None if the content needs a message."""
    if content.files or content.buttons:
        return None
    text = outgoing(content, group=False, now=time.time()).text
    return text if 0 < utf16_length(text) <= ALERT_MOST else None
