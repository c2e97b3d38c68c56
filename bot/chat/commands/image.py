"""`/image [model] <prompt>`: draw a picture, from words or from an attached picture."""

from bot.chat.api.answers import Answer
from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.table import Command, Param, ParamKind, Topic
from bot.chat.commands.attachments import pictures
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.submitting import asking, placed
from bot.requests.drawing import Drawing, DrawingOptions
from bot.requests.loras import loras_in
from bot.requests.sizes import size
from queueing.core.requests import LORAS_MOST, SEED_MAX, Capability, LoraWeight

OPTIONS = (
    Param(name="size", kind=ParamKind.SIZE, help="param.size"),
    Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=150),
    Param(name="seed", kind=ParamKind.WHOLE, help="param.seed", least=-1, most=SEED_MAX),
    Param(name="negative", kind=ParamKind.TEXT, help="param.negative"),
    Param(name="count", kind=ParamKind.WHOLE, help="param.count", least=1, most=4),
    Param(name="strength", kind=ParamKind.DECIMAL, help="param.strength", least=0, most=1),
    Param(name="lora", kind=ParamKind.TEXT, help="param.lora"),
)

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
        *OPTIONS,
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
        options=options_of(call),
        files=await pictures(call),
        raw=bool(call.args.get("raw")),
    )
    needs = Capability.IMAGE_TO_IMAGE if drawing.files else Capability.TEXT_TO_IMAGE
    return placed(await context.admission.draw(await asking(context, call, needs), drawing))


def options_of(call: Call) -> DrawingOptions:
    """Return a call's options for a picture."""
    return DrawingOptions(
        size=size(named) if (named := call.text("size")) else None,
        steps=call.whole("steps"),
        seed=call.whole("seed"),
        negative=call.text("negative"),
        count=call.whole("count"),
        strength=call.decimal("strength"),
        lora=_loras(call.text("lora")),
    )


def _loras(written: str | None) -> tuple[LoraWeight, ...] | None:
    if not written:
        return None
    try:
        return loras_in(written)
    except ValueError:
        raise CallRefused("refused.loras", most=LORAS_MOST, example="ink:0.8, film") from None
