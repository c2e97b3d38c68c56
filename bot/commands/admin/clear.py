"""`/clear <model>`, for admins: cancel every waiting job of a model; running ones continue."""

from bot.commands.admin.target import meant_model
from bot.commands.call.context import Call, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="clear",
    help="command.clear",
    admin=True,
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.admin_model",
            required=True,
            positional=True,
        ),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    model = meant_model(context.catalog, call)
    cancelled = await context.queue.admin.clear(model)
    await audited(context, call, "clear", model, f"jobs: {len(cancelled)}")
    if not cancelled:
        return reply(call.say("clear.nothing", model=model))
    return reply(call.say("clear.done", model=model, count=len(cancelled)))
