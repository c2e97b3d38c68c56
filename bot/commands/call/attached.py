"""The one place that decides which attachments a call uses, before anything is accepted.

An attachment that a command cannot use is named in a sentence with what to do instead, because an
answer from the words alone would ignore it. A command uses what its row in the table says, and
nothing else.
"""

from collections.abc import Sequence

from bot.commands.call.parser import BadCall, clean
from bot.core.attachments import FILMED, SPOKEN, AttachmentKind
from bot.core.command import Command, ParamKind
from bot.core.platform import Attachment, Invocation
from bot.texts.catalogue import word

_NAME_SHOWN = 60
_NAMES_SHOWN = 5


def used(
    command: Command, invocation: Invocation, language: str, *, joins: bool = False
) -> tuple[Attachment, ...]:
    """Return the attachments the command uses. Raises `BadCall` when it cannot use every one.

    Attachments of a message that is replied to count for commands that take attachments at all; a
    single picture to start from is the person's own if they attached one. What `joins` a question
    that was asked before needs no words of its own.
    """
    files = _looked_at(command, invocation)
    unused = [file for file in files if file.kind not in command.takes]
    if unused:
        raise BadCall("problem.attached", told=_sentences(command, unused, language))
    for kind, most in command.takes.items():
        alike = next((each for each in (SPOKEN, FILMED) if kind in each), {kind})
        _check_count(command, kind, sum(file.kind in alike for file in files), most)
    alone = not invocation.options and not invocation.text.strip()
    if command.name == "ask" and alone and not joins:
        _ask_what_about(files)
    return files


def _looked_at(command: Command, invocation: Invocation) -> tuple[Attachment, ...]:
    """Return what counts as attached to this call."""
    own = tuple(file for file in invocation.files if not file.replied)
    if not command.takes:
        return own
    theirs = [file for file in invocation.files if file.replied]
    shown = [file for file in theirs if file.kind is AttachmentKind.PICTURE]
    most = command.takes.get(AttachmentKind.PICTURE, 0)
    if most == 1 and any(file.kind is AttachmentKind.PICTURE for file in own):
        left: Sequence[Attachment] = shown
    elif invocation.replied_to is not None and _finds_jobs(command):
        left = shown[most:]  # of several results the job's number says which is meant
    else:
        left = ()
    return (*own, *(file for file in theirs if file not in left))


def _finds_jobs(command: Command) -> bool:
    return any(param.kind is ParamKind.JOB for param in command.params)


def _check_count(command: Command, kind: AttachmentKind, count: int, most: int) -> None:
    if count <= most:
        return
    key = _TOO_MANY.get(kind, "problem.too_many_texts")
    raise BadCall(key, count=count, command=command.name, most=most)


_TOO_MANY = {
    AttachmentKind.PICTURE: "problem.too_many_pictures",
    AttachmentKind.DOCUMENT: "problem.too_many_papers",
    **dict.fromkeys(SPOKEN, "problem.too_many_sounds"),
    **dict.fromkeys(FILMED, "problem.too_many_films"),
}


def _ask_what_about(files: Sequence[Attachment]) -> None:
    """Refuse files without a question. Raises `BadCall`."""
    if files:
        raise BadCall("problem.file_alone", names=_names(files))


def _sentences(command: Command, unused: Sequence[Attachment], language: str) -> str:
    kinds = dict.fromkeys(file.kind for file in unused)
    return " ".join(
        word(
            language,
            f"attached.{kind}",
            command=command.name,
            names=_in_brackets(_names([file for file in unused if file.kind is kind])),
        )
        for kind in kinds
    )


def _names(files: Sequence[Attachment]) -> str:
    names = [clean(file.name).replace("\n", " ")[:_NAME_SHOWN] for file in files]
    more = ("…",) if len(names) > _NAMES_SHOWN else ()
    return ", ".join((*filter(None, names[:_NAMES_SHOWN]), *more))


def _in_brackets(names: str) -> str:
    return f" ({names})" if names else ""
