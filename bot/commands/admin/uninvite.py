"""`/uninvite <name>`, for admins: a person's link to the web chat ends, and so do their open jobs."""

from bot.commands.call.context import Call, CallRefused, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

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
