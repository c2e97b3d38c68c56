"""`/audit`, for admins: who did what to whom, newest first."""

from bot.commands.call.context import Call, Context, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body, Moment
from bot.texts.catalogue import join

_SHOWN = 20

COMMAND = Command(
    name="audit",
    help="command.audit",
    admin=True,
    params=(Param(name="count", kind=ParamKind.WHOLE, help="param.rows", least=1, most=50),),
)


async def handle(context: Context, call: Call) -> Answer:
    acts = await context.audit.newest(call.whole("count") or _SHOWN)
    if not acts:
        return reply(call.say("audit.empty"))
    body: Body = ()
    for act in acts:
        detail = f" ({act.detail})" if act.detail else ""
        body += (Moment(act.at), f" · {act.actor} · {act.action} {act.subject}{detail}\n")
    return reply(join(body))
