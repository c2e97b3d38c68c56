"""The state of the fake Discord: channels, messages, interactions, and its limits.

No network here.
"""

import asyncio
import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.clock import kept_waiting_s

EPOCH_MS = 1_420_070_400_000  # the first millisecond of Discord's ids
GUILD_ID = 1000
APPLICATION_ID = 2000
INVITED = 274878008320  # the bot's permissions by the invitation in docs/discord.md
BOT_ROLE_ID = 5000  # the role that Discord makes for the bot in a server
EPHEMERAL = 64
HOUR_S = 3600.0
NONCE_S = 300.0  # how long a nonce is remembered; Discord says "a few minutes"
ROWS_MOST = 5
BUTTONS_MOST = 5
FORM_LABEL_MOST = 45
LABEL_MOST = 80
CUSTOM_ID_MOST = 100

_ESCAPED = re.compile(r"\\([^\w\s])")


@dataclass(kw_only=True)
class FakeFile:
    """An attachment as it was uploaded; `id` is Discord's."""

    id: int
    name: str
    data: bytes
    mime: str = "application/octet-stream"
    alt: str = ""
    moved_to: str | None = None  # its address answers with a redirect
    until: asyncio.Event | None = None  # its address answers only then


@dataclass(kw_only=True)
class FakeButton:
    label: str
    custom_id: str
    danger: bool


@dataclass(kw_only=True, eq=False)
class FakeMessage:
    """A message as it is now; `history` holds every text it ever showed, in order.

    The `content` of a layout is the text of its components.
    """

    id: int
    channel_id: int
    content: str
    flags: int = 0
    author: tuple[int, str] | None = None  # a person's id and name; None for the bot
    files: list[FakeFile] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    carries: dict[str, Any] = field(default_factory=dict)  # stickers, a poll: as Discord sends them
    seen_only_by: int | None = None  # an ephemeral message
    thinking: bool = False
    reply_to: int | None = None
    nonce: str | None = None
    made_by: "FakeInteraction | None" = None  # what it answers
    notified: frozenset[str] = frozenset()  # user ids, "everyone", "roles"
    history: list[str] = field(default_factory=list)
    edited_by_token: int = 0  # edits through an interaction's token
    edited_by_bot: int = 0

    @property
    def shown(self) -> str:
        """The text as a person reads it: escapes resolved, everything else as sent."""
        return _ESCAPED.sub(r"\1", self.content)

    @property
    def buttons(self) -> list[FakeButton]:
        return [
            FakeButton(
                label=each["label"], custom_id=each["custom_id"], danger=each.get("style") == 4
            )
            for row in self.components
            if row["type"] == 1
            for each in row["components"]
        ]


@dataclass(kw_only=True, eq=False)
class Channel:
    """A channel as a person sees it: its messages in order, without deleted ones."""

    id: int
    owner: int | None = None  # the person of a direct message
    thread: bool = False
    parent: int | None = None  # a thread's channel, or a channel's category
    forum: bool = False  # takes posts, which are threads, and no messages
    away: bool = False  # the bot is no member there; only people who have installed it can call it
    told: bool = True  # the gateway reports it when the bot connects
    guild: int = GUILD_ID
    archived: bool = False
    permissions: int = INVITED  # of the bot
    refusal: tuple[int, int] | None = None  # status and code of every answer, once set
    all_messages: list[FakeMessage] = field(default_factory=list)
    by_nonce: dict[str, FakeMessage] = field(default_factory=dict)  # including deleted ones

    @property
    def messages(self) -> list[FakeMessage]:
        """The messages that everyone there sees."""
        return [message for message in self.all_messages if message.seen_only_by is None]

    def seen_by(self, person_id: int) -> list[FakeMessage]:
        """Return what one person sees, including private answers."""
        return [each for each in self.all_messages if each.seen_only_by in {None, person_id}]

    def find(self, message_id: int) -> FakeMessage | None:
        return next((each for each in self.all_messages if each.id == message_id), None)


