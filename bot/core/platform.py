"""The port to a chat platform: calls arrive, messages are sent and edited.

`bot.core.content` is what is sent; `bot.core.errors` is what a platform may raise.

Where several processes share the chats, each chat's connection belongs to one of them at a time. A
process that was frozen still has open connections when it resumes, although another process may
have taken over. It therefore checks its lease before each call it makes and before it acts on a
message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from backends.common.file_types import PLAYED
from bot.core.arrivals import Arrival
from bot.core.asker import Asker, rooms_of
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param
from bot.core.content import Body, Content, Form
from bot.core.errors import ServedElsewhere
from bot.core.live_settings import places_of
from bot.core.panels import Panel


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPerson:
    """A person in a chat. `id` is written as in the configuration, such as `telegram:42`."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatAccount:
    """A bot's account. `invite` is the address that adds it to a chat.

    `owner` is the person who created it, if the platform reports that.
    """

    name: str
    invite: str
    owner: ChatPerson | None = None


class ChatLease:
    """This process's lease on a chat.

    This class always holds it, for a bot of a single process.
    """

    @property
    def held(self) -> bool:
        """Whether this process still holds the lease. Answers from memory."""
        return True

    def require(self) -> None:
        """Raise `ServedElsewhere` unless this process holds the lease."""
        if not self.held:
            raise ServedElsewhere


ALONE = ChatLease()


class Notes(Protocol):
    """Texts by name. They are durable once stored."""

    async def noted(self, name: str) -> str | None:
        """Return the text stored under that name, or None."""

    async def note_first(self, name: str, value: str) -> str:
        """Store a text unless the name is taken. Returns the stored text."""

    async def note(self, name: str, value: str) -> None:
        """Store a text, replacing an earlier one with that name."""


class ChatHistory(Protocol):
    """The messages of a platform whose chats the bot stores itself."""

    async def forget(self, chat: str, messages: Sequence[str]) -> None:
        """Delete these messages and overwrite their contents. Idempotent."""

    async def clear(self, chat: str) -> None:
        """Delete all messages of a chat and overwrite their contents. Idempotent."""


# ---------------------------------------------------------------- outgoing


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageRef:
    """Identifies a message, even after a restart.

    `chat` is the platform's own id of a chat, including its thread if there is one. It is opaque to
    all other code. `others` are messages that were sent with it, such as the images of an album.
    """

    platform: str
    chat: str
    message: str
    others: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatLimits:
    """A platform's limits. Lengths are in UTF-16 units, sizes in bytes, times in seconds.

    - `edit_every_s` is the shortest time between two edits of one message, `chat_every_s`
      between two requests of any kind in one chat.
    - `group_per_minute` bounds the requests per minute in a group (None: no limit),
      `overall_per_s` those of the whole bot.
    - `burst` requests in a chat may follow one another at once, as long as there are no
      more of them in `burst` times `chat_every_s`.
    - Messages older than `free_edit_s` are edited only for their final state (None: no
      such rule).
    - `previews`: images may be shown while a job runs.
    - An edit carries at most `files_per_edit` files.
    - `pings`: edits send no notification, so a short message follows after a long wait.
    - `free_answers`: the first answer to a call without a message of its own counts
      against none of these limits.
    - `sends_once`: a repeated answer to a call, and a send repeated with its nonce, show one
      message, even after a restart. A result may then come whole with its first message.
    - `plays` are the kinds of video and sound that play in place, and `animations` states
      whether animated images other than GIFs do. Others are re-encoded.
    - `measure` returns how much of `text` or `caption` a body takes, if that is not the
      length of its words.
    - `gallery`: of several images in one message, each has its own row of buttons.
    - `draft` shows an answer while it is written, without a message of its own, for half a
      minute or until the next message. Only in private chats.
    - `direct` returns a person's direct chat with the bot, for copies of results.
    - `rights_in` returns a person's rights in a server or group now: `rights_in(user, place)`.
      Raises `ChatError`.
    - `upload_in` returns how many bytes a file may have in one chat at that moment, if
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
    gallery: bool = False
    measure: Callable[[Body], int] | None = None
    upload_in: Callable[[str], int] | None = None
    draft: "ShowDraft | None" = None
    direct: Callable[[str], Awaitable[str]] | None = None
    rights_in: Callable[[str, str], Awaitable[frozenset[str]]] | None = None

    def in_chat(self, chat: str) -> "ChatLimits":
        """Return the limits that apply in one chat now."""
        return self if self.upload_in is None else replace(self, upload=self.upload_in(chat))

    free_answers: bool = False
    sends_once: bool = False


ShowDraft = Callable[[str, int, Content], Awaitable[None]]
"""Shows a draft: `draft(chat, number, content)`. One with the same number changes it.

