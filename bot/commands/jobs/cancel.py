"""`/cancel` ends waiting or running jobs; `/delete` removes a job's messages from the chat."""

from bot.commands.call.context import Call, Context, audited, reply
from bot.commands.call.jobs import meant_job, pointed_job, stop_reading
from bot.core.answers import Answer, Deletion
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content
from bot.core.refusals import Declined, Refusal, RefusalKind
from queueing.core.jobs import JobState

_ALL = "all"

CANCEL = Command(
    name="cancel",
    help="command.cancel",
    topic=Topic.JOBS,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True, choices=(_ALL,)),
    ),
)


async def handle_cancel(context: Context, call: Call) -> Answer:
    if call.text("id") == _ALL:
        return await _all(context, call)
    job = await meant_job(context, call)
    if job.state.final and await stop_reading(context, job):
        return reply(call.say("cancel.reading", job=job.id))
    if job.state.final:
        raise Declined(Refusal(RefusalKind.ALREADY_ENDED, job=job.id))
    ended = await context.queue.submitter.cancel(job.id)
    if ended is None or ended.state is not JobState.CANCELLED:
        raise Declined(Refusal(RefusalKind.ALREADY_ENDED, job=job.id))
    if job.owner != call.invocation.user:  # only admins may cancel others' jobs
        await audited(context, call, CANCEL.name, f"{job.model} {job.id}", f"of {job.owner}")
    if call.invocation.button:
        return None  # the status message above the button shows the outcome
    return reply(call.say("cancel.done", job=job.id))


async def _all(context: Context, call: Call) -> Answer:
    mine = await context.queue.jobs.open_jobs(call.invocation.user)
    if not mine:
        raise Declined(Refusal(RefusalKind.NO_OPEN_JOB))
    # Newest first, so that no job starts or enters its queue only to be cancelled.
    ended = [await context.queue.submitter.cancel(job.id) for job in reversed(mine)]
    count = sum(job is not None and job.state is JobState.CANCELLED for job in ended)
    return reply(call.say("cancel.all_done", count=count))


DELETE = Command(
    name="delete",
    help="command.delete",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle_delete(context: Context, call: Call) -> Answer:
    job = await pointed_job(context, call)
    if not job.state.final:
        raise Declined(Refusal(RefusalKind.STILL_OPEN, job=job.id))
    await stop_reading(context, job)
    if context.links is not None:
        await context.links.end(job.id)
    at = call.invocation
    refs = await context.records.parts(job.id, at.platform, at.chat)
    here = [ref for ref in refs if ref.platform == at.platform]
    pressed = at.replied_to if at.button else None
    if pressed is not None and pressed not in here:
        here.append(pressed)
    return Deletion(
        refs=tuple(here),
        instead=Content(body=call.say("status.deleted")),
        said=Content(body=call.say("delete.done", job=job.id)),
        failed=Content(body=call.say("delete.failed", job=job.id), refused=True),
    )
