"""The state of the fake Telegram: chats, messages, waiting updates, and limits. No network here."""

import asyncio
import io
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

Json = dict[str, Any]

BOT_ID = 700
BOT_NAME = "usher_test_bot"
ANONYMOUS_ADMIN = 1087968824
_COMMAND = re.compile(r"(?<![\w/])/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?")
_MENTION = re.compile(r"(?<![\w@])@[A-Za-z]\w{2,31}", re.ASCII)


@dataclass(kw_only=True)
class FakeFile:
    """A file on Telegram's servers; `photo` tells whether it is shown as an image."""

    id: str
    name: str
    data: bytes
    mime: str
    photo: bool = False
    video: str = ""  # "video", "animation" or "audio" where it is played
    about: dict[str, Any] = field(
        default_factory=dict
    )  # what was said of a video: its size, its still
    size: int | None = None  # said to be so large, whatever `data` holds
    until: asyncio.Event | None = None  # it is handed out only then

    def __post_init__(self) -> None:
        self.size = len(self.data) if self.size is None else self.size

    @property
    def dimensions(self) -> tuple[int, int]:
        with Image.open(io.BytesIO(self.data)) as image:
            return image.size


@dataclass(kw_only=True)
class FakeButton:
    label: str
    data: str
    danger: bool


@dataclass(kw_only=True, eq=False)
class FakeMessage:
    """A message as it is now; `history` holds every text it ever showed, in order."""

    id: int
    chat_id: int
    sender: int
    date: int
    text: str = ""
    entities: list[Json] = field(default_factory=list)
    thread: int | None = None
    file: FakeFile | None = None
    keyboard: list[list[Json]] = field(default_factory=list)
    reply_to: int | None = None
    album: str | None = None
    anonymous: bool = False
    preview: bool = False
    spoiler: bool = False
    awaits: bool = False
    carries: Json = field(default_factory=dict)
    reaction: str = ""  # the bot's
    history: list[str] = field(default_factory=list)
    edits: int = 0

    @property
    def shown(self) -> str:
        """The text as a person reads it: characters that only prevent mentions are invisible."""
        return self.text.replace("\u2060", "")

    @property
    def buttons(self) -> list[FakeButton]:
        return [
            FakeButton(
                label=each["text"],
                data=each["callback_data"],
                danger=each.get("style") == "danger",
            )
            for row in self.keyboard
            for each in row
        ]

    @property
    def notified(self) -> list[str]:
        """The mentions of a text: names Telegram finds by itself, and people named by an entity."""
        codes = [each for each in self.entities if each["type"] in {"code", "pre"}]
        found = [
            match[0]
            for match in _MENTION.finditer(self.text)
            if not any(_covers(code, units(self.text[: match.start()])) for code in codes)
        ]
        named = [str(e["user"]["id"]) for e in self.entities if e["type"] == "text_mention"]
        return found + named

    def styled(self, kind: str) -> list[str]:
        """Return the parts of the text with this formatting."""
        raw = self.text.encode("utf-16-le")
        return [
            raw[each["offset"] * 2 : (each["offset"] + each["length"]) * 2].decode("utf-16-le")
            for each in self.entities
            if each["type"] == kind
        ]


def _covers(entity: Json, offset: int) -> bool:
    return bool(entity["offset"] <= offset < entity["offset"] + entity["length"])


@dataclass(kw_only=True, eq=False)
class FakeChat:
    """A chat as people see it: its messages in order, without deleted ones.

    `refusal` is the answer to everything in this chat, once set: status, text and parameters.
    """

    id: int
    kind: str
    title: str
    forum: bool = False
    admins: tuple[int, ...] = ()
    left: frozenset[int] = frozenset()  # people who have written here and are gone
    muted: str = ""  # "bot" or "everyone": who may not write here
    refusal: tuple[int, str, Json] | None = None
    messages: list[FakeMessage] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    drafts: dict[int, list[str]] = field(default_factory=dict)
    reactions: frozenset[str] | None = None  # those allowed; None: all

    def find(self, message_id: int) -> FakeMessage | None:
        return next((each for each in self.messages if each.id == message_id), None)

    @property
    def from_bot(self) -> list[FakeMessage]:
        return [each for each in self.messages if each.sender == BOT_ID]


