"""The button of that name under an answer that continued by itself: begin a new conversation."""

from bot.commands.call.context import Call, Context, reply
from bot.commands.call.jobs import own_job
from bot.commands.me.new import begin
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="new-topic",
    help="command.new",
    hidden=True,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    """Begin a new conversation for the person whose answer it is."""
    await own_job(context, call, call.whole("id") or 0)
    await begin(context, call)
    return reply(call.say("new.begun"))
