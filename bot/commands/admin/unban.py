"""`/unban <person>`, for admins: a banned person may use Usher again."""

from bot.commands.admin.targets import meant_person
from bot.commands.call.context import Call, CallRefused, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="unban",
    help="command.unban",
    admin=True,
    params=(Param(name="person", kind=ParamKind.PERSON, help="param.person", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    user = await meant_person(context, call)
    person = await context.people.get(user)
    if not person.is_banned(context.clock.now()):
        raise CallRefused("refused.not_banned", person=user)
    await context.people.change(user, banned_at=None, banned_until=None, ban_reason=None)
    await audited(context, call, "unban", user)
    return reply(call.say("unban.done", person=user))
