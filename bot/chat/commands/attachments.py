"""What a call brings along: pictures and text files, checked before anything is accepted."""

from collections.abc import Sequence

from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.base import Attachment
from bot.chat.api.errors import ChatError
from bot.chat.commands.context import Call, Context
from bot.chat.commands.jobs import drawn_pictures, replied_job
from bot.chat.commands.parse import BadCall, clean
from bot.requests.images import BadPicture, checked
from bot.requests.text_files import MOST_BYTES, BadTextFile, decoded
from queueing.core.requests import File

_NAME_SHOWN = 80
PICTURE_MB = 20  # what Telegram lets a bot download; the same everywhere


async def pictures(call: Call, of: Sequence[Attachment] | None = None) -> tuple[File, ...]:
    """Return the attached pictures, or those `of` them, checked. Raises `BadCall`.

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

    Raises `BadCall` for unusable ones and where there is none.
    """
    files = await pictures(call)
    if not files and (job := await replied_job(context, call)) is not None:
        files = (await drawn_pictures(context, job))[:most]
    if not files:
        raise BadCall("problem.no_picture")
    return files


async def words(call: Call, limit: int) -> str:
    """Return what the attached text files say, each under its name, within `limit` characters.

    Raises `BadCall`.
    """
    texts = []
    for attached in call.invocation.files:
        if attached.kind is not AttachmentKind.TEXT:
            continue
        name = clean(attached.name)[:_NAME_SHOWN]
        if attached.size > MOST_BYTES:
            raise BadCall("problem.text_bytes", name=name, limit=MOST_BYTES // 1000)
        await call.turn()
        try:
            text = clean(decoded(await _read(attached)))
        except BadTextFile as bad:
            raise BadCall(bad.key, name=name, limit=MOST_BYTES // 1000) from bad
        texts.append(f"{name}\n{text}")
    together = "\n\n".join(texts)
    if len(together) > limit:
        raise BadCall("problem.text_too_long", length=len(together), limit=limit)
    return together


async def _read(attached: Attachment) -> bytes:
    try:
        return await attached.read()
    except ChatError as error:
        raise BadCall("problem.picture_unreadable") from error


async def _picture(attached: Attachment) -> File:
    _check_size(attached.size)
    data = await _read(attached)
    _check_size(len(data))
    try:
        return await checked(data)
    except BadPicture as bad:
        raise BadCall(bad.key, limit=bad.limit) from bad


def _check_size(size: int) -> None:
    if size > PICTURE_MB * 1_000_000:
        raise BadCall("problem.picture_bytes", size=size // 1_000_000, limit=PICTURE_MB)
