"""Parts of an album that arrive late: they join a waiting job, or are answered with a sentence."""

from dataclasses import replace

from bot.chat.api.answers import Answer, Placed
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.base import Album
from bot.chat.api.origin import Origin
from bot.chat.commands.attachments import pictures
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.submitting import asking, placed
from queueing.core.jobs import Job
from queueing.core.requests import Capability


def refuse_incomplete(album: Album) -> None:
    """Refuse a partial album that belongs to none that was asked. Raises `CallRefused`."""
    if album.begun:
        raise CallRefused("album.late")
    if album.partial:
        raise CallRefused("album.partial")


async def join(context: Context, call: Call, job: Job) -> Answer:
    """Let late pictures belong to the question they were sent with, as long as it waits.

    The same parts again change nothing. Raises `BadCall`, `CallRefused` and `Declined`.
    """
    origin = Origin.model_validate_json(job.reply_to)
    late = tuple(file for file in call.invocation.files if file.part not in origin.parts)
    if not late:
        return Placed(job=job)
    if any(file.kind is not AttachmentKind.PICTURE for file in late):
        raise CallRefused("album.too_late", job=job.id)
    by = await asking(context, call, Capability.VISION)
    parts = (*origin.parts, *(file.part for file in late))
    by = replace(by, reply_to=origin.model_copy(update={"parts": parts}).model_dump_json())
    shown = await pictures(call, late)
    return placed(await context.admission.add_pictures(by, job, shown, call.invocation.text))
