"""The messages between both pages and the server over the WebSocket, as validated records."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from bot.core.command import Command, ParamKind
from bot.core.content import Form
from bot.platforms.web.chat_log import Entry, ShownMessage, ShownPart
from bot.texts.catalogue import describe
from queueing.core.requests import Record
from queueing.core.snapshot import Residency
from queueing.core.status import ModelStatus

MAX_FRAME = 2 * 1024 * 1024  # bytes; holds 100,000 characters however they are escaped
MAX_TEXT = 250_000  # characters; the bot's own limit is far lower and has its own message
MAX_UPLOAD = 25 * 1024 * 1024  # bytes
MAX_FILES = 4  # per message
MAX_FIELDS = 10  # of a form

# ---------------------------------------------------------------- from the page

Id = Annotated[str, Field(min_length=1, max_length=80)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # what the database can compare with
Key = Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{16,64}$")]


class _FromPage(Record):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Hello(_FromPage):
    """Opens the conversation: the log whose numbers the page knows, and the last number."""

    type: Literal["hello"]
    log: str = Field(default="", max_length=80)
    since: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Say(_FromPage):
    """A line typed by the person; `key` is the page's own and stays the same when it is sent again."""

    type: Literal["say"]
    key: Key
    text: str = Field(max_length=MAX_TEXT)
    uploads: list[Id] = Field(default=[], max_length=MAX_FILES)
    reply_to: Id | None = None


class PressFrame(_FromPage):
    """A button of a message was pressed."""

    type: Literal["press"]
    key: Key
    message: Id
    command: Id
    job: Number
    number: Number | None = None


class Submit(_FromPage):
    """A form was submitted; the values are by the names of its fields."""

    type: Literal["submit"]
    key: Key
    command: Id
    job: Number | None = None
    values: dict[Id, Annotated[str, Field(max_length=MAX_TEXT)]] = Field(max_length=MAX_FIELDS)


class Suggest(_FromPage):
    """Asks for values of a parameter while the person types."""

    type: Literal["suggest"]
    id: Number
    command: Id
    param: Id
    typed: str = Field(max_length=200)


class Earlier(_FromPage):
    """Asks for messages before the first one the page shows."""

    type: Literal["earlier"]
    before: Number


FromPage = Annotated[
    Hello | Say | PressFrame | Submit | Suggest | Earlier, Field(discriminator="type")
]
FROM_PAGE: TypeAdapter[Hello | Say | PressFrame | Submit | Suggest | Earlier] = TypeAdapter(
    FromPage
)

# ---------------------------------------------------------------- to the page


class ParamRow(Record):
    """A parameter as the page completes it; `help` is a sentence."""

    name: str
    kind: ParamKind
    help: str
    required: bool
    positional: bool
    choices: tuple[str, ...]


class CommandRow(Record):
    """A command as the page offers it."""

    name: str
    help: str
    params: tuple[ParamRow, ...]


class Welcome(Record):
    """Answers `Hello`; the page forgets what it shows when `fresh`.

    `signed_in` says that a token let the person in, so that they can sign out; `operates`, that the
    operator's page is theirs to open.
    """

    type: Literal["welcome"] = "welcome"
    log: str
    fresh: bool
    person: str
    name: str
    commands: tuple[CommandRow, ...]
    signed_in: bool = False
    operates: bool = False
    max_upload: int = MAX_UPLOAD
    max_files: int = MAX_FILES
    max_text: int = MAX_TEXT


class EntryRow(Record):
    """A message in its newest state; deleted if `shown` is None."""

    message: str
    number: int
    place: int
    at: float
    shown: ShownMessage | None


class Messages(Record):
    """Messages that are new or changed; `more` means that the page may ask for earlier ones."""

    type: Literal["messages"] = "messages"
    entries: tuple[EntryRow, ...]
    fresh: bool = False
    more: bool = False


class EarlierMessages(Record):
    """Answers `Earlier`."""

    type: Literal["earlier"] = "earlier"
    entries: tuple[EntryRow, ...]
    more: bool


