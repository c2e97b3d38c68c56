"""Decides which attachments a command uses, and reads everything that came with a question.

An attachment that a command cannot use is refused with a suggestion, because an answer from the
text alone would ignore it. What no model here can use is refused before anything is read or
accepted. One person's files in one chat are read one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import drawn_images, replied_job, without_images
from bot.commands.call.parser import clean
from bot.core.attachments import SPOKEN, VIDEO_KINDS, AttachmentKind, kind_of
from bot.core.command import Command, ParamKind
from bot.core.errors import ChatError
from bot.core.platform import Attachment, Invocation
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.conversation import IMAGES
from bot.requests.files.documents import (
    decoded,
    opened,
    require_paper_weight,
    require_short,
    together,
)
from bot.requests.files.images import checked, require_weight
from bot.requests.files.media import checked_sound, require_sound_weight, require_video_weight, seen
from bot.requests.recordings import RECORDINGS
from bot.texts.catalogue import word
from queueing.core.requests import Capability, File, TextToImage

_NAME_SHOWN = 80


async def images(call: Call, of: Sequence[Attachment] | None = None) -> tuple[File, ...]:
    """Return the attached images, or those in `of`, checked. Raises `Declined`.

    The size is checked before anything is downloaded; the format and the number of pixels before
    anything is decoded. One person's files in one chat are read one after the other.
    """
    files = call.invocation.files if of is None else of
    attached = [file for file in files if file.kind is AttachmentKind.IMAGE]
    if attached:
        await call.turn()
    return tuple([await _image(each) for each in attached])


async def meant_images(context: Context, call: Call, *, most: int) -> tuple[File, ...]:
    """Return the attached images, or else those of the result that was replied to.

    Raises `Declined` if they are unusable or there are none.
    """
    files = await images(call)
    if not files and (job := await replied_job(context, call)) is not None:
        files = (await drawn_images(context, job))[:most]
        if not files and isinstance(job.request, TextToImage):
            raise await without_images(context, job)
    if not files:
        raise Declined(Refusal(RefusalKind.NO_IMAGE))
    return files


async def words(call: Call, limit: int, of: Sequence[Attachment] | None = None) -> str:
    """Return the contents of the attached text files, or those in `of`, each under its name.

    They may have `limit` characters together. Raises `Declined`.
    """
    texts = []
    for attached in call.invocation.files if of is None else of:
        if attached.kind is not AttachmentKind.TEXT:
            continue
        name = shown_name(attached)
        require_short(name, attached.size)
        await call.turn()
        texts.append((name, clean(decoded(name, await whole(attached)))))
    return together(texts, limit)


async def _image(attached: Attachment) -> File:
    require_weight(attached.size)
    data = await whole(attached)
    require_weight(len(data))
    return await checked(data, attached.name)


def shown_name(attached: Attachment) -> str:
    """Return a file's name as shown to people and models."""
    return clean(attached.name).replace("\n", " ")[:_NAME_SHOWN]


async def whole(attached: Attachment) -> bytes:
    """Return a file's bytes. Raises `Declined`."""
    try:
        return await attached.read()
    except ChatError as error:
        raise Declined(Refusal(RefusalKind.NOT_DOWNLOADED)) from error


DOCUMENTS = 4
TAKES = {
    **dict.fromkeys(SPOKEN, RECORDINGS),
    **dict.fromkeys(VIDEO_KINDS, 1),
    AttachmentKind.DOCUMENT: DOCUMENTS,
}


@dataclass(slots=True)
class QuestionFiles:
    """The contents of a question's files: their `words`, `shown` images and `said` recordings.

    `cut` names the documents of which only the beginning is included.
    """

    words: str = ""
    shown: tuple[File, ...] = ()
    said: tuple[File, ...] = ()
    cut: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """Add a file's text under its name."""
        named = "\n".join(filter(None, (name, text)))
        self.words = "\n\n".join(filter(None, (self.words, named)))


