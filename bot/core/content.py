"""What a message shows, as structure and cut into pages, and the forms a person fills in.

Texts travel as structure, not as markup: a plain `str` is shown literally, a `Moment` is a point in
time the platform shows in its own way, `Markdown` is a model's answer. So no prompt and no answer
can ever become a mention, a link or a tag by accident.

Lengths of pages are UTF-16 units, as the chats count. A page never ends within a surrogate pair,
and a code fence that a cut would tear is closed on one page and opened again on the next.
"""

import re
from dataclasses import dataclass
from math import ceil, floor

from queueing.core.requests import File

_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time (UNIX seconds), shown in the reader's own time or as a live countdown.

    `clock` requests the time of day alone, as within a sentence. `before` is the word a time of
    day needs and a countdown does not, such as "at ". `day` requests the day beside the time of
    day, for a moment that is far off.
    """

    at: float
    clock: bool = False
    before: str = ""
    day: bool = False


@dataclass(frozen=True, slots=True)
class Period:
    """The time between two moments (UNIX seconds), shown as two times of day, to the minute.

    Whole minutes, so that what is shown holds all of it: the first is rounded down, the last up.
    """

    begins_at: float
    ends_at: float
    day: bool = False

    @classmethod
    def around(cls, earliest: float, latest: float) -> "Period":
        """Return the whole minutes that hold the time between two moments."""
        begins_at = floor(earliest / _MINUTE_S) * _MINUTE_S
        return cls(begins_at, max(begins_at, ceil(latest / _MINUTE_S) * _MINUTE_S))

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Its two ends, or one if they are the same, as times of day."""
        ends = dict.fromkeys((self.begins_at, self.ends_at))
        return tuple(Moment(at, clock=True, day=self.day) for at in ends)


@dataclass(frozen=True, slots=True)
class Markdown:
    """Text in the Markdown a language model writes; formatting is kept where it can be."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Emphasised words, such as a model's name at the head of its line.

    `job` is the past job of a line headed by these words: if a platform can, the button that shows
    it appears beside the line, and so does its image, if there is one.
    """

    text: str
    job: int | None = None
    has_image: bool = False


@dataclass(frozen=True, slots=True)
class CommandText:
    """Text a person can type, such as "/help image"; if the platform can, a tap inserts it."""

    text: str


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """How much of something is done, from 0 to 1."""

    share: float


Part = str | Moment | Period | Markdown | Strong | CommandText | ProgressBar
Body = tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """A button that works after any restart: all it needs is the command and the job it carries.

    `number` says which of the job's images is meant, counted from 1; it comes back as the option
    "number", the job's id as "id". `hint` explains a short label in words, if a platform can show
    or read that out.
    """

    command: str
    job_id: int
    label: str
    danger: bool = False
    number: int | None = None
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What a message shows. Equal contents look the same, so an edit between them is needless.

    `files` are images or attachments (the first image is shown large); `buttons` are rows.
    `mention` is the only platform user id this message may notify.
    `spoiler` hides the images until a reader asks for them; `voice` says that the only file is
    an answer read aloud, which a platform may show as a voice message; `awaits` says that a reply to this
    very message is hoped for, so that a platform may open the reader's keyboard for it. A `secret`
    content is shown and kept nowhere: a platform whose messages we keep ourselves shows it once.
    """

    body: Body = ()
    files: tuple[File, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    mention: str | None = None
    spoiler: bool = False
    voice: bool = False
    awaits: bool = False
    secret: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """A line to fill in; `name` is the command's parameter, `long` gives it several lines."""

    name: str
    label: str
    value: str = ""
    long: bool = False
    required: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """Asks for a command's values: at most five fields, because Discord shows no more.

    Submitted, it arrives as a call of `command` with these values and, if it is about a job, the
    option "id". Like a button it works after any restart.
    """

    command: str
    title: str
    fields: tuple[FormField, ...]
    send: str
    job_id: int | None = None


# "++" and "*+" are possessive: text without a fence is passed over once.
_FENCE = re.compile(r"^(```++|~~~++)([^\n`]*+)$", re.MULTILINE)
_CLOSING_ROOM = 24  # for the fence closed at the end and opened at the beginning of a page


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def pages(text: str, limit: int) -> list[str]:
    """Return the text in pages of at most `limit` units each; at least one, perhaps empty.

    Cuts after a blank line, otherwise after a line, a word, or anywhere.
    """
    limit = max(limit, 2 * _CLOSING_ROOM)
    made: list[str] = []
    opened = ""
    while len(text) > limit or utf16_length(opened + text) > limit:
        room = limit - utf16_length(opened) - _CLOSING_ROOM
        cut = _cut(text, room)
        page = opened + text[:cut].rstrip()
        text = text[cut:].lstrip("\n")
        fence = _open_fence(page)
        made.append(page + (f"\n{fence[0]}" if fence else ""))
        opened = f"{fence[0]}{fence[1]}\n" if fence else ""
    made.append(opened + text)
    return made


def _cut(text: str, room: int) -> int:
    """Return how many characters go on this page: at least one."""
    end = min(len(text), room)
    while end > 1 and utf16_length(text[:end]) > room:
        end -= max(1, (utf16_length(text[:end]) - room) // 2)
    end = max(end, 1)
    for gap in ("\n\n", "\n", " "):
        at = text.rfind(gap, end // 2, end)
        if at > 0:
            return at + len(gap)
    return end


def _open_fence(page: str) -> tuple[str, str] | None:
    """Return the marker and language of a fence left open at the end of a page."""
    fence: tuple[str, str] | None = None
    for found in _FENCE.finditer(page):
        marker, language = found[1], found[2].strip()
        if fence is None:
            fence = (marker[:12], language[:8])
        elif marker.startswith(fence[0]) and not language:
            fence = None
    return fence
