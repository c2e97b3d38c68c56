"""`/show <job>` and the button of that name: an ended job again, as a fresh message with buttons."""

from bot.commands.call.context import Call, Context, reply
from bot.commands.call.jobs import past_job
from bot.core.answers import Answer, ShownAgain
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.origin import Origin
from bot.texts import status

COMMAND = Command(
    name="show",
    help="command.show",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    if job.state.final:
        return ShownAgain(job=job, origin=Origin.of(call.invocation, call.language))
    # Its own message continues to be updated; this only shows how the job stands now.
    standing = (await context.queue.status.standings([job]))[job.id]
    content = status.open_message(standing, None, call.language, previews=False)
    return reply(content.body, buttons=content.buttons[0])
