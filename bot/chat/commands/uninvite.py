"""`/uninvite <name>`, for admins: a person's link to the web chat ends, and so do their open jobs."""

from bot.chat.api.answers import Answer
from bot.chat.api.table import Command, Param, ParamKind
from bot.chat.commands.context import Call, CallRefused, Context, audited, reply

COMMAND = Command(
    name="uninvite",
    help="command.uninvite",
    admin=True,
    params=(
        Param(
            name="name", kind=ParamKind.TEXT, help="param.invited", required=True, positional=True
        ),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    if context.invites is None:
        raise CallRefused("refused.no_invites")
    named = call.text("name") or ""
    person = await context.invites.named(named)
    if person is None:
        raise CallRefused("refused.not_invited", name=named[:60])
    await context.invites.uninvite(person)
    for job in await context.queue.jobs.open_jobs(f"web:{person.id}"):
        await context.queue.submitter.cancel(job.id)
    await audited(context, call, "uninvite", f"web:{person.id}", person.name)
    return reply(call.say("uninvite.done", name=person.name))
