"""`/delete <job>` and the button of that name: the job's messages leave the chat.

Links to its files end with them. The result itself stays as long as retention keeps it; `/forget`
really deletes.
"""

from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.jobs import pointed_job, stop_reading
from bot.core.answers import Answer, Removed
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content

COMMAND = Command(
    name="delete",
    help="command.delete",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await pointed_job(context, call)
    if not job.state.final:
        raise CallRefused("refused.still_open", job=job.id)
    await stop_reading(context, job)
    if context.links is not None:
        await context.links.end(job.id)
    refs = await context.records.parts(job.id)
    here = [ref for ref in refs if ref.platform == call.invocation.platform]
    pressed = call.invocation.replied_to if call.invocation.button else None
    if pressed is not None and pressed not in here:
        here.append(pressed)
    return Removed(
        refs=tuple(here),
        instead=Content(body=call.say("status.deleted")),
        said=Content(body=call.say("delete.done", job=job.id)),
    )
