"""The image or recording a call is about: an attachment or a result."""

from dataclasses import dataclass

from backends.common.file_types import is_sound, is_video, mime_of
from bot.commands.call.context import Call, Context
from bot.commands.call.files import images, shown_name, whole
from bot.commands.call.jobs import drawn_images, replied_job, shown_job, without, without_images
from bot.core.attachments import SPOKEN, AttachmentKind
from bot.core.command import Param, ParamKind
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.files.media import checked_sound, require_sound_weight
from queueing.core.jobs import Job
from queueing.core.requests import File, TextToImage

NUMBER = Param(name="number", kind=ParamKind.WHOLE, help="param.number", least=1, most=10)
"""The parameter that tells which of a result's images is meant."""
RECORDED = SPOKEN | {AttachmentKind.VIDEO}


async def meant_recording(context: Context, call: Call) -> File:
    """Return the recording that is attached, of the named job, or of the result replied to.

    Raises `Declined`.
    """
    files = call.invocation.files
    own = [each for each in files if not each.replied]
    job = None if own else await _meant_job(context, call)
    if job is not None:
        return await _recording_of(context, job)
    if len(meant := own or files) != 1:
        raise Declined(Refusal(RefusalKind.NO_RECORDING))
    name = shown_name(meant[0])
    require_sound_weight(name, meant[0].size)
    await call.turn()
    return await checked_sound(name, await whole(meant[0]))


async def _meant_job(context: Context, call: Call) -> Job | None:
    job_id = call.whole("id")
    if job_id is not None:
        return await shown_job(context, call, job_id)
    job = await replied_job(context, call)
    return job if job is not None and job.request.gives_files else None


async def _recording_of(context: Context, job: Job) -> File:
    output = await context.queue.jobs.output(job)
    files = output.files if output is not None else ()
    for file in files:
        mime = mime_of(file.data)
        if is_video(mime) or is_sound(mime):
            return await checked_sound(file.name, file.data)
    if files or not job.request.gives_files:
        raise Declined(Refusal(RefusalKind.NO_RECORDING))
    raise without(job, kept=True, gone=RefusalKind.FILES_GONE, never=RefusalKind.NOTHING_RECORDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """An image, and the job that drew it if the bot did."""

    file: File
    job: Job | None = None

    @property
    def request(self) -> TextToImage:
        """The request that drew the image; None for a person's own image."""
        if self.job is not None and isinstance(self.job.request, TextToImage):
            return self.job.request
        return TextToImage(prompt="")

    def job_of(self, user: str) -> int | None:
        """Return the job that drew it if this person owns it; others cannot be shown."""
        return self.job.id if self.job is not None and self.job.owner == user else None


async def meant_source(context: Context, call: Call) -> Source:
    """Return the image that is attached, of the named job, or of the result replied to.

    A person who replies to a result, or opens the menu on it, sees it and may build on it. A job
    named by its number or by its button must be their own. Raises `Declined`.
    """
    job_id = call.whole("id")
    own = any(not each.replied for each in call.invocation.files)
    if own and job_id is not None:
        raise Declined(Refusal(RefusalKind.IMAGE_OR_JOB, job=job_id))
    source = None if own else await _drawn(context, call)
    return source or await _attached(call)


async def all_sources(context: Context, call: Call) -> tuple[Source, ...]:
    """Return the image of a job named or replied to, then the attached images; may be empty.

    If the call is about a job's result, other files of that message are left out, because they are
    the chat's copies of the same images. Raises like `meant_source`.
    """
    drawn = await _drawn(context, call)
    files = call.invocation.files
    theirs = [each for each in files if each.replied and drawn is None]
    own = [each for each in files if not each.replied]
    attached = await images(call, of=(*theirs, *own))
    found = tuple(Source(file=file) for file in attached)
    return found if drawn is None else (drawn, *found)


async def _drawn(context: Context, call: Call) -> Source | None:
    """Return the image of a job that is named or replied to, if the job drew one."""
    job_id = call.whole("id")
    number = call.whole("number")
    if job_id is not None:
        return await _image_of(context, await shown_job(context, call, job_id), number or 1)
    job, at = await replied_job(context, call), call.invocation.replied_to
    if job is None or at is None or not isinstance(job.request, TextToImage):
        return None
    return await _image_of(context, job, number or await context.records.image_of(at))


async def _attached(call: Call) -> Source:
    """Return the one attached image. Raises `Declined` if there is none."""
    attached = await images(call)
    if not attached:
        raise Declined(Refusal(RefusalKind.NO_IMAGE))
    return Source(file=attached[0])


async def _image_of(context: Context, job: Job, number: int) -> Source:
    drawn = await drawn_images(context, job)
    if not drawn:
        raise await without_images(context, job)
    if number > len(drawn):
        raise Declined(Refusal(RefusalKind.NO_SUCH_IMAGE, job=job.id, count=len(drawn)))
    return Source(file=drawn[number - 1], job=job)
