"""Which messages are one act of a person, although Telegram delivers them one by one.

People's apps send an album, a forward with a comment, and a text beyond 4096 units as several
messages, without a count or an end mark. Only their order, their times and their form show that
they belong together.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from telegram import Message, MessageEntity, Update
from telegram.constants import ChatType

from bot.core.content import utf16_length
from bot.platforms.telegram.commands import typed

ALBUM_QUIET_S = 2.0  # an album is complete if no further part arrives for this long
ALBUM_MOST = 10  # parts
PASTE_QUIET_S = 1.5
FORWARD_QUIET_S = 0.4  # apps send a comment and what it is about in one go
FORWARDS_MOST = 100
TEXT_MOST = 4096  # UTF-16 units, where apps cut a text
CUT_FROM = 4000  # or earlier, at the end of a word
_APART_MOST_S = 2.0  # between two messages of one act, by Telegram's clock
_CALLING = {MessageEntity.MENTION, MessageEntity.TEXT_MENTION, MessageEntity.BOT_COMMAND}
_REMEMBERED = 1000  # albums; parts have arrived up to 11 s late


def act_of(update: Update) -> Hashable | None:
    """Return what may collect an update with others: its album, or its person in its chat."""
    message = update.message
    if message is None:
        return None
    if message.media_group_id is not None and message.forward_origin is None:
        return message.chat.id, str(message.media_group_id)
    author = message.sender_chat or message.from_user
    return (message.chat.id, message.message_thread_id, author.id) if author else None


def wait_s(message: Message | None, *, in_groups: bool) -> float:
    """Return how long a message waits for others of the same act, in seconds; 0 for no time.

    `in_groups` is whether the bot receives all messages of groups. Otherwise nothing can follow.
    """
    if message is None:
        return 0.0
    if message.media_group_id is not None:
        return ALBUM_QUIET_S
    in_private = message.chat.type == ChatType.PRIVATE
    if not in_private and not (in_groups and _may_call(message)):
        return 0.0
    if may_be_cut(message):
        return PASTE_QUIET_S
    return FORWARD_QUIET_S if message.forward_origin or _may_be_a_comment(message) else 0.0


def belongs(message: Message | None, before: Sequence[Message | None]) -> bool:
    """Return whether a message continues the act that its person's messages before it began."""
    if message is None:
        return False
    if message.media_group_id is not None and message.forward_origin is None:
        return True  # only parts of the same album are compared
    last = before[-1] if before else None
    if last is None or abs((message.date - last.date).total_seconds()) > _APART_MOST_S:
        return False
    return message.forward_origin is not None or (may_be_cut(last) and _is_only_text(message))


def most_of(message: Message | None) -> int:
    """Return how many messages an act that begins with this one has at most."""
    album = message is not None and message.media_group_id and message.forward_origin is None
    return ALBUM_MOST if album else FORWARDS_MOST


def may_be_cut(message: Message) -> bool:
    """Return whether a text is so long that the person's app may have cut it here."""
    return message.forward_origin is None and utf16_length(message.text or "") >= CUT_FROM


def _may_call(message: Message) -> bool:
    """Return whether a message in a group may be meant for the bot."""
    marked = any(mark.type in _CALLING for mark in message.entities)
    return marked or message.reply_to_message is not None


def _may_be_a_comment(message: Message) -> bool:
    """Return whether a text may be about messages that are forwarded with it."""
    command = typed(message.text or "", message.entities)
    return bool(message.text) and (command is None or command.command == "ask")


def _is_only_text(message: Message) -> bool:
    return message.text is not None and typed(message.text, message.entities) is None


def in_order(updates: Sequence[Update]) -> tuple[Message, ...]:
    """Return an act's messages in the order people see them."""
    messages = (update.message for update in updates if update.message is not None)
    return tuple(sorted(messages, key=lambda message: message.message_id))


def joined(messages: Sequence[Message], words: Callable[[Message], str]) -> str:
    """Return a text from its parts. An app that cuts between words removes what was there."""
    whole = ""
    for place, message in enumerate(messages):
        before = messages[place - 1].text if place else None
        gap = "\n" if before and utf16_length(before) < TEXT_MOST else ""
        whole += gap + words(message)
    return whole


class HandledAlbums:
    """Recently handled albums, by chat and album id."""

    def __init__(self) -> None:
        self._albums: OrderedDict[tuple[int, str], bool] = OrderedDict()

    def asked(self, chat: int, album: str) -> bool | None:
        """Return whether an album's first parts were for the bot, or None if it is unknown."""
        return self._albums.get((chat, album))

    def note(self, chat: int, album: str, *, asked: bool) -> None:
        """Remember an album whose first parts have been passed to the handler."""
        self._albums.setdefault((chat, album), asked)
        if len(self._albums) > _REMEMBERED:
            self._albums.popitem(last=False)