@dataclass(kw_only=True, eq=False)
class FakePress:
    """A pressed button; `alert` is what appeared above the chat."""

    id: str
    person_id: int
    at: float
    answered: bool = False
    alert: str | None = None


@dataclass(kw_only=True)
class Fault:
    """A scripted failure for the next `times` calls of a method.

    `acting` carries the call out first; `drop` closes the connection without an answer; `hang_s`
    delays the answer, `until` waits for an event; `page` is a body that is no JSON.
    """

    method: str
    status: int = 500
    text: str = "Internal Server Error"
    parameters: Json = field(default_factory=dict)
    times: int = 1
    acting: bool = False
    drop: bool = False
    hang_s: float = 0.0
    until: asyncio.Event | None = None
    page: str | None = None


class Refusal(Exception):
    """An error answer from Telegram."""

    def __init__(self, text: str, *, status: int = 400, parameters: Json | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.parameters = parameters or {}


@dataclass(kw_only=True)
class Limits:
    """Telegram's documented limits on sending and editing; None in a field removes that limit.

    Each is a number of requests in a number of seconds.
    """

    private: tuple[int, float] | None = (1, 1.0)
    group: tuple[int, float] | None = (20, 60.0)
    overall: tuple[int, float] | None = (30, 1.0)
    refused: Counter[str] = field(default_factory=Counter)
    _taken: dict[str, deque[float]] = field(default_factory=dict)

    def check(self, chat_id: int, now: float) -> None:
        """Raise `Refusal` for a request over a limit."""
        self._take("overall", "overall", self.overall, now)
        scope = "private" if chat_id > 0 else "group"
        self._take(scope, f"{chat_id}", self.private if chat_id > 0 else self.group, now)

    def _take(self, scope: str, key: str, limit: tuple[int, float] | None, now: float) -> None:
        if limit is None:
            return
        most, per_s = limit
        taken = self._taken.setdefault(key, deque())
        while taken and taken[0] <= now - per_s:
            taken.popleft()
        if len(taken) >= most:
            self.refused[scope] += 1
            wait_s = int(taken[0] + per_s - now) + 1
            text = f"Too Many Requests: retry after {wait_s}"
            raise Refusal(text, status=429, parameters={"retry_after": wait_s})
        taken.append(now)


class Counters:
    """Makes ids: of updates, messages, files and presses."""

    def __init__(self) -> None:
        self.updates = itertools.count(5_000_001)
        self.messages = itertools.count(101)
        self.others = itertools.count(1)

    def name(self, kind: str) -> str:
        return f"{kind}-{next(self.others)}"


def units(text: str) -> int:
    """Return a length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def command_entities(text: str) -> list[Json]:
    """Return the commands that Telegram finds in what a person typed."""
    return [
        {
            "type": "bot_command",
            "offset": units(text[: found.start()]),
            "length": units(found[0]),
        }
        for found in _COMMAND.finditer(text)
    ]


def typed_entities(text: str) -> list[Json]:
    """Return what Telegram marks in what a person typed: commands, and names after "@"."""
    names = [
        {"type": "mention", "offset": units(text[: found.start()]), "length": units(found[0])}
        for found in _MENTION.finditer(text)
    ]
    return sorted((*command_entities(text), *names), key=lambda each: each["offset"])


def transcript(chats: Iterable[FakeChat]) -> str:
    """Return every chat as text, for a test that failed."""
    lines: list[str] = []
    for chat in chats:
        lines.append(f"chat {chat.id}:")
        for each in chat.messages:
            what = f" [{each.file.name}]" if each.file else ""
            lines.append(f"  {each.id} {each.sender}: {each.text!r}{what} {each.buttons}")
    return "\n".join(lines)