async def enclosed(
    context: Context, call: Call, limit: int, of: Sequence[Attachment] | None = None
) -> QuestionFiles:
    """Return the contents of a question's files, or of those in `of`; at most `limit` characters.

    Raises `Declined`.
    """
    files = call.invocation.files if of is None else of
    sees = _sees(context, call)
    _require_usable(context, call, files, sees=sees)
    given = QuestionFiles(shown=await images(call, files), words=await words(call, limit, files))
    for each in files:
        if each.kind in VIDEO_KINDS:
            await _watch(call, each, given)
    for each in files:
        if each.kind is AttachmentKind.DOCUMENT:
            await _read(call, each, given, limit, sees=sees)
    for each in files:
        if each.kind in SPOKEN:
            await call.turn()
            given.said += (await checked_sound(shown_name(each), await whole(each)),)
    return given


def _sees(context: Context, call: Call) -> bool:
    """Return whether the named model sees images, or any model if none is named."""
    named = call.text("model")
    spec = context.catalog.find(named) if named is not None else None
    if spec is not None:
        return Capability.VISION in spec.capabilities
    return bool(context.catalog.able(Capability.VISION))


def _require_usable(
    context: Context, call: Call, files: Sequence[Attachment], *, sees: bool
) -> None:
    """Refuse unusable or too large files before anything is read. Raises `Declined`."""
    videos = [each for each in files if each.kind in VIDEO_KINDS]
    if videos and not sees:
        names = ", ".join(filter(None, map(shown_name, videos)))
        raise Declined(_unwatched(f" ({names})" if names else "", call.text("model")))
    if any(each.kind in SPOKEN for each in files):
        context.admission.usual_model(call.person, Capability.SPEECH_TO_TEXT)
    _require_weights(files)


def _require_weights(files: Sequence[Attachment]) -> None:
    """Refuse files that are too large to be read. Raises `Declined`."""
    for each in files:
        name = shown_name(each)
        if each.kind in VIDEO_KINDS:
            require_video_weight(name, each.size)
        elif each.kind in SPOKEN:
            require_sound_weight(name, each.size)
        elif each.kind is AttachmentKind.DOCUMENT:
            require_paper_weight(name, each.size)
        elif each.kind is AttachmentKind.TEXT:
            require_short(name, each.size)
        elif each.kind is AttachmentKind.IMAGE:
            require_weight(each.size)


def _unwatched(names: str, model: str | None) -> Refusal:
    if model is None:
        return Refusal(RefusalKind.NONE_WATCHES, listed=names)
    return Refusal(RefusalKind.NOT_WATCHED_BY, listed=names, model=model)


async def _watch(call: Call, video: Attachment, given: QuestionFiles) -> None:
    """Add a video as still images from its beginning to its end. Raises `Declined`."""
    room = IMAGES - len(given.shown)
    if room <= 0:
        raise Declined(
            Refusal(RefusalKind.TOO_MANY_IMAGES, count=len(given.shown) + 1, most=IMAGES)
        )
    name = shown_name(video) or "video"
    await call.turn()
    frames = await seen(name, await whole(video), room)
    first, given.shown = len(given.shown) + 1, (*given.shown, *frames)
    given.add(name, f"[a video; images {first} to {len(given.shown)} are from it, in order]")


async def _read(
    call: Call, paper: Attachment, given: QuestionFiles, limit: int, *, sees: bool
) -> None:
    """Add a document's text, and its pages without text as images. Raises `Declined`."""
    name = shown_name(paper)
    if (room := limit - len(given.words) - len(name) - 2) <= 0:
        length = len(given.words) + len(name)
        raise Declined(Refusal(RefusalKind.FILES_TOO_LONG, length=length, limit=limit))
    await call.turn()
    left = IMAGES - len(given.shown) if sees else 0
    read = await opened(name, await whole(paper), characters=room, images=left)
    given.shown += read.images
    shown = f"[its pages are among the images: {len(read.images)}]" if read.images else ""
    given.add(name, "\n".join(filter(None, (clean(read.text), shown))))
    if read.truncated:
        given.cut.append(name)


