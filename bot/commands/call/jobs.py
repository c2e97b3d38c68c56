"""Finding the job a call is about and its pictures, and refusing people without a right to it."""

from bot.commands.call.context import Call, CallRefused, Context, is_admin
from bot.requests.creation import Made
from bot.requests.kinds import is_drawn
from bot.requests.recordings import speech_key
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, Embed, File, SpeechToText, TextToSpeech

_NAMED = 8


async def own_job(context: Context, call: Call, job_id: int) -> Job:
    """Return a job the caller may touch. Raises `CallRefused`.

    A caller who types another person's job number learns nothing about the job; one who presses the
    button under it already sees it, and learns that only its owner may.
    """
    job = await context.queue.jobs.get(job_id)
    if job is None:
        admin = is_admin(context, call)
        raise CallRefused("refused.no_job" if admin else "refused.no_such_job", job=job_id)
    if not context.access.may_touch(call.invocation.user, job, call.invocation.rights):
        if call.invocation.button:
            raise CallRefused("refused.not_yours")
        raise CallRefused("refused.no_such_job", job=job_id)
    return job


async def past_job(context: Context, call: Call) -> Job:
    """Return the job named in the call, replied to, or the caller's latest. Raises `CallRefused`.

    Vectors are for programs: a chat has nothing to show of them or to change.
    """
    job = await _pointed_at(context, call)
    if job is not None:
        shown_request(job)
        return job
    await call.turn()
    latest = await context.queue.jobs.history(call.invocation.user, limit=1)
    if not latest:
        raise CallRefused("history.none")
    return latest[0]


def shown_request(job: Job) -> Made | Chat | TextToSpeech | SpeechToText:
    """Return a job's request, unless a chat cannot ask for it again. Raises `CallRefused`."""
    if isinstance(job.request, Embed):
        raise CallRefused("refused.for_programs", job=job.id)
    return job.request


async def pointed_job(context: Context, call: Call) -> Job:
    """Return the job named in the call or replied to: a job to remove is never guessed.

    Raises `CallRefused`.
    """
    job = await _pointed_at(context, call)
    if job is None:
        raise CallRefused("refused.say_which_job", command=call.invocation.command)
    return job


async def replied_job(context: Context, call: Call) -> Job | None:
    """Return the job whose message the call replies to, of any owner: they see it there."""
    ref = call.invocation.replied_to
    job_id = await context.records.job_of(ref) if ref is not None else None
    return await context.queue.jobs.get(job_id) if job_id is not None else None


async def stop_reading(context: Context, job: Job) -> bool:
    """End the job that reads an answer aloud; return whether there was one to end."""
    made = await context.queue.jobs.find(speech_key(job.id))
    if made is None or made.state.final:
        return False
    ended = await context.queue.submitter.cancel(made.id)
    return ended is not None and ended.state is JobState.CANCELLED


async def drawn_pictures(context: Context, job: Job) -> tuple[File, ...]:
    """Return the pictures of a job's result; none if it has none, or no longer has them."""
    output = await context.queue.jobs.output(job)
    files = output.files if output is not None else ()
    return tuple(file for file in files if file.mime.startswith("image/"))


def without(job: Job, *, kept: bool, gone: str, never: str) -> CallRefused:
    """Return why a job has not what a call wants of its result.

    It is still open, its result was `kept` and is `gone`, or it is a job that `never` had any of
    it; the last two are the keys of sentences.
    """
    if not job.state.final:
        return CallRefused("refused.unfinished", job=job.id)
    was_there = kept and job.state is JobState.COMPLETED
    return CallRefused(gone if was_there else never, job=job.id)


async def without_pictures(context: Context, job: Job) -> CallRefused:
    """Return why a job has no pictures to build on."""
    kept = is_drawn(job.request) and await context.queue.jobs.output(job) is None
    return without(job, kept=kept, gone="refused.result_gone", never="refused.no_pictures")


async def _pointed_at(context: Context, call: Call) -> Job | None:
    job_id = call.whole("id")
    if job_id is None and call.invocation.replied_to is not None:
        job_id = await context.records.job_of(call.invocation.replied_to)
    return None if job_id is None else await own_job(context, call, job_id)


async def meant_job(context: Context, call: Call) -> Job:
    """Return the job named in the call, replied to, or the caller's only open one.

    Raises `CallRefused`, naming the choices when there are several.
    """
    job = await _pointed_at(context, call)
    if job is not None:
        return job
    open_jobs = await context.queue.jobs.open_jobs(call.invocation.user)
    mine = [job for job in open_jobs if not isinstance(job.request, Embed)] or open_jobs
    if not mine:
        raise CallRefused("refused.no_open_job")
    if len(mine) > 1:
        named = ", ".join(f"{job.id} ({job.model})" for job in mine[:_NAMED])
        raise CallRefused("refused.which_job", jobs=named, example=mine[0].id)
    return mine[0]