@dataclass(kw_only=True, eq=False)
class FakeInteraction:
    """A call as Discord tracks it. `choices` are the answer to an autocomplete."""

    id: int
    token: str
    kind: int
    person_id: int
    channel_id: int
    created_at: float
    kept_waiting_s: float = field(default_factory=kept_waiting_s)  # until it was made
    response_type: int | None = None
    message: FakeMessage | None = None  # its first answer
    source: FakeMessage | None = None  # the message whose button was pressed
    followups: list[FakeMessage] = field(default_factory=list)
    choices: list[str] | None = None
    form: dict[str, Any] | None = None  # the form it was answered with

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the form as the person finds them, by name; "" if nothing is chosen."""
        rows = (self.form or {}).get("components", [])
        return {row["component"]["custom_id"]: row["component"].get("value", "") for row in rows}

    @property
    def selects(self) -> dict[str, list[str]]:
        """The choices of the form's menus, by the menus' names."""
        parts = [row["component"] for row in (self.form or {}).get("components", [])]
        return {
            each["custom_id"]: [option["value"] for option in each["options"]]
            for each in parts
            if each["type"] == 3
        }

    @property
    def uploads(self) -> set[str]:
        """The names of the form's fields for files."""
        parts = [row["component"] for row in (self.form or {}).get("components", [])]
        return {each["custom_id"] for each in parts if each["type"] == 19}

    @property
    def answer(self) -> FakeMessage | None:
        """The answer that the person was shown, once it is more than "thinking…"."""
        if self.followups:
            return self.followups[-1]
        return self.message if self.message is not None and not self.message.thinking else None


@dataclass(kw_only=True)
class Fault:
    """A scripted failure for the next `times` requests that match.

    `acting` carries the request out first; `drop` closes the connection without an answer.
    """

    method: str
    path: re.Pattern[str]
    status: int = 500
    code: int = 0
    times: int = 1
    retry_after: float | None = None
    acting: bool = False
    drop: bool = False
    page: str | None = None  # a body that is no JSON, such as Cloudflare's
    until: asyncio.Event | None = None  # the answer, a right one, comes only then

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and bool(self.path.fullmatch(path))


class Refusal(Exception):
    """An error answer from Discord."""

    def __init__(self, status: int, code: int = 0, message: str = "refused") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.errors: dict[str, Any] = {}  # by field


class TooMany(Exception):
    """A 429; `code` 30046 is the limit on messages over an hour old."""

    def __init__(self, retry_after: float, *, scope: str, code: int = 0) -> None:
        super().__init__(scope)
        self.retry_after = retry_after
        self.scope = scope
        self.code = code


@dataclass(kw_only=True)
class Window:
    """At most `most` requests in any `per_s` seconds. Pure: it is told the time."""

    most: int
    per_s: float
    taken: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> float | None:
        """Count one request; return the wait in seconds if it is one too many."""
        while self.taken and self.taken[0] <= now - self.per_s:
            self.taken.popleft()
        if len(self.taken) >= self.most:
            return self.taken[0] + self.per_s - now
        self.taken.append(now)
        return None

    def left(self, now: float) -> tuple[int, float]:
        """Return how many requests are left, and in how many seconds the window is empty again."""
        alive = [at for at in self.taken if at > now - self.per_s]
        return self.most - len(alive), (alive[0] + self.per_s - now if alive else 0.0)


