"""Everything that came with a question: pictures, films, words of files, recordings; all read.

What no model here can use is refused before anything is read, and so before anything is accepted.
One person's files in one chat are read one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.commands.call.attachments import pictures, shown_name, whole, words
from bot.commands.call.context import Call, Context
from bot.commands.call.parser import clean
from bot.core.attachments import FILMED, SPOKEN, AttachmentKind
from bot.core.platform import Attachment
from bot.core.refusals import Declined, FilesTooLong, NotWatched, TooManyPictures
from bot.requests.conversation import PICTURES
from bot.requests.media import checked_sound, require_sound_weight
from bot.requests.papers import opened, require_paper_weight
from bot.requests.recordings import RECORDINGS
from bot.requests.watched import require_film_weight, seen
from queueing.core.requests import Capability, File

DOCUMENTS = 4
TAKES = {
    **dict.fromkeys(SPOKEN, RECORDINGS),
    **dict.fromkeys(FILMED, 1),
    AttachmentKind.DOCUMENT: DOCUMENTS,
}


@dataclass(slots=True)
class Enclosed:
    """What came with a question: `words` of files, `shown` pictures, `said` recordings.

    `cut` names the documents of which only the beginning is among them.
    """

    words: str = ""
    shown: tuple[File, ...] = ()
    said: tuple[File, ...] = ()
    cut: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """Add what a file says, under its name."""
        self.words = "\n\n".join(filter(None, (self.words, f"{name}\n{text}")))


async def enclosed(
    context: Context, call: Call, limit: int, of: Sequence[Attachment] | None = None
) -> Enclosed:
    """Return what came with a question, or those `of` it, its words within `limit` characters.

    Raises `BadCall` and `Declined`.
    """
    files = call.invocation.files if of is None else of
    sees = _sees(context, call)
    _require_usable(context, call, files, sees=sees)
    given = Enclosed(shown=await pictures(call, files), words=await words(call, limit, files))
    for each in files:
        if each.kind in FILMED:
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
    """Return whether the model that is asked sees pictures: the named one, or any other."""
    named = call.text("model")
    spec = context.catalog.find(named) if named is not None else None
    if spec is not None:
        return Capability.VISION in spec.capabilities
    return bool(context.catalog.able(Capability.VISION))


def _require_usable(
    context: Context, call: Call, files: Sequence[Attachment], *, sees: bool
) -> None:
    """Refuse what cannot be used or is too large, before anything is read. Raises `Declined`."""
    films = [each for each in files if each.kind in FILMED]
    if films and not sees:
        names = ", ".join(filter(None, map(shown_name, films)))
        raise Declined(NotWatched(names=names, model=call.text("model")))
    for each in films:
        require_film_weight(shown_name(each), each.size)
    for each in files:
        if each.kind in SPOKEN:
            context.admission.usual_model(call.person, Capability.SPEECH_TO_TEXT)
            require_sound_weight(shown_name(each), each.size)
        elif each.kind is AttachmentKind.DOCUMENT:
            require_paper_weight(shown_name(each), each.size)


async def _watch(call: Call, film: Attachment, given: Enclosed) -> None:
    """Show a film as pictures from its beginning to its end. Raises `BadCall` and `Declined`."""
    room = PICTURES - len(given.shown)
    if room <= 0:
        raise Declined(TooManyPictures(count=len(given.shown) + 1, limit=PICTURES))
    name = shown_name(film) or "film"
    await call.turn()
    frames = await seen(name, await whole(film), room)
    first, given.shown = len(given.shown) + 1, (*given.shown, *frames)
    given.add(name, f"[a film; pictures {first} to {len(given.shown)} are from it, in order]")


async def _read(call: Call, paper: Attachment, given: Enclosed, limit: int, *, sees: bool) -> None:
    """Add what a document says, and its pages without words. Raises `BadCall` and `Declined`."""
    name = shown_name(paper)
    if (room := limit - len(given.words) - len(name) - 2) <= 0:
        raise Declined(FilesTooLong(length=len(given.words) + len(name), limit=limit))
    await call.turn()
    left = PICTURES - len(given.shown) if sees else 0
    read = await opened(name, await whole(paper), characters=room, pictures=left)
    given.shown += read.pictures
    shown = f"[its pages are among the pictures: {len(read.pictures)}]" if read.pictures else ""
    given.add(name, "\n".join(filter(None, (clean(read.text), shown))))
    if read.truncated:
        given.cut.append(name)
