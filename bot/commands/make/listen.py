"""A recording without a typed word: what is said in it is the question."""

from bot.commands.call.context import Call, Context
from bot.commands.make import ask
from bot.core.answers import Answer
from bot.core.command import Command

COMMAND = Command(
    name="listen",
    help="command.listen",
    hidden=True,
    takes=ask.COMMAND.takes,
    params=tuple(param for param in ask.COMMAND.params if param.name == "model"),
)


async def handle(context: Context, call: Call) -> Answer:
    return await ask.put(context, call, "")
