"""`/upscale` and the button of that name: the same picture, larger."""

from bot.commands.call.context import Call, Context
from bot.commands.call.sources import meant_source
from bot.commands.call.submission import draw
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from queueing.core.requests import Capability, TextToImage

COMMAND = Command(
    name="upscale",
    help="command.upscale",
    topic=Topic.MAKE,
    takes={AttachmentKind.PICTURE: 1},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.UPSCALE,),
        ),
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        Param(name="number", kind=ParamKind.WHOLE, help="param.number", least=1, most=4),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.picture"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    source = await meant_source(context, call)
    model = call.text("model") or context.admission.usual_model(call.person, Capability.UPSCALE)
    request = TextToImage(
        prompt=source.request.prompt,
        seed=source.request.seed,
        upscale=True,
        source=source.job_of(call.invocation.user),
    )
    return await draw(context, call, model, request, (source.file,))
