"""What all commands that draw share: their options, styles, and refusing what a model ignores."""

import secrets
from collections.abc import Collection

from bot.chat.api.answers import Placed
from bot.chat.api.table import Param, ParamKind
from bot.chat.commands import place
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.parse import size
from bot.chat.texts import word
from bot.requests.styles import Style
from queueing.core.requests import SEED_MAX, File, TextToImage

PROMPT_LIMIT = 4_000
_ANY_SEED = -1  # as people type it in other programs
_RANDOM_SEEDS = 2**32  # easy to type again, and whole in every JSON reader

OPTIONS = (
    Param(name="size", kind=ParamKind.SIZE, help="param.size"),
    Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=150),
    Param(name="seed", kind=ParamKind.WHOLE, help="param.seed", least=-1, most=SEED_MAX),
    Param(name="negative", kind=ParamKind.TEXT, help="param.negative"),
    Param(name="count", kind=ParamKind.WHOLE, help="param.count", least=1, most=4),
    Param(name="strength", kind=ParamKind.DECIMAL, help="param.strength", least=0, most=1),
    Param(name="lora", kind=ParamKind.TEXT, help="param.lora"),
)
STYLE = Param(name="style", kind=ParamKind.STYLE, help="param.style")

# The field of a request by the option that sets it, where the names differ.
_FIELDS = {"size": "width"}


def new_seed() -> int:
    """Return a seed nobody asked for."""
    return secrets.randbelow(_RANDOM_SEEDS)


def style_of(context: Context, call: Call) -> Style:
    """Return the style named in the call, or else the caller's own. Raises `CallRefused`."""
    named = call.text("style")
    if named is None:
        return context.styles.get(call.person.style or "", Style())
    return context.styles[style_named(context, call, named)]


def style_named(context: Context, call: Call, wanted: str) -> str:
    """Return a style's own name, whatever its case. Raises `CallRefused`."""
    styles = context.styles
    found = next((name for name in styles if name.casefold() == wanted.casefold()), None)
    if found is not None:
        return found
    if not styles:
        raise CallRefused("styles.none")
    hint = word(call.language, "hint.models", names=", ".join(styles))
    raise CallRefused("refused.unknown_style", name=wanted[:60], hint=hint)


def refuse_unsupported(call: Call, model: str, takes: Collection[str] | None) -> None:
    """Refuse an option that the model would not honour, before anybody waits for it."""
    if takes is None:
        return
    for option in sorted(call.args.keys() & {param.name for param in OPTIONS}):
        one_picture = option == "count" and call.whole("count") == 1
        if not one_picture and _FIELDS.get(option, option) not in takes:
            raise CallRefused("refused.option_unsupported", model=model, option=option)


def changed(request: TextToImage, call: Call) -> TextToImage:
    """Return a request with the options that were given in the call."""
    given: dict[str, str | int | float | None] = {
        name: call.args[name]
        for name in ("steps", "seed", "negative", "count", "strength", "lora")
        if name in call.args
    }
    if given.get("seed") == _ANY_SEED:
        given["seed"] = new_seed()
    if sides := size(call.text("size") or ""):
        given |= {"width": sides[0], "height": sides[1]}
    return request.model_copy(update=given)


def styled(prompt: str, style: Style, takes: Collection[str] | None) -> TextToImage:
    """Return the request of a prompt in a style, with what of it the model honours."""
    request = TextToImage(prompt=style.apply(prompt))
    fields = dict(style.options)
    if sides := size(style.size or ""):
        fields |= {"width": sides[0], "height": sides[1]}
    honoured = {name: value for name, value in fields.items() if takes is None or name in takes}
    return request.model_copy(update=honoured)


async def draw(
    context: Context,
    call: Call,
    model: str,
    request: TextToImage,
    files: tuple[File, ...] = (),
    *,
    hold_s: float = 0.0,
) -> Placed:
    """Accept a request for pictures. Raises `Refused` or `CallRefused`.

    With `hold_s` it is held for that long, or until its prompt has been improved.
    """
    return Placed(job=await place.place(context, call, model, request, files, hold_s=hold_s))
