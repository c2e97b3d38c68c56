"""Finds the job a call is about, checks access to it, and finds the conversation it continues."""

import re

from bot.commands.call.context import Call, Context, is_admin
from bot.core.origin import Origin
from bot.core.platform import ForwardedText, Invocation
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.creation import Made
from bot.requests.dictation import is_dictated
from bot.requests.recordings import speech_key
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, Embed, File, SpeechToText, TextToImage, TextToSpeech

_NAMED = 8


async def own_job(context: Context, call: Call, job_id: int, *, seen: bool = False) -> Job:
    """Return a job the caller may access. Raises `Declined`.

    A caller who types another person's job number learns nothing about the job. A caller who
    presses the button under the job, or has `seen` it otherwise, is told that only its owner may do
    this.
    """
    job = await context.queue.jobs.get(job_id)
    if job is None and call.invocation.button:
        raise Declined(Refusal(RefusalKind.FORGOTTEN_JOB))
    if job is None:
        kind = RefusalKind.NO_JOB if is_admin(context, call) else RefusalKind.NO_SUCH_JOB
        raise Declined(Refusal(kind, job=job_id))
    if not context.access.may_touch(call.invocation.user, job, call.invocation.rights):
        if seen or call.invocation.button:
            raise Declined(Refusal(RefusalKind.NOT_YOURS))
        raise Declined(Refusal(RefusalKind.NO_SUCH_JOB, job=job_id))
    return job


async def shown_job(context: Context, call: Call, job_id: int) -> Job:
    """Return a job of which the caller may show something here. Raises `Declined`.

    What a rule keeps for its owner, an admin sees only in private.
    """
    return _readable_here(context, call, await own_job(context, call, job_id))


def _readable_here(context: Context, call: Call, job: Job) -> Job:
    others = call.invocation.group and job.owner != call.invocation.user
    if others and context.admission.of_job(job).rule.private:
        raise Declined(Refusal(RefusalKind.PRIVATE_JOB, job=job.id))
    return job


async def past_job(context: Context, call: Call) -> Job:
    """Return the job named in the call, replied to, or the caller's latest that a chat shows.

    Raises `Declined`.

    Embeddings are for programs: a chat cannot show or change them.
    """
    job = await _pointed_at(context, call)
    if job is not None:
        shown_request(job)
        return _readable_here(context, call, job)
    await call.turn()
    latest = await context.queue.jobs.history(call.invocation.user, limit=_PAGE)
    seen = next((job for job in latest if not is_dictated(job)), None)
    if seen is None:
        raise Declined(Refusal(RefusalKind.NO_JOBS_YET))
    return seen


def shown_request(job: Job) -> Made | Chat | TextToSpeech | SpeechToText:
    """Return a job's request, if a chat can repeat it. Raises `Declined`."""
    if isinstance(job.request, Embed):
        raise Declined(Refusal(RefusalKind.FOR_PROGRAMS, job=job.id))
    return job.request


async def pointed_job(context: Context, call: Call) -> Job:
    """Return the job named in the call or replied to.

    Never guesses, because the job is to be removed.

    Raises `Declined`.
    """
    job = await _pointed_at(context, call)
    if job is None:
        raise Declined(Refusal(RefusalKind.SAY_WHICH_JOB))
    return job


async def replied_job(context: Context, call: Call) -> Job | None:
    """Return the job whose message the call replies to.

    It may be anyone's job, because the caller can see that message.
    """
    return await _replied(context, call.invocation)


async def _replied(context: Context, invocation: Invocation) -> Job | None:
    ref = invocation.replied_to
    job_id = await context.records.job_of(ref) if ref is not None else None
    return await context.queue.jobs.get(job_id) if job_id is not None else None


async def words_behind(context: Context, call: Call) -> str:
    """Return the transcript, the prompt or the text read aloud that a call replies to, or ""."""
    job = await _replied(context, call.invocation)
    if job is not None and isinstance(job.request, SpeechToText):
        output = await context.queue.jobs.output(job)
        return output.text if output is not None else ""
    if job is not None and isinstance(job.request, TextToSpeech) and job.request.source is None:
        return job.request.text
    return job.request.words if job is not None and job.request.gives_files else ""


async def answer_behind(context: Context, invocation: Invocation) -> str:
    """Return the answer that a call replies to, or "" if it replies to none."""
    job = await _source(context, await _replied(context, invocation))
    if job is None or not isinstance(job.request, Chat):
        return ""
    output = await context.queue.jobs.output(job)
    return output.text if output is not None else ""


async def has_words(context: Context, invocation: Invocation) -> bool:
    """Return whether a call replies to an answer, an answer read aloud or a transcript."""
    job = await _source(context, await _replied(context, invocation))
    return job is not None and isinstance(job.request, Chat | SpeechToText)


async def _source(context: Context, job: Job | None) -> Job | None:
    """Return the job whose answer a job reads aloud, or else the job itself."""
    if job is None or not isinstance(job.request, TextToSpeech) or job.request.source is None:
        return job
    return await context.queue.jobs.get(job.request.source)


async def stop_reading(context: Context, job: Job) -> bool:
    """Cancel the job that reads an answer aloud. Returns whether there was one."""
    made = await context.queue.jobs.find(speech_key(job.id))
    if made is None or made.state.final:
        return False
    ended = await context.queue.submitter.cancel(made.id)
    return ended is not None and ended.state is JobState.CANCELLED


async def drawn_images(context: Context, job: Job) -> tuple[File, ...]:
    """Return the images of a job's result; empty if it has none or they were removed."""
    output = await context.queue.jobs.output(job)
    files = output.files if output is not None else ()
    return tuple(file for file in files if file.mime.startswith("image/"))


