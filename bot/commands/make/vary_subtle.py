"""The button of that name: a variation that stays close to the picture."""

from bot.commands.call.context import Call, Context
from bot.commands.make.vary import vary
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="vary-subtle",
    help="command.vary",
    hidden=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),
        Param(name="number", kind=ParamKind.WHOLE, help="param.number", least=1, most=4),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    return await vary(context, call, "subtle")
