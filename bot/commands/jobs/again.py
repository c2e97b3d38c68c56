"""`/again <job>` and the button of that name: the same request once more, with a new seed."""

from bot.commands.call.context import Call, Context
from bot.commands.call.jobs import past_job
from bot.commands.call.submission import repeated
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from bot.requests.creation import new_seed
from queueing.core.requests import Generation

COMMAND = Command(
    name="again",
    help="command.again",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    request = job.request
    if isinstance(request, Generation):
        request = request.model_copy(update={"seed": new_seed()})
    return await repeated(context, call, job, request)