def without(job: Job, *, kept: bool, gone: RefusalKind, never: RefusalKind) -> Declined:
    """Return the refusal for a job whose result lacks what a call needs.

    An open job is refused as unfinished. Otherwise the refusal is `gone` if a completed job's
    result was `kept` for a while, and `never` if there was nothing to keep.
    """
    if not job.state.final:
        return Declined(Refusal(RefusalKind.UNFINISHED, job=job.id))
    was_there = kept and job.state is JobState.COMPLETED
    return Declined(Refusal(gone if was_there else never, job=job.id))


async def without_images(context: Context, job: Job) -> Declined:
    """Return why a job has no images to build on."""
    kept = isinstance(job.request, TextToImage) and await context.queue.jobs.output(job) is None
    return without(job, kept=kept, gone=RefusalKind.IMAGES_GONE, never=RefusalKind.NO_IMAGES)


async def _pointed_at(context: Context, call: Call) -> Job | None:
    job_id, seen = call.whole("id"), call.invocation.replied_to
    if job_id is not None:
        return await own_job(context, call, job_id)
    job_id = await context.records.job_of(seen) if seen is not None else None
    return None if job_id is None else await own_job(context, call, job_id, seen=True)


async def meant_job(context: Context, call: Call) -> Job:
    """Return the job named in the call, replied to, or the caller's only open one.

    Raises `Declined`, naming the choices if there are several.
    """
    job = await _pointed_at(context, call)
    if job is not None:
        return job
    open_jobs = await context.queue.jobs.open_jobs(call.invocation.user)
    mine = [job for job in open_jobs if not isinstance(job.request, Embed)] or open_jobs
    if not mine:
        raise Declined(Refusal(RefusalKind.NO_OPEN_JOB))
    if len(mine) > 1:
        named = ", ".join(f"{job.id} ({job.model})" for job in mine[:_NAMED])
        raise Declined(Refusal(RefusalKind.WHICH_JOB, jobs=named, example=mine[0].id))
    return mine[0]


_PAGE = 10
_OLDER = 50  # jobs of a chat, of which one may be a question
_NAME_MOST = 32
_ROLES = frozenset({"system", "user", "assistant", "developer", "tool", "function"})


async def earlier_job(context: Context, call: Call) -> Job | None:
    """Return the job whose exchange a question continues; None if it starts a conversation."""
    await call.turn()
    invocation = call.invocation
    if invocation.replied_to is not None:
        job = await _source(context, await _replied(context, invocation))
        return job if job is not None and isinstance(job.request, Chat) else None
    if invocation.group or call.text("about") is not None or context.live.idle_s <= 0:
        return None
    return await _last(context, call)


def name_of(call: Call) -> str | None:
    """Return the speaker's name for the model; None in a private chat."""
    return _readable(call.invocation.user_name) if call.invocation.group else None


def quoted_in(call: Call) -> str:
    """Return the quoted text, preceded by its author's name if it may be another person's."""
    invocation = call.invocation
    others = invocation.group or invocation.quoted_by != invocation.user_name
    name = _readable(invocation.quoted_by) if others and invocation.quoted else None
    return invocation.quoted if name is None else f"{name}: {invocation.quoted}"


def forwarded_in(call: Call) -> str:
    """Return the forwarded texts, each after its source."""
    return "\n\n".join(map(_sourced, call.invocation.forwarded))


def _sourced(forwarded: ForwardedText) -> str:
    name = _readable(forwarded.by)
    return f"Forwarded{f' from {name}' if name else ''}:\n{forwarded.text}"


def _readable(name: str) -> str | None:
    """Return a name as the model reads it; None if nothing readable is left.

    Only letters, digits and some punctuation are kept, so the name can neither end the line nor
    pass for a role.
    """
    words = re.sub(r"[^\w .'\u2019-]|_", " ", name)
    readable = " ".join(words.split())[:_NAME_MOST].strip()
    return f"({readable})" if readable.casefold() in _ROLES else readable or None


async def _last(context: Context, call: Call) -> Job | None:
    """Return the person's last exchange in this chat, unless it is too old or `/new` ended it."""
    invocation, now = call.invocation, context.clock.now()
    since = now - context.live.idle_s
    fresh = await context.records.afresh_since(
        invocation.platform, invocation.chat, invocation.user
    )
    before = None
    while page := await context.queue.jobs.history(invocation.user, limit=_PAGE, before=before):
        recent = (
            job for job in page if job.queued_at > fresh and (job.finished_at or now) >= since
        )
        found = next((job for job in recent if _is_exchange(job, call)), None)
        if found is not None:
            return found
        if page[-1].queued_at < max(since, fresh):
            break
        before = page[-1].id
    return await _older(context, call, fresh) if invocation.lasting else None


async def _older(context: Context, call: Call, fresh: float) -> Job | None:
    """Return the last exchange among the newest jobs of a chat that is one conversation."""
    at = call.invocation
    for job_id in await context.records.jobs_in(at.platform, at.chat, _OLDER):
        job = await context.queue.jobs.get(job_id)
        if job is None or job.owner != at.user or job.queued_at <= fresh:
            continue
        if _is_exchange(job, call):
            return job
    return None


def _is_exchange(job: Job, call: Call) -> bool:
    """Return whether a job is a question of this chat that neither failed nor was cancelled."""
    if not isinstance(job.request, Chat) or job.state in {JobState.FAILED, JobState.CANCELLED}:
        return False
    origin = Origin.model_validate_json(job.reply_to)
    return (origin.platform, origin.chat) == (call.invocation.platform, call.invocation.chat)
