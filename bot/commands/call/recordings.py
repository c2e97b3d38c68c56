"""A call's recording: an attached sound or film, or the result of a job."""

from backends.common.file_types import is_film, is_sound, mime_of
from bot.commands.call.attachments import shown_name, whole
from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import own_job, replied_job, without
from bot.core.attachments import SPOKEN, AttachmentKind
from bot.core.refusals import Declined, NoRecording
from bot.requests.kinds import gives_files
from bot.requests.media import checked_sound, require_sound_weight
from queueing.core.jobs import Job
from queueing.core.requests import File

RECORDED = SPOKEN | {AttachmentKind.FILM}


async def meant_recording(context: Context, call: Call) -> File:
    """Return the recording attached, of the job named, or of the result replied to.

    Raises `BadCall`, `CallRefused` and `Declined`.
    """
    files = call.invocation.files
    own = [each for each in files if not each.replied]
    job = None if own else await _meant_job(context, call)
    if job is not None:
        return await _of(context, job)
    if len(meant := own or files) != 1:
        raise Declined(NoRecording())
    name = shown_name(meant[0])
    require_sound_weight(name, meant[0].size)
    await call.turn()
    return await checked_sound(name, await whole(meant[0]))


async def _meant_job(context: Context, call: Call) -> Job | None:
    job_id = call.whole("id")
    if job_id is not None:
        return await own_job(context, call, job_id)
    job = await replied_job(context, call)
    return job if job is not None and gives_files(job.request) else None


async def _of(context: Context, job: Job) -> File:
    output = await context.queue.jobs.output(job)
    files = output.files if output is not None else ()
    for file in files:
        mime = mime_of(file.data)
        if is_film(mime) or is_sound(mime):
            return await checked_sound(file.name, file.data)
    if files or not gives_files(job.request):
        raise Declined(NoRecording())
    raise without(job, kept=True, gone="refused.recording_gone", never="refused.no_recording")
