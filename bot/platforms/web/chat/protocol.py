"""The WebSocket messages between the server and both pages, as validated records."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from bot.core.asker import Asker
from bot.core.command import Command, ParamKind
from bot.core.content import Form
from bot.platforms.web.chat.chat_log import Entry, ShownMessage, ShownPart, text_of
from bot.platforms.web.chat.conversations import FIRST, MOST, ConversationHead, key_of
from bot.platforms.web.chat.renderer import split_command, with_blocks
from bot.texts.catalogue import describe
from queueing.core.requests import Record
from queueing.core.snapshot import Residency
from queueing.core.status import ModelStatus

MAX_FRAME = 2 * 1024 * 1024  # bytes; holds 100,000 characters even if all are escaped
MAX_TEXT = 250_000  # characters; the bot's own limit is far lower and has its own message
MAX_UPLOAD = 25 * 1024 * 1024  # bytes
MAX_FILES = 4  # per message
MAX_FIELDS = 10  # per form
MAX_NAME = 80  # characters of a conversation's name
MAX_TITLE = 60  # characters of a title made from a message

# ---------------------------------------------------------------- from the page

Id = Annotated[str, Field(min_length=1, max_length=80)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # the range of the database's integers
Key = Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{16,64}$")]
ConversationKey = Annotated[str, Field(pattern=r"^(first|[0-9a-f]{16})$")]


class _FromPage(Record):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Hello(_FromPage):
    """Opens a conversation: the id of the log the page knows, and the last number it has seen.

    The first one starts the connection; each further one goes on to another conversation.
    """

    type: Literal["hello"]
    conversation: ConversationKey = FIRST
    log: str = Field(default="", max_length=80)
    since: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Say(_FromPage):
    """Text from the person. The page chooses `key` and keeps it when it sends the text again."""

    type: Literal["say"]
    key: Key
    conversation: ConversationKey = FIRST
    text: str = Field(max_length=MAX_TEXT)
    uploads: list[Id] = Field(default=[], max_length=MAX_FILES)
    reply_to: Id | None = None


class PressFrame(_FromPage):
    """A button of a message was pressed."""

    type: Literal["press"]
    key: Key
    conversation: ConversationKey = FIRST
    message: Id
    command: Id
    job: Number
    number: Number | None = None


class Submit(_FromPage):
    """A submitted form; values by field name."""

    type: Literal["submit"]
    key: Key
    conversation: ConversationKey = FIRST
    command: Id
    job: Number | None = None
    values: dict[Id, Annotated[str, Field(max_length=MAX_TEXT)]] = Field(max_length=MAX_FIELDS)


class Suggest(_FromPage):
    """Requests values for a parameter while the person types."""

    type: Literal["suggest"]
    id: Number
    command: Id
    param: Id
    typed: str = Field(max_length=200)


class Earlier(_FromPage):
    """Requests messages before the first one on the page."""

    type: Literal["earlier"]
    before: Number


class Rename(_FromPage):
    """Names a conversation; an empty name returns to the title made from its first message."""

    type: Literal["rename"]
    key: Key
    conversation: ConversationKey
    name: str = Field(max_length=MAX_NAME)


class Remove(_FromPage):
    """Deletes a conversation in which no job is waiting or running."""

    type: Literal["remove"]
    key: Key
    conversation: ConversationKey


class Seen(_FromPage):
    """The person looks at the open conversation, so nothing in it is unread."""

    type: Literal["seen"]


class ListMost(_FromPage):
    """Asks for more or fewer conversations in the list."""

    type: Literal["list"]
    most: Annotated[int, Field(ge=1, le=MOST)]


class Find(_FromPage):
    """Requests the conversations that contain a text."""

    type: Literal["find"]
    id: Number
    text: str = Field(min_length=1, max_length=200)


FromPage = (
    Hello | Say | PressFrame | Submit | Suggest | Earlier | Rename | Remove | Seen | ListMost | Find
)
FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(Annotated[FromPage, Field(discriminator="type")])

# ---------------------------------------------------------------- to the page


class ParamRow(Record):
    """A parameter for completion; `help` is a sentence."""

    name: str
    kind: ParamKind
    help: str
    required: bool
    positional: bool
    choices: tuple[str, ...]


class CommandRow(Record):
    """A command for completion."""

    name: str
    help: str
    params: tuple[ParamRow, ...]


class Welcome(Record):
    """Answers `Hello`. If `fresh`, the page discards its messages.

    `signed_in` means that the person used a token and can sign out. `operates` means that they may
    open the operator's page.
    """

    type: Literal["welcome"] = "welcome"
    conversation: str
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
    """A message in its newest state. It is deleted if `shown` is None."""

    message: str
    number: int
    place: int
    at: float
    shown: ShownMessage | None


class Messages(Record):
    """New or changed messages. `more` means that there are earlier ones to request."""

    type: Literal["messages"] = "messages"
    conversation: str
    entries: tuple[EntryRow, ...]
    fresh: bool = False
    more: bool = False


class EarlierMessages(Record):
    """Answers `Earlier`."""

    type: Literal["earlier"] = "earlier"
    conversation: str
    entries: tuple[EntryRow, ...]
    more: bool


class TakenFrame(Record):
    """The frame with that key is durable, so the page need not send it again."""

    type: Literal["taken"] = "taken"
    key: str


class NotTaken(Record):
    """The frame with that key was refused. The page has a text for each reason."""

    type: Literal["refused"] = "refused"
    key: str | None
    reason: Literal[
        "empty",
        "invalid",
        "too-fast",
        "upload-gone",
        "button-gone",
        "not-stored",
        "too-much",
        "in-work",
        "too-many",
    ]


class FavouriteMark(Record):
    """A file of the person's results became a favourite, or is none any more."""

    type: Literal["marked"] = "marked"
    job: int
    number: int
    favourite: bool


