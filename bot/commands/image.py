"""`/image [model] <prompt>`: draw a picture, from words or from an attached picture."""

import secrets

from bot.commands import place
from bot.commands.context import (
    Answer,
    Call,
    CallRefused,
    Context,
    Placed,
    bounded,
    usual_model,
)
from bot.commands.parse import size
from bot.commands.table import Command, Param, ParamKind
from queueing.requests import SEED_MAX, Capability, TextToImage

PROMPT_LIMIT = 4_000
_RANDOM_SEEDS = 2**32  # easy to type again, and whole in every JSON reader

COMMAND = Command(
    name="image",
    help="command.image",
    params=(
        Param(name="model", kind=ParamKind.MODEL, help="param.model", positional=True),
        Param(
            name="prompt", kind=ParamKind.TEXT, help="param.prompt", required=True, positional=True
        ),
        Param(name="size", kind=ParamKind.SIZE, help="param.size"),
        Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=150),
        Param(name="seed", kind=ParamKind.WHOLE, help="param.seed", least=0, most=SEED_MAX),
        Param(name="negative", kind=ParamKind.TEXT, help="param.negative"),
        Param(name="count", kind=ParamKind.WHOLE, help="param.count", least=1, most=4),
        Param(name="strength", kind=ParamKind.DECIMAL, help="param.strength", least=0, most=1),
        Param(name="picture", kind=ParamKind.PICTURE, help="param.picture"),
    ),
)


# The field of a request by the option that sets it, where the names differ.
_FIELDS = {"size": "width"}
_ALWAYS_TAKEN = frozenset({"model", "prompt", "picture"})


async def handle(context: Context, call: Call) -> Answer:
    prompt = bounded(call.text("prompt"), PROMPT_LIMIT)
    files = await place.pictures(call, most=1)
    capability = Capability.IMAGE_TO_IMAGE if files else Capability.TEXT_TO_IMAGE
    named = call.text("model") or usual_model(context, call.person, capability)
    model = context.catalog().require(named, capability).name
    takes = context.queue.options(model)
    _refuse_unsupported(call, model, takes)
    seed = call.whole("seed")
    sides = size(call.text("size") or _own_size(call, takes)) or (None, None)
    request = TextToImage(
        prompt=prompt,
        negative=call.text("negative"),
        width=sides[0],
        height=sides[1],
        steps=call.whole("steps"),
        seed=secrets.randbelow(_RANDOM_SEEDS) if seed is None else seed,
        count=call.whole("count") or 1,
        strength=call.decimal("strength"),
    )
    return Placed(job=await place.place(context, call, model, request, files))


def _refuse_unsupported(call: Call, model: str, takes: frozenset[str] | None) -> None:
    """Refuse an option that the model would not honour, before anybody waits for it."""
    if takes is None:
        return
    for option in sorted(call.args.keys() - _ALWAYS_TAKEN):
        one_picture = option == "count" and call.whole("count") == 1
        if not one_picture and _FIELDS.get(option, option) not in takes:
            raise CallRefused("refused.option_unsupported", model=model, option=option)


def _own_size(call: Call, takes: frozenset[str] | None) -> str:
    """Return the caller's usual size where the model takes one: nobody asked for it just now."""
    return (call.person.size or "") if takes is None or "width" in takes else ""
