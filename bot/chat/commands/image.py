"""`/image [model] <prompt>`: draw a picture, from words or from an attached picture."""

from bot.chat.api.answers import Answer
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands import drawing, place
from bot.chat.commands.context import Call, Context, bounded, usual_model
from bot.chat.commands.parse import BadCall, size
from bot.requests import enhancement
from bot.requests.styles import Style
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
            able=Capability.TEXT_TO_IMAGE,
        ),
        Param(
            name="prompt", kind=ParamKind.TEXT, help="param.prompt", required=True, positional=True
        ),
        *drawing.OPTIONS,
        drawing.STYLE,
        Param(name="raw", kind=ParamKind.FLAG, help="param.raw"),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.picture"),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    prompt = bounded(call.text("prompt"), drawing.PROMPT_LIMIT)
    files = await place.pictures(call)
    if "strength" in call.args and not files:
        raise BadCall("problem.no_picture")
    capability = Capability.IMAGE_TO_IMAGE if files else Capability.TEXT_TO_IMAGE
    style = drawing.style_of(context, call)
    named = call.text("model") or _model_of(style, context, capability)
    named = named or usual_model(context, call.person, capability)
    model = context.catalog.require(named, capability).name
    takes = context.queue.options(model)
    drawing.refuse_unsupported(call, model, takes)
    request = drawing.styled(prompt, style, takes)
    request = request.model_copy(update={"seed": drawing.new_seed()})
    if (own := _own_size(call, takes)) and request.width is None:
        request = request.model_copy(update={"width": own[0], "height": own[1]})
    request = drawing.changed(request, call)
    if takes is None or "negative" in takes:
        negative = style.without(call.text("negative"))
        request = request.model_copy(update={"negative": negative})
    hold_s = 0.0
    if not call.args.get("raw"):
        hold_s = enhancement.hold_s(context.queue, model, request, has_picture=bool(files))
    return await drawing.draw(context, call, model, request, files, hold_s=hold_s)


def _model_of(style: Style, context: Context, capability: Capability) -> str | None:
    """Return the style's own model, where it can do what is asked."""
    spec = context.catalog.find(style.model) if style.model else None
    return spec.name if spec is not None and capability in spec.capabilities else None


def _own_size(call: Call, takes: frozenset[str] | None) -> tuple[int, int] | None:
    """Return the caller's usual size where the model takes one: nobody asked for it just now."""
    wanted = call.person.size if takes is None or "width" in takes else None
    return size(wanted) if wanted else None
