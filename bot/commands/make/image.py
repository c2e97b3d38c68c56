"""`/image [model] <prompt>`: draw an image from text or from attached images."""

from collections.abc import Sequence

from bot.commands.call.context import Call, Context
from bot.commands.call.files import images
from bot.commands.call.options import IMAGE_OPTIONS, IMAGES, WHEN, given_in
from bot.commands.call.submission import create
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.platform import Attachment
from bot.requests.creation import Creation, DrawingOptions
from queueing.core.requests import REFERENCES_MOST, Capability

COMMAND = Command(
    name="image",
    help="command.image",
    topic=Topic.MAKE,
    aliases=("imagine", "draw", "generate"),
    example="example.image",
    takes={AttachmentKind.IMAGE: REFERENCES_MOST},
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
        *WHEN,
        Param(name="style", kind=ParamKind.STYLE, help="param.style"),
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw", rare=True),
        *IMAGES,
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    files = await images(call, of=_sources(context, call))
    drawing = Creation(
        prompt=call.text("prompt") or "",
        model=call.text("model"),
        style=call.text("style"),
        options=DrawingOptions(**given_in(context, call)),
        files=files,
        raw=bool(call.args.get("raw")),
    )
    needs = Capability.IMAGE_TO_IMAGE if files else Capability.TEXT_TO_IMAGE
    return await create(context, call, needs, drawing)


def _sources(context: Context, call: Call) -> Sequence[Attachment]:
    """Return the images to draw from.

    If no model combines images, those of a replied-to message count only if the person attached
    none.
    """
    files = call.invocation.files
    own = [each for each in files if not each.replied]
    combined = bool(context.catalog.able(Capability.IMAGE_EDIT))
    return files if combined or not own else own