Raises `ChatError`.
"""


# ---------------------------------------------------------------- incoming


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """An attachment of a person.

    `read` downloads it (raises `ChatError`); `size` is known before.

    Every platform passes on everything that came with a message, of any kind: the dispatcher
    decides what is used. `replied`: it belongs to the message that was replied to, or whose menu
    was opened. `name` is "" if the chat knows none. `part` identifies it among the parts of an
    album. `option` is the parameter it was given for, where a chat has file fields.
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
    """An album whose parts arrive one by one; see `Invocation.album`.

    `asks` is False for parts that request nothing by themselves: they belong to a call only if the
    album's first parts did. `begun`: earlier parts were already passed on. `partial`: the platform
    withholds the other parts.
    """

    asks: bool = True
    begun: bool = False
    partial: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardedText:
    """Another person's text, forwarded with a call. `by` is its author, "" if unknown."""

    text: str
    by: str = ""


Respond = Callable[[Content, bool], Awaitable[MessageRef | None]]
"""Answers one invocation: `respond(content, private)`.

The answer is the initial response of a Discord interaction, a reply on Telegram, a bubble on the
web page. `private` shows it to the caller alone if the platform can. Returns the message for later
edits, None if it cannot be edited (private answers). Raises `ChatError`; it may then be called
again, and a platform that recognises the repeat shows the answer once. The platform silently
confirms a button press that is never answered.
"""

Alert = Callable[[Content], Awaitable[bool]]
"""Shows a short text to the caller alone, outside any budget; returns False if it cannot."""

ShowForm = Callable[[Form], Awaitable[None]]
"""Shows a form to the person who made the call."""

MoveAside = Callable[["Invocation"], Awaitable["Invocation"]]
"""Moves a call in a group to where only its caller reads the answers; see `Invocation.moved`.

Raises `Declined`, with what the caller can do, if the bot cannot write to them there.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """A command called on any platform, by text, slash command or button.

    - `key` is unique per call. It is the same when the platform delivers the call again.
    - `token`: used with the key to find the platform's answer to the call, for a limited
      time. A send with the nonce "<key> token=<token>" then changes that answer.
    - `user` is "<platform>:<id>".
    - `options` are values the platform has already typed by the command's `Param` table;
      `text` is what remains to be parsed (all of it on text platforms).
    - `replied_to` is the bot's message that the caller replied to or whose button was
      pressed.
    - `quoted` is the text of the message they replied to or opened a menu on, by any
      author. `quoted_by` is the author's name, "" for the bot.
    - `forwarded` are other people's texts that came with the call.
    - `to_words`: the call is nothing but a reply to one of the bot's messages with files. It counts
      only if that message belongs to an answer, because "lovely!" below an image is meant for people.
    - `may_be_cut`: the person's app may have cut the text, and the chat withholds the rest.
    - `within` are ids of what the chat is part of, the widest first: its server, category
      and channel; the person, in a direct message. Rules for those apply in the chat: who
      may call, and the operator's settings.
    - `rights` are what the platform reports with this call about the caller's roles
      there, by the names a configuration gives them: "discord-role:<id>",
      "telegram:group-admins@<id>".
    - `show_form` shows a form to the caller alone. It is None if the platform has no
      forms, or if this kind of call cannot open one. It raises `ChatError`.
    - `form`: the values come from a form, so a field that is missing from the options was
      emptied.
    - `in_time` returns whether the call can still be answered for free; a later answer is an
      ordinary message and uses the chat's budget.
    - `lacks` are the rights, in the platform's own words, that the bot needs to show a result
      in the chat and does not have. A job is then refused, and the answers are private.
    - `comes_again`: the platform delivers a call again if `CommandHandler.call` has not
      returned from it, after a restart at the latest.
    - `album` is set for images that arrive one by one. `key` is then the album's, the
      same for late parts.
    - `lasting`: the chat is one conversation, which a question continues however old its last
      answer is.
    - `arrival` is the call's place among those of its person in its chat, if the platform
      took it beforehand; see `CommandHandler.arrived`.
    - `aside` moves the call out of its group. It is None where several people read every chat or
      only the caller reads this one.
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
    token: str = ""
    request: MessageRef | None = None  # the caller's own message, to reply to
    replied_to: MessageRef | None = None
    button: bool = False
    quoted: str = ""
    quoted_by: str = ""
    forwarded: tuple[ForwardedText, ...] = ()
    to_words: bool = False
    may_be_cut: bool = False
    show_form: ShowForm | None = None
    alert: Alert | None = None  # tried before a private answer; never raises
    form: bool = False
    comes_again: bool = True
    lacks: tuple[str, ...] = ()
    in_time: Callable[[], bool] = lambda: True
    album: Album | None = None
    lasting: bool = False
    arrival: Arrival | None = None
    aside: MoveAside | None = None

    def moved(self, chat: str, respond: Respond) -> "Invocation":
        """Return this call with its answers in a chat that only its caller reads.

        The operator's settings for the chat that it comes from still apply.
        """
        return replace(
            self,
            chat=chat,
            within=tuple(reversed(self.places)),
            group=False,
            respond=respond,
            request=None,
            lacks=(),
            aside=None,
        )

    @property
    def places(self) -> tuple[str, ...]:
        """Return the ids by which a configuration may name the chat, the nearest first."""
        return places_of(self.chat, self.within)

    @property
    def asker(self) -> Asker:
        """Return who calls, and where."""
        rooms = rooms_of(self.platform, self.places)
        return Asker(user=self.user, rooms=rooms, rights=self.rights, group=self.group)


