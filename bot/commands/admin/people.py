"""`/ban`, `/unban`, `/invite`, `/uninvite` and `/audit`, for admins: who may use Usher."""

from bot.commands.admin.targets import meant_person
from bot.commands.call.context import Call, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body, Moment
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.api_keys import service_of
from bot.people.people import HOUR_S
from bot.requests.creation import require_text
from bot.texts.catalogue import join
from queueing.core.jobs import Job

_ACTS_SHOWN = 20

AUDIT = Command(
    name="audit",
    help="command.audit",
    admin=True,
    params=(Param(name="count", kind=ParamKind.WHOLE, help="param.rows", least=1, most=50),),
)


async def handle_audit(context: Context, call: Call) -> Answer:
    acts = await context.audit.newest(call.whole("count") or _ACTS_SHOWN)
    if not acts:
        return reply(call.say("audit.empty"))
    body: Body = ()
    for act in acts:
        detail = f" ({act.detail})" if act.detail else ""
        body += (Moment(act.at), f" · {act.actor} · {act.action} {act.subject}{detail}\n")
    return reply(join(body))


BAN = Command(
    name="ban",
    help="command.ban",
    admin=True,
    params=(
        Param(name="person", kind=ParamKind.PERSON, help="param.person", positional=True),
        Param(name="reason", kind=ParamKind.TEXT, help="param.reason", positional=True),
        Param(name="hours", kind=ParamKind.DECIMAL, help="param.hours", least=0.1, most=87_600),
    ),
)


async def handle_ban(context: Context, call: Call) -> Answer:
    user, now = await meant_person(context, call), context.clock.now()
    own = user == call.invocation.user
    if context.access.is_admin(user, call.invocation.rights if own else ()):
        raise Declined(Refusal(RefusalKind.BAN_ADMIN))
    hours, reason = call.decimal("hours"), call.text("reason")
    until = None if hours is None else now + hours * HOUR_S
    await context.people.change(user, banned_at=now, banned_until=until, ban_reason=reason)
    for job in await context.queue.jobs.open_jobs():
        owner = await _asked_by(context, job)
        if user in {owner, service_of(owner)}:
            await context.queue.submitter.cancel(job.id)
    details = (reason, None if hours is None else f"for {hours:g} h")
    await audited(context, call, "ban", user, ", ".join(each for each in details if each))
    if until is None:
        return reply(call.say("ban.done", person=user))
    return reply(call.say("ban.done_until", person=user, moment=Moment(until)))


async def _asked_by(context: Context, job: Job) -> str:
    """Return a job's owner; for a job that reads an answer aloud, the person who asked."""
    made_for = None if job.parent is None else await context.queue.jobs.get(job.parent)
    return job.owner if made_for is None else made_for.owner


_NAME_MOST = 40

INVITE = Command(
    name="invite",
    help="command.invite",
    admin=True,
    params=(Param(name="name", kind=ParamKind.TEXT, help="param.guest", positional=True),),
)


async def handle_invite(context: Context, call: Call) -> Answer:
    if context.invites is None:
        raise Declined(Refusal(RefusalKind.NO_INVITES))
    if call.text("name") is None:
        people = await context.invites.everybody()
        names = ", ".join(f"{each.name} (web:{each.id})" for each in people)
        return reply(call.say("invite.list", names=names) if people else call.say("invite.none"))
    if call.invocation.group:  # not every platform can answer privately there
        raise Declined(Refusal(RefusalKind.INVITE_IN_GROUP))
    name = " ".join(require_text(call.text("name"), _NAME_MOST).split())
    invitation = await context.invites.invite(name, context.clock.now())
    await audited(context, call, "invite", f"web:{invitation.person.id}", name)
    key = "invite.renewed" if invitation.renewed else "invite.done"
    person = f"web:{invitation.person.id}"
    return reply(call.say(key, name=name, person=person, link=invitation.link))


UNBAN = Command(
    name="unban",
    help="command.unban",
    admin=True,
    params=(Param(name="person", kind=ParamKind.PERSON, help="param.person", positional=True),),
)


async def handle_unban(context: Context, call: Call) -> Answer:
    user = await meant_person(context, call)
    person = await context.people.get(user)
    if not person.is_banned(context.clock.now()):
        raise Declined(Refusal(RefusalKind.NOT_BANNED, person=user))
    await context.people.change(user, banned_at=None, banned_until=None, ban_reason=None)
    await audited(context, call, "unban", user)
    return reply(call.say("unban.done", person=user))


UNINVITE = Command(
    name="uninvite",
    help="command.uninvite",
    admin=True,
    params=(
        Param(
            name="name", kind=ParamKind.TEXT, help="param.invited", required=True, positional=True
        ),
    ),
)


async def handle_uninvite(context: Context, call: Call) -> Answer:
    if context.invites is None:
        raise Declined(Refusal(RefusalKind.NO_INVITES))
    named = call.text("name") or ""
    person = await context.invites.named(named)
    if person is None:
        raise Declined(Refusal(RefusalKind.NOT_INVITED, name=named[:60]))
    await context.invites.uninvite(person)
    for job in await context.queue.jobs.open_jobs(f"web:{person.id}"):
        await context.queue.submitter.cancel(job.id)
    await audited(context, call, "uninvite", f"web:{person.id}", person.name)
    return reply(call.say("uninvite.done", name=person.name))
