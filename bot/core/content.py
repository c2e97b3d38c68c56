"""Message content as structured values, its division into pages, and forms.

Texts are structure, not markup. A plain `str` is shown literally, a `Moment` is a point in time
that each platform shows in its own way, and `Markdown` is a model's answer. A prompt or an answer
can therefore never become a mention, a link or a tag by accident.
"""

from dataclasses import dataclass, field
from math import ceil, floor

from bot.markdown.elements import Blocks, plain
from bot.markdown.parser import parse
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
    """Markdown written by a language model. Platforms keep the formatting where they can.

    `page` is what this message shows of an answer that is divided over several. `text` is then
    without formatting, otherwise it is the source.
    """

    text: str
    page: Blocks | None = None

    @classmethod
    def of(cls, page: Blocks) -> "Markdown":
        """Return a page of an answer."""
        return cls(plain(page), page)

    @property
    def blocks(self) -> Blocks:
        """What is shown, as a tree."""
        return parse(self.text) if self.page is None else self.page


@dataclass(frozen=True, slots=True)
class Strong:
    """Emphasised words, such as a model's name at the start of its line.

    `job` is the past job on this line. Platforms that can do so show its button and its image next
    to the line.
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
    - `buttons` are rows. A row whose buttons all have one number belongs to that image.
    - `mention` is the only platform user id that this message may notify.
    - `spoiler` hides the images until a reader asks for them.
    - `alt` says what the images show, to those who cannot see them.
    - `voice`: the only file is an answer read aloud, which a platform may show as a voice message.
    - `awaits`: a reply to this message is expected, so a platform may open the reader's keyboard.
    - `secret`: a platform whose messages the bot itself stores shows the content once and stores
      nothing.
    - `waits`: it is the status of an open job, which a platform may show as a card.
    - `sizes` are the widths and heights in pixels of what it shows or of what an open job will
      probably make, so that a platform can reserve space.
    - `number` is that of the first file among a result's images, if all of them are shown.
    - `refused`: it says why a call was not carried out.
    """

    body: Body = ()
    files: tuple[File, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    mention: str | None = None
    spoiler: bool = False
    alt: str = ""
    voice: bool = False
    awaits: bool = False
    secret: bool = False
    waits: bool = False
    refused: bool = field(default=False, compare=False)
    sizes: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    number: int | None = field(default=None, compare=False)


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
    the option "id", and "number" if it is about one of its images. Like a button, it survives
    restarts.
    """

    command: str
    title: str
    fields: tuple[FormField, ...]
    send: str
    job_id: int | None = None
    number: int | None = None


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
