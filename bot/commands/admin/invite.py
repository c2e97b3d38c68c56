"""`/invite [name]`, for admins: a personal link to the web chat for a person."""

from bot.commands.call.context import Call, CallRefused, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.requests.creation import require_text

_NAME_MOST = 40

COMMAND = Command(
    name="invite",
    help="command.invite",
    admin=True,
    params=(Param(name="name", kind=ParamKind.TEXT, help="param.guest", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    if context.invites is None:
        raise CallRefused("refused.no_invites")
    if call.text("name") is None:
        people = await context.invites.everybody()
        names = ", ".join(f"{each.name} (web:{each.id})" for each in people)
        return reply(call.say("invite.list", names=names) if people else call.say("invite.none"))
    if call.invocation.group:  # not every platform can answer there in private
        raise CallRefused("refused.invite_in_group")
    name = " ".join(require_text(call.text("name"), _NAME_MOST).split())
    invitation = await context.invites.invite(name, context.clock.now())
    await audited(context, call, "invite", f"web:{invitation.person.id}", name)
    key = "invite.renewed" if invitation.renewed else "invite.done"
    person = f"web:{invitation.person.id}"
    return reply(call.say(key, name=name, person=person, link=invitation.link))
