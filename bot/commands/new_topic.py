"""The button of that name under an answer that went on by itself: begin afresh."""

from bot.commands.answer import Answer
from bot.commands.context import Call, Context, reply
from bot.commands.jobs import own_job
from bot.commands.new import begin
from bot.commands.table import Command, Param, ParamKind

COMMAND = Command(
    name="new-topic",
    help="command.new",
    hidden=True,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    """Begin afresh, for the person whose answer it is."""
    await own_job(context, call, call.whole("id") or 0)
    await begin(context, call)
    return reply(call.say("new.begun"))
