"""What commands that submit a job share: they identify the caller and return the outcome."""

from bot.chat.api.answers import Placed
from bot.chat.api.origin import Origin
from bot.chat.commands.context import Call, Context
from bot.chat.commands.misspelt import near_model
from bot.requests.limits import Asking
from bot.requests.refusals import Declined, Refusal
from queueing.core.jobs import Job
from queueing.core.requests import Capability, Chat, File, TextToImage


async def asking(context: Context, call: Call, needs: Capability) -> Asking:
    """Return who asks in this call and where, once everything they sent before is accepted."""
    await call.turn()
    invocation = call.invocation
    settings = context.chat_settings.of(invocation.platform, invocation.places)
    near = await near_model(context, call, needs)
    return Asking(
        person=call.person,
        rights=frozenset(invocation.rights),
        unwanted=settings.words,
        key=invocation.key,
        reply_to=Origin.of(invocation, call.language, near).model_dump_json(),
    )


async def repeated(context: Context, call: Call, job: Job, request: TextToImage | Chat) -> Placed:
    """Submit again with a job's files, for `request` in place of its own. Raises `Declined`."""
    files = await context.queue.jobs.inputs(job)
    needs = Capability.TEXT_TO_TEXT if isinstance(request, Chat) else Capability.TEXT_TO_IMAGE
    by = await asking(context, call, needs)
    return placed(await context.admission.submit(by, job.model, request, files, earlier=job))


async def draw(
    context: Context, call: Call, model: str, request: TextToImage, files: tuple[File, ...] = ()
) -> Placed:
    """Submit a picture as the request has it. Raises `Declined`."""
    by = await asking(context, call, Capability.TEXT_TO_IMAGE)
    return placed(await context.admission.submit(by, model, request, files))


def placed(outcome: Job | Refusal) -> Placed:
    """Return the answer to a call that submitted a job. Raises `Declined`."""
    if not isinstance(outcome, Job):
        raise Declined(outcome)
    return Placed(job=outcome)
