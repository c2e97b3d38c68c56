"""`/vary` and `/upscale`: a new image from an old one: similar, further away, or larger."""

from collections.abc import Mapping

from bot.commands.call.context import Call, Context
from bot.commands.call.sources import NUMBER, Source, meant_source
from bot.commands.call.submission import draw
from bot.core.answers import Answer
from bot.core.attachments import AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.requests import shared_prompts
from bot.requests.creation import PROMPT_LIMIT, Creation, new_seed, require_taken, require_text
from bot.requests.rules import lowered
from queueing.core.requests import Capability, TextToImage

UPSCALE = Command(
    name="upscale",
    help="command.upscale",
    topic=Topic.MAKE,
    takes={AttachmentKind.IMAGE: 1},
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.model",
            positional=True,
            able=(Capability.UPSCALE,),
        ),
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        NUMBER,
        Param(name="image", kind=ParamKind.IMAGE, help="param.image"),
    ),
)


async def handle_upscale(context: Context, call: Call) -> Answer:
    source = await meant_source(context, call)
    model = call.text("model") or context.admission.usual_model(call.person, Capability.UPSCALE)
    request = TextToImage(
        prompt=source.request.prompt,
        seed=source.request.seed,
        upscale=True,
        source=source.job_of(call.invocation.user),
    )
    return await draw(context, call, model, request, (source.file,))


STRENGTHS = {"subtle": 0.4, "strong": 0.7}

VARY = Command(
    name="vary",
    help="command.vary",
    topic=Topic.MAKE,
    menu="menu.vary",
    takes={AttachmentKind.IMAGE: 1},
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job"),
        NUMBER,
        Param(
            name="how",
            kind=ParamKind.CHOICE,
            help="param.how",
            choices=tuple(STRENGTHS),
        ),
        Param(name="prompt", kind=ParamKind.TEXT, help="param.prompt", positional=True),
        Param(name="image", kind=ParamKind.IMAGE, help="param.image"),
    ),
)


async def handle_vary(context: Context, call: Call) -> Answer:
    return await vary(context, call, call.text("how") or "strong")


async def vary(context: Context, call: Call, how: str) -> Answer:
    """Draw a variation of the image a call is about.

    If no model can start from an image, repeat its prompt with a new seed.
    """
    source = await meant_source(context, call)
    earlier = lowered(context.admission.rule, source.request)
    changes: dict[str, object] = {"seed": new_seed(), "count": 1, "upscale": False}
    changes["source"] = source.job_of(call.invocation.user)
    given: Mapping[str, object] = {}
    if text := call.text("prompt"):
        words, _ = shared_prompts.applied(Creation(prompt=text), shared_prompts.read(text), ())
        given = words.options.given
        changes |= {"prompt": require_text(words.prompt, PROMPT_LIMIT), "original": None, **given}
    model = _model(context, call, source)
    if model is None and source.job is not None:
        takes = context.queue.models.offer.options_of(source.job.model)
        require_taken(given, TextToImage, source.job.model, takes)
        request = earlier.model_copy(update=changes)
        return await draw(context, call, source.job.model, request)
    model = model or context.admission.usual_model(call.person, Capability.IMAGE_TO_IMAGE)
    takes = context.queue.models.offer.options_of(model)
    require_taken(given, TextToImage, model, takes)
    if takes is None or "strength" in takes:
        changes["strength"] = STRENGTHS[how]
    # The size follows the image, which may not have the requested size.
    changes |= {"width": None, "height": None}
    request = earlier.model_copy(update=changes)
    return await draw(context, call, model, request, (source.file,))


def _model(context: Context, call: Call, source: Source) -> str | None:
    """Return the model that drew the image, otherwise one that can start from it, if any."""
    catalog = context.catalog
    able = catalog.able(Capability.IMAGE_TO_IMAGE)
    if source.job is None or not able:
        return None
    spec = catalog.find(source.job.model)
    if spec is not None and spec.name in able:
        return spec.name
    if spec is not None and Capability.TEXT_TO_IMAGE in spec.capabilities:
        return None  # repeating the prompt is closer to the image than another model
    return context.admission.usual_model(call.person, Capability.IMAGE_TO_IMAGE)


VARY_SUBTLE = Command(
    name="vary-subtle",
    help="command.vary",
    hidden=True,
    params=(
        Param(name="id", kind=ParamKind.JOB, help="param.job", required=True),
        NUMBER,
    ),
)


async def handle_vary_subtle(context: Context, call: Call) -> Answer:
    return await vary(context, call, "subtle")
