"""`/pause [model or host]`, for admins: start nothing more there; without either, nothing at all."""

from bot.commands.admin.target import meant_target, subject, words
from bot.commands.call.context import Call, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="pause",
    help="command.pause",
    admin=True,
    params=(
        Param(name="model", kind=ParamKind.MODEL, help="param.admin_model", positional=True),
        Param(name="host", kind=ParamKind.HOST, help="param.host", positional=True),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    model, host = meant_target(context.catalog, call)
    await context.queue.admin.pause(model=model, host=host)
    await audited(context, call, "pause", subject(model, host))
    return reply(call.say("pause.done", what=words(call, model, host)))
