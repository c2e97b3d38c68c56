"""`/image [model] <prompt>`: draw a picture, from words or from an attached picture."""

from bot.chat.api.answers import Answer
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands.attachments import pictures
from bot.chat.commands.context import Call, Context
from bot.chat.commands.options import IMAGE_OPTIONS, given_in
from bot.chat.commands.submitting import asking, placed
from bot.requests.drawing import Drawing, DrawingOptions
from queueing.core.requests import Capability

COMMAND = Command(
    name="image",
    help="command.image",
    topic=Topic.MAKE,
    example="example.image",
    takes={AttachmentKind.PICTURE: 1},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.TEXT_TO_IMAGE,),
        ),
        Param(
            name="prompt", kind=ParamKind.TEXT, help="param.prompt", required=True, positional=True
        ),
        *IMAGE_OPTIONS,
        Param(name="style", kind=ParamKind.STYLE, help="param.style"),
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw"),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.picture"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    drawing = Drawing(
        prompt=call.text("prompt") or "",
        model=call.text("model"),
        style=call.text("style"),
        options=DrawingOptions(**given_in(call)),
        files=await pictures(call),
        raw=bool(call.args.get("raw")),
    )
    needs = Capability.IMAGE_TO_IMAGE if drawing.files else Capability.TEXT_TO_IMAGE
    return placed(await context.admission.draw(await asking(context, call, needs), drawing))
