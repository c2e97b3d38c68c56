"""Parts of an album that arrive late: they join a waiting job, or are answered with a sentence."""

from dataclasses import replace

from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.files import enclosed
from bot.commands.call.submission import asking, placed
from bot.commands.make.ask import QUESTION_LIMIT, about, asked
from bot.core.answers import Answer, Placed
from bot.core.attachments import SPOKEN
from bot.core.origin import Origin
from bot.core.platform import Album
from queueing.core.jobs import Job
from queueing.core.requests import Capability


def refuse_incomplete(album: Album) -> None:
    """Refuse a partial album that belongs to none that was asked. Raises `CallRefused`."""
    if album.begun:
        raise CallRefused("album.late")
    if album.partial:
        raise CallRefused("album.partial")


async def join(context: Context, call: Call, job: Job) -> Answer:
    """Let late parts belong to the question they were sent with, as long as it waits.

    The same parts again change nothing. Raises `BadCall`, `CallRefused` and `Declined`.
    """
    origin = Origin.model_validate_json(job.reply_to)
    late = tuple(file for file in call.invocation.files if file.part not in origin.parts)
    if not late:
        return Placed(job=job)
    if not job.held and any(file.kind in SPOKEN for file in late):
        raise CallRefused("album.too_late", job=job.id)
    by = await asking(context, call, Capability.VISION)
    given = await enclosed(context, call, QUESTION_LIMIT, late)
    told = {
        "parts": (*origin.parts, *(file.part for file in late)),
        "cut": (*origin.cut, *given.cut),
    }
    by = replace(by, reply_to=origin.model_copy(update=told).model_dump_json())
    words = about(given.words, call.invocation.text)
    return placed(await context.admission.add(by, job, asked(words, given.shown, given.said)))
