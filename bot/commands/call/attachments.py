"""A call's pictures and text files, checked before anything is accepted."""

from collections.abc import Sequence

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import drawn_pictures, replied_job, without_pictures
from bot.commands.call.parser import BadCall, clean
from bot.core.attachments import AttachmentKind
from bot.core.errors import ChatError
from bot.core.platform import Attachment
from bot.core.refusals import Declined, NoPicture
from bot.requests.documents import decoded, require_short, together
from bot.requests.images import checked, require_weight
from bot.requests.kinds import is_drawn
from queueing.core.requests import File

_NAME_SHOWN = 80


async def pictures(call: Call, of: Sequence[Attachment] | None = None) -> tuple[File, ...]:
    """Return the attached pictures, or those `of` them, checked. Raises `BadCall` and `Declined`.

    The size is checked before anything is downloaded, the format and the number of pixels before
    anything is decoded. One person's files in one chat are read one after the other.
    """
    files = call.invocation.files if of is None else of
    attached = [file for file in files if file.kind is AttachmentKind.PICTURE]
    if attached:
        await call.turn()
    return tuple([await _picture(each) for each in attached])


async def meant_pictures(context: Context, call: Call, *, most: int) -> tuple[File, ...]:
    """Return the attached pictures, or else those of the result that is replied to.

    Raises `BadCall`, `CallRefused` and `Declined`: for unusable ones and where there is none.
    """
    files = await pictures(call)
    if not files and (job := await replied_job(context, call)) is not None:
        files = (await drawn_pictures(context, job))[:most]
        if not files and is_drawn(job.request):
            raise await without_pictures(context, job)
    if not files:
        raise Declined(NoPicture())
    return files


async def words(call: Call, limit: int, of: Sequence[Attachment] | None = None) -> str:
    """Return what the attached text files say, or those `of` them, each under its name.

    They may have `limit` characters together. Raises `BadCall` and `Declined`.
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


async def _picture(attached: Attachment) -> File:
    require_weight(attached.size)
    data = await whole(attached)
    require_weight(len(data))
    return await checked(data)


def shown_name(attached: Attachment) -> str:
    """Return a file's name as people and models are shown it."""
    return clean(attached.name).replace("\n", " ")[:_NAME_SHOWN]


async def whole(attached: Attachment) -> bytes:
    """Return a file's bytes. Raises `BadCall`."""
    try:
        return await attached.read()
    except ChatError as error:
        raise BadCall("problem.picture_unreadable") from error
