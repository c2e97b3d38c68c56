"""Turns a person's drawing request into the job's: style, size, options; pure but for seeds."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field

from bot.requests.refusals import Declined, NoText, OptionNotTaken, TextTooLong, UnknownStyle
from bot.requests.sizes import size
from bot.requests.styles import Style
from queueing.core.requests import File, LoraWeight, TextToImage

PROMPT_LIMIT = 4_000
_ANY_SEED = -1  # as people type it in other programs
_RANDOM_SEEDS = 2**32  # easy to type again, and whole in every JSON reader
_FIELDS = {"size": "width"}  # of a request, if an option has another name


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawingOptions:
    """The options given for a picture beside its words; None for those not given.

    A `seed` of -1 asks for a random one.
    """

    size: tuple[int, int] | None = None
    steps: int | None = None
    seed: int | None = None
    negative: str | None = None
    count: int | None = None
    strength: float | None = None
    lora: tuple[LoraWeight, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A person's request for a picture; model and style may be their usual ones.

    `files` is the picture to start from, if any, checked. `raw` leaves the words as they are.
    """

    prompt: str
    model: str | None = None
    style: str | None = None
    options: DrawingOptions = field(default_factory=DrawingOptions)
    files: tuple[File, ...] = ()
    raw: bool = False


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(_RANDOM_SEEDS)


def require_text(text: str | None, limit: int) -> str:
    """Return a text that is neither empty nor longer than `limit`. Raises `Declined`."""
    if not text:
        raise Declined(NoText())
    if len(text) > limit:
        raise Declined(TextTooLong(length=len(text), limit=limit))
    return text


def style_name(styles: Mapping[str, Style], wanted: str) -> str:
    """Return a style's own name, ignoring case. Raises `Declined`."""
    found = next((name for name in styles if name.casefold() == wanted.casefold()), None)
    if found is None:
        raise Declined(UnknownStyle(name=wanted, known=tuple(styles)))
    return found


def require_taken(options: DrawingOptions, model: str, takes: Collection[str] | None) -> None:
    """Refuse an option that the model would not honour. Raises `Declined`."""
    if takes is None:
        return
    for option, value in sorted(asdict(options).items()):
        needless = value is None or (option == "count" and value == 1)
        if not needless and _FIELDS.get(option, option) not in takes:
            raise Declined(OptionNotTaken(model=model, option=option))


def changed(request: TextToImage, options: DrawingOptions) -> TextToImage:
    """Return a request with the options that were given."""
    given = {name: value for name, value in asdict(options).items() if value is not None}
    if given.get("seed") == _ANY_SEED:
        given["seed"] = new_seed()
    if sides := given.pop("size", None):
        given |= {"width": sides[0], "height": sides[1]}
    return request.model_copy(update=given)


def drawn(
    drawing: Drawing, style: Style, usual_size: str | None, takes: Collection[str] | None
) -> TextToImage:
    """Return the job's request: explicit options before the style's, those before the usual ones.

    `takes` are the fields that the model honours, None for all; options that were not given
    explicitly are set only if it honours them.
    """
    usual = {"seed": new_seed(), **_sides(usual_size), **style.options, **_sides(style.size)}
    honoured = {n: v for n, v in usual.items() if takes is None or n in takes or n == "seed"}
    request = TextToImage(prompt=style.apply(drawing.prompt)).model_copy(update=honoured)
    request = changed(request, drawing.options)
    if takes is None or "negative" in takes:
        negative = style.without(drawing.options.negative)
        request = request.model_copy(update={"negative": negative})
    return request


def _sides(named: str | None) -> dict[str, int | float | str]:
    sides = size(named) if named else None
    return {} if sides is None else {"width": sides[0], "height": sides[1]}
