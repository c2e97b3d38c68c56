"""A recording without a typed word: what is said in it is the question."""

from bot.chat.api.answers import Answer
from bot.chat.api.table import Command
from bot.chat.commands import ask
from bot.chat.commands.context import Call, Context

COMMAND = Command(
    name="listen",
    help="command.listen",
    hidden=True,
    takes=ask.COMMAND.takes,
    params=tuple(param for param in ask.COMMAND.params if param.name == "model"),
)


async def handle(context: Context, call: Call) -> Answer:
    return await ask.put(context, call, "")
