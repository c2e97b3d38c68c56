"""`/move <job> first`, for admins: a waiting job gets the first place of its line."""

from bot.commands.call.context import Call, CallRefused, Context, audited, reply
from bot.commands.call.jobs import own_job
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind

COMMAND = Command(
    name="move",
    help="command.move",
    admin=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True, positional=True),
        Param(
            name="to",
            kind=ParamKind.CHOICE,
            help="param.place",
            required=True,
            positional=True,
            choices=("first",),
        ),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await own_job(context, call, call.whole("id") or 0)
    moved = await context.queue.admin.move_first(job.id)
    if moved is None:
        raise CallRefused("refused.not_waiting", job=job.id)
    await audited(context, call, "move", f"{job.model} {job.id}", "first")
    return reply(call.say("move.done", job=job.id, model=moved.model))
