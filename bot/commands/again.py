"""`/again <job>` and the button of that name: the same request once more, with a new seed."""

import secrets

from bot.commands import place
from bot.commands.answer import Answer, Placed
from bot.commands.context import Call, Context
from bot.commands.jobs import past_job
from bot.commands.table import Command, Param, ParamKind, Topic
from queueing.requests import TextToImage

COMMAND = Command(
    name="again",
    help="command.again",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    request = job.request
    if isinstance(request, TextToImage):
        request = request.model_copy(update={"seed": secrets.randbelow(2**32)})
    files = await context.queue.inputs(job)
    placed = await place.place(context, call, job.model, request, files, earlier=job)
    return Placed(job=placed)
