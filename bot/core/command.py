"""What a command is: a name, parameters and help, from which every platform builds its own form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.core.attachments import AttachmentKind
from queueing.core.requests import Capability


class ParamKind(StrEnum):
    """How a parameter is typed, completed and checked."""

    TEXT = "text"  # the rest of a text command, line breaks included; at most one per command
    MODEL = "model"  # a model's name or alias, completed from memory
    JOB = "job"  # a job's id, as people see it ("12" or "#12"), or one of `choices`
    HOST = "host"  # a host's name
    PERSON = "person"  # a user id ("telegram:42"), a bare id, or a mention
    SIZE = "size"  # "768x1024", "3:2", a word such as "portrait", or one of `choices`
    STYLE = "style"  # the name of a style of the configuration
    WHOLE = "whole"  # a whole number, `least` to `most`, or one of `choices`
    DECIMAL = "decimal"  # a number, `least` to `most`
    CHOICE = "choice"  # one of `choices`
    FLAG = "flag"  # present or not
    IMAGE = "image"  # an attached image
    SOUND = "sound"  # an attached recording: a sound or a video
    MASK = "mask"  # an attached mask; typed, it says that the last image is one


ATTACHED = frozenset({ParamKind.IMAGE, ParamKind.SOUND})
"""Parameters that only platforms with fields for files show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Param:
    """One parameter of a command.

    Text platforms take positional parameters in their order and `--name value` for the rest. `help`
    is a key into the texts; a model is suggested if it has one of the capabilities `able`. The
    values of an option that `repeats` are joined by commas.
    """

    name: str
    kind: ParamKind
    help: str
    required: bool = False
    positional: bool = False
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    able: tuple[Capability, ...] = ()
    repeats: bool = False


class Topic(StrEnum):
    """The heading under which `/help` lists a command; admin commands have one of their own."""

    MAKE = "make"
    JOBS = "jobs"
    HERE = "here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command as all platforms see it; `bot.commands.registry` pairs it with its handler.

    `help` is a key into the texts; `admin` commands are refused to others by the bot's own check,
    and hidden from their menus only as a courtesy. `hidden` commands exist only as buttons and in
    context menus; `menu` is the text key of the command's entry in the menu of a message.
    `opens_form` says that without values it answers with a form, which Discord takes only as a
    call's initial response. `/help` lists commands by `topic`, and shows the `example` (a text key)
    if a call cannot be understood. A command of `prose` leaves unknown options in its text:
    questions are full of words such as `--amend`. `takes` says how many attachments of which kind
    it uses at most; a call with any other is refused in a sentence. `aliases` are further names
    that people may type; menus do not show them.
    """

    name: str
    help: str
    params: Sequence[Param] = ()
    admin: bool = False
    hidden: bool = False
    menu: str | None = None
    opens_form: bool = False
    topic: Topic = Topic.HERE
    example: str | None = None
    prose: bool = False
    takes: Mapping[AttachmentKind, int] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