class ResultsGone(Record):
    """Some of the person's results may have been deleted, in any of their conversations."""

    type: Literal["gone"] = "gone"


class Language(Record):
    """The page's language: the person's choice, or their browser's."""

    type: Literal["language"] = "language"
    language: str


class Values(Record):
    """Answers `Suggest`."""

    type: Literal["values"] = "values"
    id: int
    values: tuple[str, ...]


class ConversationRow(Record):
    """A conversation in the side bar. `unread` is the number of its newest unseen result, or 0."""

    key: str
    title: str
    at: float
    unread: int


class ConversationList(Record):
    """The newest conversations, sent when they change. `more` means that there are others."""

    type: Literal["conversations"] = "conversations"
    rows: tuple[ConversationRow, ...]
    more: bool


class FoundConversations(Record):
    """Answers `Find`."""

    type: Literal["found"] = "found"
    id: int
    rows: tuple[ConversationRow, ...]


class FieldRow(Record):
    """A field of a form; `long` makes it several lines high."""

    name: str
    label: str
    value: str
    long: bool
    required: bool


class FormRow(Record):
    """A form for the person to fill in. The page sends it as a `Submit` or discards it."""

    type: Literal["form"] = "form"
    command: str
    job: int | None
    number: int | None
    title: str
    fields: tuple[FieldRow, ...]
    send: str


class ModelQueue(Record):
    """A model in the page's live overview: waiting and running jobs, and whether it is loaded."""

    model: str
    waiting: int
    running: int = 0
    memory: Literal["absent", "loading", "ready"]


class Overview(Record):
    """The live overview, sent when it changes."""

    type: Literal["overview"] = "overview"
    queues: tuple[ModelQueue, ...]


ReadOverview = Callable[[Asker | None], Sequence[ModelQueue]]
"""Returns the rows that a person may see, or all rows, from memory."""


def form_row(form: Form) -> FormRow:
    """Return a form in the page's format."""
    return FormRow(
        command=form.command,
        job=form.job_id,
        number=form.number,
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
    """Return an entry in the page's format. Too slow for the event loop, like `with_blocks`."""
    return EntryRow(
        message=entry.message,
        number=entry.number,
        place=entry.place,
        at=entry.at,
        shown=None if entry.shown is None else with_blocks(entry.shown),
    )


def conversation_row(
    head: ConversationHead, words_of: Callable[[str, str], str]
) -> ConversationRow:
    """Return a conversation in the page's format. Reads its first message.

    `words_of` returns the words of a command's text.
    """
    title = head.name or _title_of(ShownMessage.model_validate_json(head.first), words_of)
    return ConversationRow(key=key_of(head.chat), title=title, at=head.at, unread=head.unread)


def _title_of(first: ShownMessage, words_of: Callable[[str, str], str]) -> str:
    """Return a title: a message's first words without its command, or else the command."""
    text = " ".join(text_of(first)[:1_000].split())
    if first.author == "person" and text:
        command, rest = split_command(text)
        text = words_of(command, rest) or rest or f"/{command}"
    elif not text and first.files:
        text = first.files[0].name
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1].rstrip()}…"


def command_rows(
    commands: Sequence[Command], language: str | None, *, admin: bool
) -> tuple[CommandRow, ...]:
    """Return the commands offered to a person, in their language. Leaves out hidden ones."""
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
"""The commands that the operator's page has buttons for. It runs no others."""

FROM_OPERATOR = TypeAdapter(Submit)


class Answered(Record):
    """The current answer to an act, by its key. A later answer replaces it."""

    type: str = "answer"
    key: str
    body: tuple[ShownPart, ...]


class Readable(Record):
    """Whether the last read succeeded; if not, the page shows older data."""

    type: str = "readable"
    readable: bool


def overview(models: Sequence[ModelStatus]) -> tuple[ModelQueue, ...]:
    """Return a row for each model that has waiting or running jobs or is loaded."""
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
