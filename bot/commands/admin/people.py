"""`/ban <person> [reason]`, for admins: bar a person from Usher, for a while or for good."""

from bot.commands.admin.targets import meant_person
from bot.commands.call.context import Call, CallRefused, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Moment
from bot.people.api_keys import service_of
from bot.people.people import HOUR_S
from queueing.core.jobs import Job

COMMAND = Command(
    name="ban",
    help="command.ban",
    admin=True,
    params=(
        Param(name="person", kind=ParamKind.PERSON, help="param.person", positional=True),
        Param(name="reason", kind=ParamKind.TEXT, help="param.reason", positional=True),
        Param(name="hours", kind=ParamKind.DECIMAL, help="param.hours", least=0.1, most=87_600),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    user, now = await meant_person(context, call), context.clock.now()
    own = user == call.invocation.user
    if context.access.is_admin(user, call.invocation.rights if own else ()):
        raise CallRefused("refused.ban_admin")
    hours, reason = call.decimal("hours"), call.text("reason")
    until = None if hours is None else now + hours * HOUR_S
    await context.people.change(user, banned_at=now, banned_until=until, ban_reason=reason)
    for job in await context.queue.jobs.open_jobs():
        owner = await _asked_by(context, job)
        if user in {owner, service_of(owner)}:
            await context.queue.submitter.cancel(job.id)
    told = (reason, None if hours is None else f"for {hours:g} h")
    await audited(context, call, "ban", user, ", ".join(each for each in told if each))
    if until is None:
        return reply(call.say("ban.done", person=user))
    return reply(call.say("ban.done_until", person=user, moment=Moment(until)))


async def _asked_by(context: Context, job: Job) -> str:
    """Return whose job it is; one that reads an answer aloud is the asker's."""
    made_for = None if job.parent is None else await context.queue.jobs.get(job.parent)
    return job.owner if made_for is None else made_for.owner