class CommandHandler(Protocol):
    """The entry point for calls, given to every platform."""

    commands: Sequence[Command]

    def arrived(self, user: str, chat: str) -> Arrival:
        """Record that a call arrived from a person, before anything is awaited for it.

        A person's calls in one chat are accepted in the order of these places. A platform that
        awaits nothing before it calls the handler need not take one: `call` does. `chat` is any id
        that is the same for all calls of the chat. The platform settles the place.
        """

    def answered(self, platform: str) -> None:
        """Record that the platform answers, which ends the pauses of an outage.

        A platform reports each new connection, and each answer after a failure.
        """

    async def call(self, invocation: Invocation) -> None:
        """Carry out a call. When it returns, whatever it accepted is durable.

        Once a shutdown has begun, it does not return for a call that the platform delivers again.
        Raises nothing except `CancelledError`, and never waits for an answer to be sent: answers go
        out through `invocation.respond` from the bot's own tasks.
        """

    async def panel(self, invocation: Invocation) -> Panel:
        """Return what a panel of the web page shows instead of the answer to a call.

        Raises `Declined` or `QueueError`.
        """

    async def language_of(self, user: str) -> str | None:
        """Return the language a person chose; None if they chose none or it cannot be read."""

    def telling_languages(
        self, listener: Callable[[str, str | None], None]
    ) -> AbstractContextManager[None]:
        """Call `listener(user, language)` when a person chooses a language, until the block ends.

        The language is None when they reset it to that of their chats.
        """

    def words_of(self, command: str, text: str) -> str:
        """Return the words of a typed call without its model and options, "" if there are none."""

    def suggest(self, param: Param, typed: str, asker: Asker) -> Sequence[str]:
        """Return up to 25 values for a parameter, best first, from memory."""


class ChatPlatform(Protocol):
    """A chat service. `run` receives calls; `send` and `edit` deliver messages.

    `connected` is set while `run` has a connection; otherwise `send` and `edit` raise
    `ChatUnavailable`. All errors are `ChatError`s.
    """

    name: str
    limits: ChatLimits
    connected: asyncio.Event

    async def run(self, handler: CommandHandler) -> None:
        """Receive calls until cancelled, reconnecting.

        Raises `ChatRefused` if that is impossible.
        """

    async def check(self) -> str:
        """Log in, return a line that names the account, and log out. Raises `ChatError`."""

    async def send(
        self,
        chat: str,
        content: Content,
        *,
        reply_to: MessageRef | None = None,
        nonce: str | None = None,
    ) -> MessageRef:
        """Post a message. Idempotent only with `nonce`, as far as the platform supports it."""

    async def edit(self, ref: MessageRef, content: Content) -> None:
        """Make a message show this content and nothing else. Idempotent."""

    async def delete(self, ref: MessageRef) -> None:
        """Delete one of the bot's messages, if it still exists. Idempotent."""

    def is_group(self, chat: str) -> bool:
        """Return whether several people read the chat."""
