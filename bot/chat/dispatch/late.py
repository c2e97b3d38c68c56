"""Parts of an album that arrive after the others: they join what still waits, or are answered with a sentence."""

from bot.chat.api.answers import Answer, Placed
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.base import Invocation
from bot.chat.api.origin import Origin
from bot.chat.api.table import Command
from bot.chat.commands.attachments import pictures
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.parse import BadCall
from bot.requests.conversation import PICTURES
from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage


async def asked_with_album(context: Context, invocation: Invocation) -> Job | None:
    """Return the job that the album of a call has made already."""
    return None if invocation.album is None else await context.queue.jobs.find(invocation.key)


def refuse_incomplete(invocation: Invocation) -> None:
    """Refuse what is no whole album, and belongs to none that was asked. Raises `CallRefused`."""
    album = invocation.album
    if album is not None and album.begun:
        raise CallRefused("album.late")
    if album is not None and album.partial:
        raise CallRefused("album.partial")


async def join(context: Context, call: Call, command: Command, job: Job) -> Answer:
    """Let late pictures belong to the question they were sent with, as long as it waits.

    The same parts again change nothing. Raises `BadCall` and `CallRefused`.
    """
    origin = Origin.model_validate_json(job.reply_to)
    late = tuple(file for file in call.invocation.files if file.part not in origin.parts)
    if not late:
        return Placed(job=job)
    request = job.request
    if not isinstance(request, Chat) or any(
        file.kind is not AttachmentKind.PICTURE for file in late
    ):
        raise CallRefused("album.too_late", job=job.id)
    *before, last = request.messages
    if (count := len(last.pictures) + len(late)) > PICTURES:
        raise BadCall("problem.too_many_pictures", count=count, command=command.name, most=PICTURES)
    there = len(await context.queue.jobs.inputs(job))
    asked = _joined(last, tuple(range(there, there + len(late))), call.invocation.text)
    parts = (*origin.parts, *(file.part for file in late))
    amended = await context.queue.submitter.replace_request(
        job.id,
        request.model_copy(update={"messages": (*before, asked)}),
        files=await pictures(call, late),
        reply_to=origin.model_copy(update={"parts": parts}).model_dump_json(),
    )
    if amended is None:
        raise CallRefused("album.too_late", job=job.id)
    return Placed(job=amended)


def _joined(asked: ChatMessage, late: tuple[int, ...], caption: str) -> ChatMessage:
    text = "\n".join(filter(None, (asked.text, caption)))
    return asked.model_copy(update={"text": text, "pictures": (*asked.pictures, *late)})
