"""What a chat platform is to the rest of the bot: calls arrive, messages are sent and edited.

`bot.core.content` is what is sent, `bot.core.errors` what a platform may raise.

Where several processes share the chats, a chat's connection belongs to one of them at a time. A
process that was frozen finds its connections open when it comes back, and another process in its
place: so it looks before each call it makes, and before it acts on what it heard.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from backends.common.file_types import PLAYED
from bot.core.arrivals import Arrival
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param
from bot.core.content import Content, Form
from bot.core.errors import ServedElsewhere
from bot.core.live_settings import places_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPerson:
    """A person of a chat; `id` is written as in the configuration, such as `telegram:42`."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatAccount:
    """A bot's account; `invite` is the address that brings it into a chat.

    `owner` is the person who made it, if the chat tells.
    """

    name: str
    invite: str
    owner: ChatPerson | None = None


class ChatLease:
    """A chat that is this process's; this one always is, because there is no other process."""

    @property
    def held(self) -> bool:
        """Whether the chat is still this process's, from memory."""
        return True

    def require(self) -> None:
        """Raise `ServedElsewhere` unless the chat is this process's."""
        if not self.held:
            raise ServedElsewhere


ALONE = ChatLease()


class Notes(Protocol):
    """Texts by name, durable once noted."""

    async def noted(self, name: str) -> str | None:
        """Return the text stored under that name, or None."""

    async def note_first(self, name: str, value: str) -> str:
        """Store a text unless there is one of that name; return the one that is stored."""

    async def note(self, name: str, value: str) -> None:
        """Store a text, replacing an earlier one of that name."""


class ChatHistory(Protocol):
    """The messages of a platform's chats, where the bot keeps them itself."""

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Delete these messages and overwrite what they held. Idempotent."""

    async def clear(self, chat: str) -> None:
        """Delete all of a chat's messages and overwrite what they held. Idempotent."""


# ---------------------------------------------------------------- outgoing


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageRef:
    """Finds a message again after any restart.

    `chat` is the platform's own notation of a chat (with its thread if there is one), opaque to all
    other code.
    """

    platform: str
    chat: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatLimits:
    """A platform's limits. Lengths in UTF-16 units, sizes in bytes, times in seconds.

    `edit_every_s` is the least time between two edits of one message, `chat_every_s` between two
    requests of any kind in one chat, `group_per_minute` bounds requests a minute in a group (None:
    no such bound), `overall_per_s` the whole bot. `burst` requests in a chat may follow one another
    at once, as long as there are no more of them in `burst` times `chat_every_s`. Messages older
    than `free_edit_s` are edited only for their final state (None: no such rule). `previews` says
    whether images may be shown while a job runs. An edit carries at most `files_per_edit` files.
    `pings` says that edits send no notification, so a short message follows after a long wait.
    `free_answers` says that the first answer to a call without a message of its own counts against
    none of these limits. `plays` are the kinds of videos and sounds played in place,
    `animations` says whether animated images other than GIFs play there; others are
    re-encoded. `upload_in` returns how many bytes a file may have in one chat at that moment, if
    that differs from `upload`.
    """

    text: int
    caption: int
    upload: int
    image: int
    download: int
    edit_every_s: float
    chat_every_s: float
    overall_per_s: float
    group_per_minute: int | None = None
    burst: int = 1
    free_edit_s: float | None = None
    previews: bool = False
    files_per_edit: int = 10
    pings: bool = True
    plays: frozenset[str] = PLAYED
    animations: bool = True
    upload_in: Callable[[str], int] | None = None

    def in_chat(self, chat: str) -> "ChatLimits":
        """Return the limits as they are in one chat now."""
        return self if self.upload_in is None else replace(self, upload=self.upload_in(chat))

    free_answers: bool = False


# ---------------------------------------------------------------- incoming


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A person's attachment; `read` downloads it (raises `ChatError`), `size` is known first.

    Every platform passes on everything that came with a message, of any kind: the dispatch decides
    what is used. `replied` says that it belongs to the message that is replied to, or whose menu
    was opened. `name` is "" if the chat knows none. `part` names it among the parts of an album,
    `option` is the parameter it was given for, where a chat has fields for files.
    """

    kind: AttachmentKind
    name: str
    mime: str
    size: int
    read: Callable[[], Awaitable[bytes]]
    replied: bool = False
    part: str = ""
    option: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Album:
    """What is known of an album whose parts arrive one by one; see `Invocation.album`.

    `asks` is False for parts that ask for nothing by themselves: they are a call only if the album
    was one. `begun` says that earlier parts were passed on before; `partial`, that the service
    withholds the other parts.
    """

    asks: bool = True
    begun: bool = False
    partial: bool = False


Respond = Callable[[Content, bool], Awaitable[MessageRef | None]]
"""Answers one invocation: `respond(content, private)`.

