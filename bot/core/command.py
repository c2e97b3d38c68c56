"""Commands: a name, parameters and help, from which each platform builds its own form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.core.attachments import AttachmentKind
from queueing.core.requests import Capability


class ParamKind(StrEnum):
    """How a parameter is typed, completed and checked."""

    TEXT = "text"  # the rest of a text command, line breaks included; at most one per command
    MODEL = "model"  # a model's name or alias, completed from memory
    JOB = "job"  # a job id as people see it ("12" or "#12"), or one of `choices`
    HOST = "host"  # a host's name
    PERSON = "person"  # a user id ("telegram:42"), a bare id, or a mention
    SIZE = "size"  # "768x1024", "3:2", a word such as "portrait", or one of `choices`
    STYLE = "style"  # the name of a configured style
    WHOLE = "whole"  # a whole number, `least` to `most`, or one of `choices`
    DECIMAL = "decimal"  # a number, `least` to `most`
    CHOICE = "choice"  # one of `choices`
    FLAG = "flag"  # present or not
    IMAGE = "image"  # an attached image
    SOUND = "sound"  # an attached recording: a sound or a video
    MASK = "mask"  # an attached mask; typed as an option, it marks the last image as the mask


ATTACHED = frozenset({ParamKind.IMAGE, ParamKind.SOUND})
"""Parameters shown only on platforms whose forms have file fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Param:
    """A parameter of a command.

    Text platforms take positional parameters in order and `--name value` for the rest. `help` is a
    key into the texts. A model is suggested if it has one of the capabilities in `able`. If the
    option `repeats`, its values are joined by commas. Only admins see an `admin` parameter in
    `/help`. `aliases` are other programs' names for it, which people may type. Where a chat shows a
    field for each option, the `rare` ones are typed into one shared field.
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
    admin: bool = False
    aliases: tuple[str, ...] = ()
    rare: bool = False


class Topic(StrEnum):
    """The heading under which `/help` lists a command. Admin commands have a separate heading."""

    MAKE = "make"
    JOBS = "jobs"
    HERE = "here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command as all platforms see it; `bot.commands.registry` pairs it with its handler.

    - `help` is a key into the texts.
    - `admin`: the bot itself refuses the command to everyone else; hiding it from menus is a courtesy.
    - `hidden`: the command exists only as a button or in context menus.
    - `menu` is the text key of the command's entry in a message's menu.
    - `opens_form`: without values, the command answers with a form. Discord takes a form only as the
      initial response to a call.
    - `topic` is the heading in `/help`.
    - `example` is a text key; the example is shown if a call cannot be understood.
    - `prose` leaves unknown options in the text: questions are full of words such as `--amend`.
    - `takes` is the most attachments of each kind it uses. A call with other attachments is refused
      with an explanation.
    - `aliases` are further names that people may type; menus do not show them.
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

    @property
    def makes(self) -> tuple[Capability, ...]:
        """The capabilities of which a model needs one, if the command makes something new."""
        if self.topic is not Topic.MAKE:
            return ()
        models = [each for each in self.params if each.kind is ParamKind.MODEL and each.positional]
        return models[0].able if models else ()
