"""`/cancel [job]` and the button of that name: a waiting job leaves its line, a running one stops."""

from bot.commands.context import Answer, Call, CallRefused, Context, reply
from bot.commands.jobs import meant_job
from bot.commands.table import Command, Param, ParamKind, Topic
from queueing.jobs import JobState

COMMAND = Command(
    name="cancel",
    help="command.cancel",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await meant_job(context, call)
    if job.state.final:
        raise CallRefused("refused.already_ended", job=job.id)
    ended = await context.queue.cancel(job.id)
    if ended is None or ended.state is not JobState.CANCELLED:
        raise CallRefused("refused.already_ended", job=job.id)
    if call.invocation.button:
        return None  # the status message under the button says it
    return reply(call.say("cancel.done", job=job.id))
