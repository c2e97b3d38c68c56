"""`/show <job>` and the button of that name: an ended job again, as a fresh message with buttons."""

from bot.commands.context import Answer, Call, Context, Shown, reply
from bot.commands.jobs import own_job
from bot.commands.table import Command, Param, ParamKind
from bot.records import Origin
from bot.texts import status

COMMAND = Command(
    name="show",
    help="command.show",
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True, positional=True),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await own_job(context, call, call.whole("id") or 0)
    if job.state.final:
        return Shown(job=job, origin=Origin.of(call.invocation, call.language))
    # Its own message goes on living where it is: here is only how it stands now.
    standing = (await context.queue.standings([job]))[job.id]
    content = status.open_message(standing, None, call.language, previews=False)
    return reply(content.body, buttons=content.buttons[0])