@dataclass(kw_only=True)
class Limits:
    """Discord's limits as people observed them; None in a field removes that limit.

    The budget of edits of messages over an hour old is unpublished; the default is a strict guess.
    """

    per_channel: tuple[int, float] | None = (5, 5.0)
    overall: tuple[int, float] | None = (50, 1.0)
    old_message: tuple[int, float] | None = (1, 300.0)
    refused: Counter[str] = field(default_factory=Counter)
    _windows: dict[str, Window] = field(default_factory=dict)

    def check(self, kind: str, channel_id: int, message: FakeMessage | None, now: float) -> None:
        """Raise `TooMany` for a request over a limit; `kind` is "POST", "PATCH" or "DELETE"."""
        self._take("overall", "global", self.overall, now)
        self._take("channel", f"{kind} {channel_id}", self.per_channel, now)
        if kind == "PATCH" and message is not None and now - created_at(message.id) > HOUR_S:
            self._take("old message", f"old {message.id}", self.old_message, now, code=30046)

    def _take(
        self, scope: str, key: str, limit: tuple[int, float] | None, now: float, *, code: int = 0
    ) -> None:
        if limit is None:
            return
        window = self._windows.setdefault(key, Window(most=limit[0], per_s=limit[1]))
        wait_s = window.take(now)
        if wait_s is not None:
            self.refused[scope] += 1
            raise TooMany(wait_s, scope=scope, code=code)

    def window(self, kind: str, channel_id: int) -> Window | None:
        return self._windows.get(f"{kind} {channel_id}")


def created_at(snowflake: int) -> float:
    """Return the time at which an id was made, in UNIX seconds."""
    return ((snowflake >> 22) + EPOCH_MS) / 1000


class Ids:
    """Makes ids that contain their time, ascending and unique."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._counter = itertools.count()

    def new(self) -> int:
        milliseconds = int(self._now() * 1000) - EPOCH_MS
        return (milliseconds << 22) | (next(self._counter) & 0x3FFFFF)


def notified(content: str, allowed: dict[str, Any] | None) -> frozenset[str]:
    """Return who gets a notification from a new message: user ids, "everyone", "roles"."""
    rules = {"parse": ["users", "roles", "everyone"]} if allowed is None else allowed
    parse, users = rules.get("parse", []), {str(each) for each in rules.get("users", [])}
    found: set[str] = set()
    for person in re.findall(r"<@!?(\d+)>", content):
        if "users" in parse or person in users:
            found.add(person)
    if "everyone" in parse and re.search(r"@(everyone|here)", content):
        found.add("everyone")
    if "roles" in parse and re.search(r"<@&\d+>", content):
        found.add("roles")
    return frozenset(found)


def transcript(channels: Iterator[Channel]) -> str:
    """Return every channel as text, for a test that failed."""
    lines: list[str] = []
    for channel in channels:
        lines.append(f"channel {channel.id}:")
        lines += [
            f"  {each.id} {each.content!r} files={len(each.files)} only={each.seen_only_by}"
            for each in channel.all_messages
        ]
    return "\n".join(lines)


def check_form(form: dict[str, Any]) -> None:
    """Refuse a form as Discord does: too many fields, or texts that are too long."""
    rows = form["components"]
    parts = [row["component"] for row in rows]
    fits = (
        1 <= len(rows) <= ROWS_MOST
        and len(form["title"]) <= FORM_LABEL_MOST
        and all(1 <= len(row["label"]) <= FORM_LABEL_MOST for row in rows)
        and all(1 <= len(each["options"]) <= 25 for each in parts if each["type"] == 3)
        and len({each["custom_id"] for each in parts}) == len(parts)
    )
    if not fits:
        raise Refusal(400, 50035, "Invalid Form Body: the form")


def check_row(row: dict[str, Any]) -> bool:
    """Return whether Discord accepts this many buttons in a row."""
    return 1 <= len(row.get("components", [])) <= BUTTONS_MOST


def check_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Refuse rows of buttons as Discord does: too many, too long, or two with one id."""
    buttons = [each for row in rows for each in row.get("components", [])]
    ids = [each["custom_id"] for each in buttons if "custom_id" in each]
    fits = (
        len(rows) <= ROWS_MOST
        and all(map(check_row, rows))
        and all(1 <= len(each.get("label", " ")) <= LABEL_MOST for each in buttons)
        and all(1 <= len(each) <= CUSTOM_ID_MOST for each in ids)
        and len(ids) == len(set(ids))
    )
    if not fits:
        raise Refusal(400, 50035, "Invalid Form Body: components")