class TakenFrame(Record):
    """A `Say`, `PressFrame` or `Submit` of that key is durable: the page need not send it again."""

    type: Literal["taken"] = "taken"
    key: str


class NotTaken(Record):
    """A `Say`, `PressFrame` or `Submit` was refused; the page has a sentence for each reason."""

    type: Literal["refused"] = "refused"
    key: str | None
    reason: Literal[
        "empty", "invalid", "too-fast", "upload-gone", "button-gone", "not-stored", "too-much"
    ]


class Language(Record):
    """The page's language: the one the person chose, or their browser's."""

    type: Literal["language"] = "language"
    language: str


class Values(Record):
    """Answers `Suggest`."""

    type: Literal["values"] = "values"
    id: int
    values: tuple[str, ...]


class FieldRow(Record):
    """A line of a form; `long` gives it several lines of space."""

    name: str
    label: str
    value: str
    long: bool
    required: bool


class FormRow(Record):
    """A form to fill in now; the page sends it as a `Submit`, or forgets it."""

    type: Literal["form"] = "form"
    command: str
    job: int | None
    title: str
    fields: tuple[FieldRow, ...]
    send: str


class ModelQueue(Record):
    """A model in the page's live overview: jobs waiting and running, and where its memory is."""

    model: str
    waiting: int
    running: int = 0
    memory: Literal["absent", "loading", "ready"]


class Overview(Record):
    """The live overview, sent when it changes."""

    type: Literal["overview"] = "overview"
    queues: tuple[ModelQueue, ...]


def form_row(form: Form) -> FormRow:
    """Return a form in the page's format."""
    return FormRow(
        command=form.command,
        job=form.job_id,
        title=form.title,
        fields=tuple(
            FieldRow(
                name=field.name,
                label=field.label,
                value=field.value,
                long=field.long,
                required=field.required,
            )
            for field in form.fields
        ),
        send=form.send,
    )


def entry_row(entry: Entry) -> EntryRow:
    """Return an entry in the page's format."""
    return EntryRow(
        message=entry.message,
        number=entry.number,
        place=entry.place,
        at=entry.at,
        shown=entry.shown,
    )


def command_rows(
    commands: Sequence[Command], language: str | None, *, admin: bool
) -> tuple[CommandRow, ...]:
    """Return the commands to offer a person in their language, without those of buttons only."""
    return tuple(
        CommandRow(
            name=command.name,
            help=describe(command.help, language),
            params=tuple(
                ParamRow(
                    name=param.name,
                    kind=param.kind,
                    help=describe(param.help, language),
                    required=param.required,
                    positional=param.positional,
                    choices=param.choices,
                )
                for param in command.params
            ),
        )
        for command in commands
        if not command.hidden and (admin or not command.admin)
    )


ACTS = frozenset(
    {"preload", "unload", "pause", "resume", "drain", "move", "cancel", "ban", "unban"}
)
"""The commands that the page has buttons for. It carries out no other."""

FROM_OPERATOR = TypeAdapter(Submit)


class Answered(Record):
    """What a command has answered so far, by the key of its act; a later answer replaces it."""

    type: str = "answer"
    key: str
    body: tuple[ShownPart, ...]


class Readable(Record):
    """Whether everything could be read last time; otherwise the page shows what is older."""

    type: str = "readable"
    readable: bool


def overview(models: Sequence[ModelStatus]) -> tuple[ModelQueue, ...]:
    """Return a line for each model that waits, runs or has a copy somewhere."""
    return tuple(
        ModelQueue(
            model=model.name,
            waiting=model.waiting,
            running=model.running,
            memory=_memory_word(model),
        )
        for model in models
        if model.waiting or model.running or model.copies
    )


def _memory_word(model: ModelStatus) -> Literal["absent", "loading", "ready"]:
    places = {copy.residency for copy in model.copies}
    if Residency.READY in places:
        return "ready"
    return "loading" if Residency.LOADING in places else "absent"
