"""Builds the request for an image, a video or music: style, size, options.

Pure except for random seeds.
"""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from bot.core.refusals import NAME_SHOWN, Declined, Phrase, Refusal, RefusalKind
from bot.requests.options import Style, size
from queueing.core.catalog import Catalog
from queueing.core.requests import (
    AnyRequest,
    Capability,
    File,
    LoraWeight,
    Record,
    TextToAudio,
    TextToImage,
    TextToVideo,
)

PROMPT_LIMIT = 4_000
_ANY_SEED = -1  # as in other programs
_RANDOM_SEEDS = 2**32  # easy to retype, and exact in every JSON reader
FIELDS = {"size": "width"}
"""The request fields of options that have another name."""
_NEEDLESS: Mapping[str, object] = {"count": 1, "translate": False}  # values that change nothing

R = TypeVar("R", bound=Record)

Made = TextToImage | TextToVideo | TextToAudio
"""The requests that begin with a prompt and end with files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawingOptions:
    """The options given with a prompt; None for those not given.

    A `seed` of -1 asks for a random one.
    """

    size: tuple[int, int] | None = None
    steps: int | None = None
    seed: int | None = None
    negative: str | None = None
    guidance: float | None = None
    sampler: str | None = None
    scheduler: str | None = None
    count: int | None = None
    strength: float | None = None
    lora: tuple[LoraWeight, ...] | None = None
    seconds: float | None = None
    fps: float | None = None
    lyrics: str | None = None

    @property
    def given(self) -> Mapping[str, object]:
        """The options that were given, by name."""
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Creation:
    """A person's request for an image, a video or music.

    Model and style may be their defaults.

    `files` are checked images to start from. `edit` states whether the prompt edits them; None
    leaves that to their number and the model. With `mask`, the last file is the mask. `source` is
    the person's job that a file came from. `raw` leaves the prompt as it is.
    """

    prompt: str
    makes: type[Made] = TextToImage
    model: str | None = None
    style: str | None = None
    options: DrawingOptions = field(default_factory=DrawingOptions)
    files: tuple[File, ...] = ()
    edit: bool | None = None
    mask: bool = False
    source: int | None = None
    raw: bool = False


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(_RANDOM_SEEDS)


def require_text(text: str | None, limit: int) -> str:
    """Return the text if it is neither empty nor longer than `limit`. Raises `Declined`."""
    if not text:
        raise Declined(Refusal(RefusalKind.NO_TEXT))
    if len(text) > limit:
        raise Declined(Refusal(RefusalKind.TEXT_TOO_LONG, length=len(text), limit=limit))
    return text


def style_name(styles: Mapping[str, Style], wanted: str, offered: Collection[str]) -> str:
    """Return a style's configured name, ignoring case.

    Raises `Declined`, which names only those `offered`.
    """
    found = next((name for name in styles if name.casefold() == wanted.casefold()), None)
    if found is not None:
        return found
    if not offered:
        raise Declined(Refusal(RefusalKind.NO_STYLES))
    hint = Phrase("hint.models", {"names": ", ".join(offered)})
    raise Declined(Refusal(RefusalKind.UNKNOWN_STYLE, name=wanted[:NAME_SHOWN], hint=hint))


def require_taken(
    given: Mapping[str, object],
    of: type[AnyRequest],
    model: str,
    takes: Collection[str] | None,
) -> None:
    """Refuse an option that this kind of request lacks or the model would ignore.

    `takes` are the fields the model honours, None for all. Raises `Declined`.
    """
    for option, value in sorted(given.items()):
        name = FIELDS.get(option, option)
        known = name in of.model_fields and (takes is None or name in takes)
        if not known and value != _NEEDLESS.get(option):
            raise Declined(Refusal(RefusalKind.OPTION_NOT_TAKEN, model=model, option=option))


def changed(request: R, given: Mapping[str, object]) -> R:
    """Return a request with the given options, as far as it has them."""
    changes: dict[str, Any] = dict(given)
    if changes.get("seed") == _ANY_SEED:
        changes["seed"] = new_seed()
    if sides := changes.pop("size", None):
        changes |= {"width": sides[0], "height": sides[1]}
    known = type(request).model_fields
    return request.model_copy(update={n: v for n, v in changes.items() if n in known})


def edits(drawing: Creation, catalog: Catalog, named: str | None) -> bool:
    """Return whether a request edits its images instead of starting from one.

    Several images are always combined. A single one is edited if the model, or every model, can do
    nothing else with it.
    """
    if drawing.edit is not None or drawing.makes is not TextToImage or not drawing.files:
        return bool(drawing.edit)
    if len(drawing.files) > 1:
        return True
    spec = catalog.find(named) if named else None
    known = [catalog.models[name] for name in catalog.able(Capability.IMAGE_TO_IMAGE)]
    able = known if spec is None else [spec] if spec in known else []
    editing = catalog.able(Capability.IMAGE_EDIT)
    return not able and bool(editing if spec is None else spec.name in editing)


def needs_of(drawing: Creation, *, edit: bool) -> Capability:
    """Return the capability that a request needs."""
    return _needs(drawing.makes, edit, bool(drawing.files))


@lru_cache(maxsize=32)  # more than the kinds of requests, with and without both
def _needs(makes: type[Made], edit: bool, has_files: bool) -> Capability:
    request = makes(prompt="")
    if isinstance(request, TextToImage):
        request = request.model_copy(update={"edit": edit})
    return request.needs(has_files=has_files)


def drawn(
    drawing: Creation,
    style: Style,
    usual_size: str | None,
    takes: Collection[str] | None,
    *,
    edit: bool = False,
) -> Made:
    """Return the job's request.

    Explicit options override the style's options, which override the defaults.

    `takes` are the fields the model honours, None for all. Options that were not given explicitly
    are set only if it honours them. An edit keeps the size of its images.
    """
    usual = {"seed": new_seed(), **_sides(usual_size), **style.options, **_sides(style.size)}
    honoured = {n: v for n, v in usual.items() if takes is None or n in takes or n == "seed"}
    request = drawing.makes(prompt=style.apply(drawing.prompt), source=drawing.source)
    wanted: dict[str, object] = {**honoured, **drawing.options.given}
    if edit:
        wanted |= {"edit": True, "mask": drawing.mask}
    if takes is None or "negative" in takes:
        wanted["negative"] = style.without(drawing.options.negative)
    return changed(request, wanted)


def _sides(named: str | None) -> dict[str, int | float | str]:
    sides = size(named) if named else None
    return {} if sides is None else {"width": sides[0], "height": sides[1]}
