"""`/clear` and `/move`, for admins: cancel a model's waiting jobs, or move a job to the front."""

from bot.commands.admin.targets import meant_model
from bot.commands.call.context import Call, Context, audited, reply
from bot.commands.call.jobs import own_job
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.refusals import Declined, Refusal, RefusalKind

CLEAR = Command(
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


async def handle_clear(context: Context, call: Call) -> Answer:
    model = meant_model(context.catalog, call)
    cancelled = await context.queue.admin.clear(model)
    await audited(context, call, "clear", model, f"jobs: {len(cancelled)}")
    if not cancelled:
        return reply(call.say("clear.nothing", model=model))
    return reply(call.say("clear.done", model=model, count=len(cancelled)))


MOVE = Command(
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


async def handle_move(context: Context, call: Call) -> Answer:
    job = await own_job(context, call, call.whole("id") or 0)
    moved = await context.queue.admin.move_first(job.id)
    if moved is None:
        raise Declined(Refusal(RefusalKind.NOT_WAITING, job=job.id))
    await audited(context, call, "move", f"{job.model} {job.id}", "first")
    return reply(call.say("move.done", job=job.id, model=moved.model))