_UNUSED_NAME_SHOWN = 60
_NAMES_SHOWN = 5


def used_files(
    command: Command, invocation: Invocation, language: str, *, joins: bool = False
) -> tuple[Attachment, ...]:
    """Return the attachments the command uses.

    Raises `Declined` if it cannot use all of them.

    Attachments of a message that was replied to count only for commands that take attachments. If a
    command takes a single image, the person's own image comes first. A call that `joins` an earlier
    question needs no text of its own.
    """
    files = tuple(_as_image(command, file) for file in _considered(command, invocation))
    unused = [file for file in files if file.kind not in command.takes]
    if unused:
        raise Declined(Refusal(RefusalKind.NOT_USED, told=_sentences(command, unused, language)))
    for kind, most in command.takes.items():
        alike = next((each for each in (SPOKEN, VIDEO_KINDS) if kind in each), {kind})
        _check_count(kind, sum(file.kind in alike for file in files), most)
    alone = not invocation.options and not invocation.text.strip()
    if command.name == "ask" and alone and not joins:
        _ask_what_about(files)
    return files


def _as_image(command: Command, file: Attachment) -> Attachment:
    """Return a GIF as an image, its first frame, for a command that takes no animations."""
    kinds = command.takes.keys()
    still = AttachmentKind.IMAGE in kinds and AttachmentKind.ANIMATION not in kinds
    is_gif = file.kind is AttachmentKind.ANIMATION and kind_of(file.name, "") is file.kind
    return replace(file, kind=AttachmentKind.IMAGE) if still and is_gif else file


def _considered(command: Command, invocation: Invocation) -> tuple[Attachment, ...]:
    """Return the attachments that count for this call."""
    own = tuple(file for file in invocation.files if not file.replied)
    if not command.takes:
        return own
    theirs = [file for file in invocation.files if file.replied]
    shown = [file for file in theirs if file.kind is AttachmentKind.IMAGE]
    most = command.takes.get(AttachmentKind.IMAGE, 0)
    if most == 1 and any(file.kind is AttachmentKind.IMAGE for file in own):
        left: Sequence[Attachment] = shown
    elif invocation.replied_to is not None and _finds_jobs(command):
        left = shown[most:]  # of several results, the job's number selects one
    else:
        left = ()
    return (*own, *(file for file in theirs if file not in left))


def _finds_jobs(command: Command) -> bool:
    return any(param.kind is ParamKind.JOB for param in command.params)


def _check_count(kind: AttachmentKind, count: int, most: int) -> None:
    if count > most:
        raise Declined(Refusal(_TOO_MANY[kind], count=count, most=most))


_TOO_MANY = {
    AttachmentKind.IMAGE: RefusalKind.TOO_MANY_IMAGES,
    AttachmentKind.TEXT: RefusalKind.TOO_MANY_TEXTS,
    AttachmentKind.DOCUMENT: RefusalKind.TOO_MANY_DOCUMENTS,
    **dict.fromkeys(SPOKEN, RefusalKind.TOO_MANY_RECORDINGS),
    **dict.fromkeys(VIDEO_KINDS, RefusalKind.TOO_MANY_VIDEOS),
}


def _ask_what_about(files: Sequence[Attachment]) -> None:
    """Refuse files without a question. Raises `Declined`."""
    if files:
        _require_weights(files)
        raise Declined(Refusal(RefusalKind.FILE_ALONE, names=_names(files)))


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
    names = [clean(file.name).replace("\n", " ")[:_UNUSED_NAME_SHOWN] for file in files]
    more = ("…",) if len(names) > _NAMES_SHOWN else ()
    return ", ".join((*filter(None, names[:_NAMES_SHOWN]), *more))


def _in_brackets(names: str) -> str:
    return f" ({names})" if names else ""
