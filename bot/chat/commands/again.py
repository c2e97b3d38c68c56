"""`/again <job>` and the button of that name: the same request once more, with a new seed."""

import secrets

from bot.chat.api.answers import Answer, Placed
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands import place
from bot.chat.commands.context import Call, Context
from bot.chat.commands.jobs import past_job
from queueing.core.requests import TextToImage

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