This is the initial response of a Discord interaction, a reply on Telegram, a bubble on the web
page. `private` shows it to the caller alone if the platform can. Returns the message for later
edits, None if it cannot be edited (private answers). Raises `ChatError`; then it may be called
again, and if a platform recognises it, the same answer is shown once. The platform silently
confirms a button press that is never answered.
"""

Alert = Callable[[Content], Awaitable[bool]]
"""Shows a short text to the caller alone, outside any budget; returns False if it cannot."""

ShowForm = Callable[[Form], Awaitable[None]]
"""Shows a form to the person who made the call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """A command called on any platform, by text, by slash command or by a button.

    `key` is unique per call and the same when the platform delivers the call again. `user` is
    "<platform>:<id>". `options` are values the platform has already typed by the command's `Param`
    table; `text` is what remains to be parsed (all of it on text platforms). `replied_to` is the
    bot's message the caller replied to or whose button was pressed; `quoted` are the words of the
    message they replied to or opened a menu on, by any author; `quoted_by` is the author's name, ""
    for the bot. `within` are ids of what the chat is part of, the widest first: its server,
    category and channel; the person, in a direct message. Rules for those hold in the chat: who may
    call, and the operator's settings.

    `rights` are what the platform reports with this call about the caller's standing there, by the
    names a configuration gives them: "discord-role:<id>", "telegram:group-admins@<id>".

    `show_form` shows a form to the caller alone and is None if the platform has none, or if this
    kind of call cannot open one. It raises `ChatError`. `form` says that the values come from one:
    a field that is missing from the options was emptied. `comes_again` says that the platform
    delivers a call once more that `CommandHandler.call` has not returned from, after a restart at
    the latest.

    `album` is set for images that arrive one by one: `key` is then the album's, the same for
    parts that come late.

    `arrival` is the call's place among those of its person in its chat, if the platform took it
    beforehand; see `CommandHandler.arrived`.
    """

    key: str
    platform: str
    user: str
    user_name: str
    chat: str
    group: bool
    command: str
    respond: Respond
    text: str = ""
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    files: tuple[Attachment, ...] = ()
    language: str | None = None
    rights: frozenset[str] = frozenset()
    within: tuple[str, ...] = ()
    request: MessageRef | None = None  # the caller's own message, to reply to
    replied_to: MessageRef | None = None
    button: bool = False
    quoted: str = ""
    quoted_by: str = ""
    show_form: ShowForm | None = None
    alert: Alert | None = None  # tried before a private answer; raises nothing
    form: bool = False
    comes_again: bool = True
    album: Album | None = None
    arrival: Arrival | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Return the ids by which a configuration may name the chat, the nearest first."""
        return places_of(self.chat, self.within)


class CommandHandler(Protocol):
    """The one way in, given to every platform."""

    commands: Sequence[Command]

    def arrived(self, user: str, chat: str) -> Arrival:
        """Note that a call arrived from a person, before anything is awaited for it.

        A person's calls in one chat are accepted in the order of these places. A platform that
        calls the handler without awaiting anything beforehand need not take one: `call` does.
        `chat` is any notation that is the same for all calls of the chat. The platform settles the
        place.
        """

    async def call(self, invocation: Invocation) -> None:
        """Carry out a call. When it returns, whatever it accepts is durable.

        It does not return for a call that comes again, once a stop has begun.
        Never raises but `CancelledError`, and never waits for an answer to be sent: answers go
        out through `invocation.respond` from the bot's own tasks.
        """

    async def language_of(self, user: str) -> str | None:
        """Return the language a person chose; None if they chose none, or it cannot be read."""

    def telling_languages(
        self, hearer: Callable[[str, str | None], None]
    ) -> AbstractContextManager[None]:
        """Call `hearer(user, language)` whenever a person chooses one, until the block ends.

        The language is None when they leave it to their chats again.
        """

    def suggest(self, param: Param, typed: str, user: str) -> Sequence[str]:
        """Return up to 25 values for a parameter, best first, from memory."""


class ChatPlatform(Protocol):
    """A chat service. `run` receives calls; `send` and `edit` deliver messages.

    `connected` is set while `run` has a connection, and so while a delivery is worth a try; `send`
    and `edit` called at other times raise `ChatUnavailable`. Errors are `ChatError`s only.
    """

    name: str
    limits: ChatLimits
    connected: asyncio.Event

    async def run(self, handler: CommandHandler) -> None:
        """Receive until cancelled, reconnecting. Raises `ChatRefused` when that is impossible."""

    async def check(self) -> str:
        """Log in, return a line that names the account, log out. Raises `ChatError`."""

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        """Post a message. Not idempotent; with `nonce`, as far as the platform supports it."""

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Make a message show this content and nothing else. Idempotent."""

    async def delete(self, ref: MessageRef) -> None:
        """Remove one of the bot's messages; a message that is already gone is no error. Idempotent."""

    def is_group(self, chat: str) -> bool:
        """Return whether several people read that chat."""
