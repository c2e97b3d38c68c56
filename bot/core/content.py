"""Message content as structured values, its division into pages, and forms.

Texts are structure, not markup. A plain `str` is shown literally, a `Moment` is a point in time
that each platform shows in its own way, and `Markdown` is a model's answer. A prompt or an answer
can therefore never become a mention, a link or a tag by accident.

Page lengths are UTF-16 units, as the chats count. A page never ends within a surrogate pair. A code
fence that a cut would split is closed on one page and reopened on the next.
"""

import re
from dataclasses import dataclass, field
from math import ceil, floor

from queueing.core.requests import File

_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time (UNIX seconds), shown in the reader's own time or as a live countdown.

    `clock` asks for the time of day alone, for use within a sentence. `before` is the word that a
    time of day needs and a countdown does not, such as "at ". `day` adds the date, for a moment far
    off.
    """

    at: float
    clock: bool = False
    before: str = ""
    day: bool = False


@dataclass(frozen=True, slots=True)
class Period:
    """A period between two moments (UNIX seconds), shown as two times of day, to the minute.

    The start is rounded down to the minute and the end up, so the shown period covers all of it.
    """

    begins_at: float
    ends_at: float
    day: bool = False

    @classmethod
    def around(cls, earliest: float, latest: float) -> "Period":
        """Return the period in whole minutes that covers the time between two moments."""
        begins_at = floor(earliest / _MINUTE_S) * _MINUTE_S
        return cls(begins_at, max(begins_at, ceil(latest / _MINUTE_S) * _MINUTE_S))

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Its start and end as times of day, or one of them if they are the same."""
        ends = dict.fromkeys((self.begins_at, self.ends_at))
        return tuple(Moment(at, clock=True, day=self.day) for at in ends)


@dataclass(frozen=True, slots=True)
class Markdown:
    """Markdown written by a language model. Platforms keep the formatting where they can."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Emphasised words, such as a model's name at the start of its line.

    `job` is the past job on this line. Platforms that can show its button and its image next to the
    line.
    """

    text: str
    job: int | None = None
    has_image: bool = False


@dataclass(frozen=True, slots=True)
class CommandText:
    """Text a person can type, such as "/help image". On some platforms a tap inserts it."""

    text: str


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """Progress from 0 to 1."""

    share: float


Part = str | Moment | Period | Markdown | Strong | CommandText | ProgressBar
Body = tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """A button. It survives restarts, because it carries all it needs: a command and a job.

    `number` selects one of the job's images, counted from 1. It returns as the option "number", and
    the job's id as "id". `hint` spells out a short label on platforms that can show it or read it
    aloud.
    """

    command: str
    job_id: int
    label: str
    danger: bool = False
    number: int | None = None
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """The content of a message. Equal contents look the same, so an edit between them is skipped.

    - `files` are images or attachments; the first image is shown large.
    - `buttons` are rows.
    - `mention` is the only platform user id that this message may notify.
    - `spoiler` hides the images until a reader asks for them.
    - `voice`: the only file is an answer read aloud, which a platform may show as a voice message.
    - `awaits`: a reply to this message is expected, so a platform may open the reader's keyboard for it.
    - `secret`: a platform whose messages the bot keeps itself shows the content once and stores nothing.
    - `refused`: it says why a call was not carried out.
    """

    body: Body = ()
    files: tuple[File, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    mention: str | None = None
    spoiler: bool = False
    voice: bool = False
    awaits: bool = False
    secret: bool = False
    refused: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """A field of a form. `name` is the command's parameter; `long` makes the field multi-line."""

    name: str
    label: str
    value: str = ""
    long: bool = False
    required: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A form that asks for a command's values. At most five fields, because Discord shows no more.

    When submitted, it arrives as a call of `command` with these values and, if it is about a job,
    the option "id". Like a button, it survives restarts.
    """

    command: str
    title: str
    fields: tuple[FormField, ...]
    send: str
    job_id: int | None = None


# "++" and "*+" are possessive: text without a fence is scanned once.
_FENCE = re.compile(r"^(```++|~~~++)([^\n`]*+)$", re.MULTILINE)
_CLOSING_ROOM = 24  # to close a fence at the end of a page and reopen it on the next


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def pages(text: str, limit: int) -> list[str]:
    """Split a text into pages of at most `limit` units. Returns at least one page, perhaps empty.

    Cuts after a blank line if possible, then after a line, then a word, and otherwise anywhere.
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
    """Return how many characters fit on this page: at least one."""
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
    """Return the marker and language of a fence that is open at the end of a page."""
    fence: tuple[str, str] | None = None
    for found in _FENCE.finditer(page):
        marker, language = found[1], found[2].strip()
        if fence is None:
            fence = (marker[:12], language[:8])
        elif marker.startswith(fence[0]) and not language:
            fence = None
    return fence
