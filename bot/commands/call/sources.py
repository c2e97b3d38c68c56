"""Finding the pictures a call is about: attached, or a result's."""

from dataclasses import dataclass

from bot.commands.call.attachments import pictures
from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.jobs import drawn_pictures, own_job, replied_job, without_pictures
from bot.core.refusals import Declined, NoPicture
from bot.requests.kinds import is_drawn
from queueing.core.jobs import Job
from queueing.core.requests import File, TextToImage


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A picture, and the job that drew it if the bot did."""

    file: File
    job: Job | None = None

    @property
    def request(self) -> TextToImage:
        """The request the picture was drawn from; None for a person's own picture."""
        if self.job is not None and isinstance(self.job.request, TextToImage):
            return self.job.request
        return TextToImage(prompt="")

    def job_of(self, user: str) -> int | None:
        """Return the job that drew it if it is this person's; another's could not be shown."""
        return self.job.id if self.job is not None and self.job.owner == user else None


async def meant_source(context: Context, call: Call) -> Source:
    """Return the picture attached, of the job named, or of the result replied to.

    A person who replies to a result, or opens the menu on it, sees it and may build on it; a job named
    by its number or its button must be their own. Raises `BadCall`, `CallRefused` and `Declined`.
    """
    job_id = call.whole("id")
    own = any(not each.replied for each in call.invocation.files)
    if own and job_id is not None:
        raise CallRefused("refused.picture_or_job", job=job_id)
    source = None if own else await _drawn(context, call)
    return source or await _attached(call)


async def all_sources(context: Context, call: Call) -> tuple[Source, ...]:
    """Return the picture of a job named or replied to, then the attached ones; none without any.

    Where the result of a job is meant, other files of its message do not count again: the same
    pictures in the chat's form. Raises as `meant_source` does.
    """
    drawn = await _drawn(context, call)
    files = call.invocation.files
    theirs = [each for each in files if each.replied and drawn is None]
    own = [each for each in files if not each.replied]
    attached = await pictures(call, of=(*theirs, *own))
    found = tuple(Source(file=file) for file in attached)
    return found if drawn is None else (drawn, *found)


async def _drawn(context: Context, call: Call) -> Source | None:
    """Return the picture of a job that is named or replied to, if that drew one."""
    job_id = call.whole("id")
    if job_id is not None:
        return await _of(context, call, await own_job(context, call, job_id))
    job = await replied_job(context, call)
    if job is None or not is_drawn(job.request):
        return None
    return await _of(context, call, job)


async def _attached(call: Call) -> Source:
    """Return the one attached picture. Raises `Declined` where there is none."""
    attached = await pictures(call)
    if not attached:
        raise Declined(NoPicture())
    return Source(file=attached[0])


async def _of(context: Context, call: Call, job: Job) -> Source:
    drawn = await drawn_pictures(context, job)
    if not drawn:
        raise await without_pictures(context, job)
    number = call.whole("number") or 1
    if number > len(drawn):
        raise CallRefused("refused.no_such_picture", job=job.id, count=len(drawn))
    return Source(file=drawn[number - 1], job=job)
