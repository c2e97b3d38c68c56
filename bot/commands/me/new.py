"""`/new`: the next question begins a new conversation."""

from bot.commands.call.context import Call, Context, reply
from bot.core.answers import Answer
from bot.core.command import Command

COMMAND = Command(name="new", help="command.new")


async def handle(context: Context, call: Call) -> Answer:
    """Begin a new conversation; in groups only replies continue one anyway."""
    if call.invocation.group:
        return reply(call.say("new.in_groups"))
    await begin(context, call)
    return reply(call.say("new.begun"))


async def begin(context: Context, call: Call) -> None:
    """Begin a new conversation of the caller in this chat."""
    await call.turn()
    at = call.invocation
    now = context.clock.now()
    await context.records.begin_afresh(at.platform, at.chat, at.user, now, idle_s=context.idle())
