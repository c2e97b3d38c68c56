"""Who may use what, and where: a table of rules, of which the first that fits decides. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, get_args

from backends.common.model_names import lora_word
from bot.core.asker import Asker
from bot.core.live_settings import Defaults
from bot.core.refusals import Declined, Phrase, Refusal, RefusalKind
from bot.people.api_keys import service_of
from bot.requests import shared_prompts
from bot.requests.options import SIDE_LEAST, SIDE_STEP, Style, is_shape, size
from queueing.core.catalog import Catalog
from queueing.core.errors import UnknownModel
from queueing.core.requests import Capability, Generation, Request, TextToImage, TextToVideo
from queueing.core.specs import ModelSpec, frames, pixels, usual_pixels

Kind = Literal["image", "edit", "upscale", "video", "music", "speak", "transcribe", "ask", "embed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_OF: Mapping[Capability, Kind] = {
    Capability.TEXT_TO_IMAGE: "image",
    Capability.IMAGE_TO_IMAGE: "image",
    Capability.IMAGE_EDIT: "edit",
    Capability.UPSCALE: "upscale",
    Capability.TEXT_TO_VIDEO: "video",
    Capability.IMAGE_TO_VIDEO: "video",
    Capability.TEXT_TO_AUDIO: "music",
    Capability.TEXT_TO_SPEECH: "speak",
    Capability.SPEECH_TO_TEXT: "transcribe",
    Capability.TEXT_TO_TEXT: "ask",
    Capability.VISION: "ask",
    Capability.EMBEDDING: "embed",
    Capability.IMAGE_EMBEDDING: "embed",
}
_NAMED = 12  # models named in a sentence
USUAL_VIDEO_S = 5.0
"""The length of a video at a rate that a person names, if the model's own length is unknown."""

Numbers = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What the people in `who` may use in the rooms of `where`; empty means everyone or everywhere.

    `who` are people and rights, `where` the names of rooms. For `models`, `kinds` and `loras`, None
    means all. `most` bounds single requests by the names of `ModelSpec.most`. `limits` are fields
    of `PersonLimits`, which replace those of a person's role. With `spoiler`, results are hidden
    until a reader reveals them. With `private`, nobody else sees results.
    """

    who: frozenset[str] = frozenset()
    where: frozenset[str] = frozenset()
    models: frozenset[str] | None = None
    kinds: frozenset[Kind] | None = None
    loras: frozenset[str] | None = None
    defaults: Defaults = field(default_factory=Defaults)
    most: Numbers = field(default_factory=dict)
    limits: Mapping[str, int | float | str | None] = field(default_factory=dict)
    spoiler: bool = False
    private: bool = False

    def fits(self, asker: Asker) -> bool:
        """Return whether the rule is about a person in a room."""
        names = {asker.user, service_of(asker.user), *asker.rights}
        here = not self.where or not self.where.isdisjoint(asker.rooms)
        return here and (not self.who or not self.who.isdisjoint(names))


EVERYTHING = Rule()
"""Allows everything: the rule of an installation without rules."""
NOTHING = Rule(kinds=frozenset())
"""Allows nothing: the rule of a request for which none was decided."""


class RuleTable:
    """The operator's `rules` in order. The first that fits decides."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules: Sequence[Rule] = tuple(rules)

    def take(self, rules: Iterable[Rule]) -> None:
        """Replace all rules."""
        self.rules = tuple(rules)

    def of(self, asker: Asker) -> Rule:
        """Return the rule for a person in a room."""
        if not self.rules:
            return EVERYTHING
        return next((rule for rule in self.rules if rule.fits(asker)), NOTHING)

    def offer(self, catalog: Catalog, model: str) -> bool:
        """Return whether anybody may use a model, or one whose prompts it improves."""
        usable = [offered(catalog, rule).models for rule in self.rules or (EVERYTHING,)]
        if any(model in models for models in usable):
            return True
        helpers = (spec.enhance for models in usable for spec in models.values() if spec.enhance)
        return any(_name(catalog, helper) == model for helper in helpers)


# ---------------------------------------------------------------- what a rule offers


def offered(catalog: Catalog, rule: Rule) -> Catalog:
    """Return a catalog with only the models and capabilities that a rule allows."""
    if rule.models is None and rule.kinds is None:
        return catalog
    return _offered(catalog, rule.models, rule.kinds)


@lru_cache(maxsize=64)  # more than the rules of most installations
def _offered(
    catalog: Catalog, models: frozenset[str] | None, kinds: frozenset[Kind] | None
) -> Catalog:
    found = None if models is None else {_name(catalog, each) for each in models}
    able = {each for each in Capability if kinds is None or KIND_OF[each] in kinds}
    specs = (
        replace(spec, capabilities=spec.capabilities & able)
        for spec in catalog.models.values()
        if found is None or spec.name in found
    )
    return Catalog((spec for spec in specs if spec.capabilities), catalog.hosts.values())


def _name(catalog: Catalog, word: str) -> str | None:
    spec = catalog.find(word)
    return None if spec is None else spec.name


def allows_kind(rule: Rule, able: Capability) -> bool:
    """Return whether a rule allows a kind of request."""
    return rule.kinds is None or KIND_OF[able] in rule.kinds


def offers_any(catalog: Catalog, rule: Rule, able: Collection[Capability]) -> bool:
    """Return whether a rule leaves a model for one of these kinds of request.

    A kind that it allows also counts if no model of the catalog can do it.
    """
    mine = offered(catalog, rule)
    return any(
        mine.able(each) or not catalog.able(each) for each in able if allows_kind(rule, each)
    )


def offers_size(rule: Rule, named: str) -> bool:
    """Return whether a rule allows a size such as "1024x768". A shape is lowered to fit."""
    return is_shape(named) or fitting_size(rule, named) == named


def sides_of(rule: Rule, named: str) -> tuple[int, int] | None:
    """Return the width and height of a size that a request names. A shape is lowered to fit."""
    fitting = fitting_size(rule, named) if is_shape(named) else named
    return None if fitting is None else size(fitting)


def fitting_size(rule: Rule, named: str | None) -> str | None:
    """Return a size that no request names, lowered in its shape to what a rule allows."""
    sides = size(named) if named is not None else None
    most = rule.most.get("pixels", math.inf)
    if sides is None or sides[0] * sides[1] <= most:
        return named
    scale = math.sqrt(most / (sides[0] * sides[1]))
    return f"{_grid(sides[0] * scale)}x{_grid(sides[1] * scale)}"


def offers_style(rule: Rule, style: Style) -> bool:
    """Return whether a rule allows the LoRAs of a style."""
    return all(offers_lora(rule, name) for name in _tagged(style.prompt, style.negative))


def require_style(rule: Rule, style: Style) -> None:
    """Refuse a style with a LoRA that a rule does not allow. Raises `Declined`."""
    _require_names(rule, _tagged(style.prompt, style.negative))


def fitting_style(rule: Rule, style: Style) -> Style:
    """Return a style with its values lowered to what a rule allows."""
    if not rule.most:
        return style
    options = {
        name: type(value)(min(value, rule.most.get(name, value)))
        if isinstance(value, int | float)
        else value
        for name, value in style.options.items()
    }
    return replace(style, size=fitting_size(rule, style.size), options=options)


def require_kind(rule: Rule, able: Capability) -> None:
    """Refuse a kind of request that a rule does not allow. Raises `Declined`."""
    if not allows_kind(rule, able):
        raise Declined(kind_refused(able))


def kind_refused(able: Capability) -> Refusal:
    """Return the refusal of a kind of request."""
    return Refusal(RefusalKind.KIND_NOT_ALLOWED, what=Phrase(f"ability.{able}"))


def require_model(catalog: Catalog, rule: Rule, word: str, able: Capability) -> ModelSpec:
    """Return the model of that name or alias, if it has the capability and a rule allows it.

    Raises `Declined` and `Refused`, which name only models that the rule allows.
    """
    allowed = offered(catalog, rule)
    require_kind(rule, able)
    spec = catalog.find(word)
    if spec is not None and allowed.find(spec.name) is None:
        raise Declined(_model_refused(spec.name, allowed.able(able)))
    if spec is None:
        raise UnknownModel(word, allowed.nearest(word, able), allowed.able(able))
    return allowed.require(spec.name, able)


def _model_refused(model: str, others: Sequence[str]) -> Refusal:
    if not others:
        return Refusal(RefusalKind.MODEL_NOT_ALLOWED, model=model)
    names = ", ".join(others[:_NAMED])
    return Refusal(RefusalKind.MODEL_NOT_ALLOWED_OTHERS, model=model, names=names)


# ---------------------------------------------------------------- single requests


def offers_lora(rule: Rule, name: str) -> bool:
    """Return whether a rule allows a LoRA."""
    return rule.loras is None or lora_word(name) in map(lora_word, rule.loras)


def require_loras(rule: Rule, request: Request) -> None:
    """Refuse a LoRA that a rule does not allow, in the prompt or elsewhere. Raises `Declined`."""
    if rule.loras is None or not isinstance(request, Generation):
        return
    written = _tagged(request.prompt, request.negative)
    _require_names(rule, (*(lora.name for lora in request.lora), *written))


def _tagged(prompt: str, negative: str | None) -> tuple[str, ...]:
    return shared_prompts.tagged(f"{prompt}\n{negative or ''}")


def _require_names(rule: Rule, loras: Iterable[str]) -> None:
    for name in loras:
        if not offers_lora(rule, name):
            raise Declined(Refusal(RefusalKind.LORA_NOT_ALLOWED, name=name[:60]))


def within(
    rule: Rule, request: Request, usual: Numbers, takes: Collection[str] | None, *, has_files: bool
) -> Request:
    """Return a request within a rule's bounds. Raises `Declined`.

    An explicit value beyond them is refused. A value that is left to the model is lowered to the
    bound. `usual` are the model's own values, as far as known; `takes` are the fields it honours,
    None for all. The size of an image made from others (`has_files`) follows theirs, unless named.
    """
    if not rule.most or not isinstance(request, Generation):
        return request
    wanted = _numbers(rule, request, usual)
    if isinstance(request, TextToImage | TextToVideo) and "pixels" in rule.most:
        named = request.width or request.height
        follows = has_files and isinstance(request, TextToImage) and not named
        wanted |= {} if follows else _size(rule.most["pixels"], request, usual)
    if takes is not None and "seconds" not in usual.keys() | takes:
        wanted.pop("seconds", None)  # the length is fixed, and a rate only plays it faster
    for name in wanted:
        if takes is not None and name not in takes:
            what = "pixels" if name in {"width", "height"} else name
            made = usual_pixels(request, usual) if what == "pixels" else usual[name]
            raise Declined(too_much(what, made, rule.most.get(what, rule.most.get("frames", 0))))
    return request.model_copy(update=wanted)


def _numbers(rule: Rule, request: Generation, usual: Numbers) -> dict[str, object]:
    """Return the lowered steps and seconds. Raises `Declined`."""
    most, wanted = dict(rule.most), dict[str, object]()
    if isinstance(request, TextToVideo) and "frames" in most:
        most["seconds"] = min(most.get("seconds", math.inf), _longest_s(rule, request, usual))
        if request.fps and not request.seconds and "seconds" not in usual:
            wanted["seconds"] = min(most["seconds"], USUAL_VIDEO_S)  # so that it is known
    for name in ("steps", "count", "seconds"):
        if name not in most or name not in type(request).model_fields:
            continue
        given = getattr(request, name)
        if given is not None and given > most[name]:
            raise Declined(too_much(name, given, most[name]))
        if given is None and usual.get(name, 0) > most[name]:
            wanted[name] = int(most[name]) if name == "steps" else most[name]
    return wanted


def _longest_s(rule: Rule, request: TextToVideo, usual: Numbers) -> float:
    """Return how many seconds a video may have for its frames. Raises `Declined`."""
    made, fps = frames(usual, request.seconds, request.fps), request.fps or usual.get("fps")
    most = rule.most["frames"]
    if fps is None or (made is not None and made <= most):
        return math.inf
    if made is not None and request.seconds is not None:
        raise Declined(too_much("frames", made, most))
    return most / fps


def _size(most: float, request: TextToImage | TextToVideo, usual: Numbers) -> dict[str, object]:
    """Return the lowered width and height. Raises `Declined`."""
    made = pixels(request, usual)
    if made <= most:
        return {}
    if request.width or request.height:
        raise Declined(too_much("pixels", made, most))
    across, down = (
        usual.get(name, own)
        for name, own in zip(("width", "height"), request.usual_sides, strict=True)
    )
    scale = math.sqrt(most / made)
    return {"width": _grid(across * scale), "height": _grid(down * scale)}


def _grid(side: float) -> int:
    return max(SIDE_LEAST, int(side // SIDE_STEP) * SIDE_STEP)


def lowered(rule: Rule, request: TextToImage) -> TextToImage:
    """Return an earlier request, of which a new one keeps values, within a rule's bounds."""
    wanted: dict[str, object] = {}
    if request.steps is not None and request.steps > rule.most.get("steps", math.inf):
        wanted["steps"] = int(rule.most["steps"])
    if request.width and request.height:
        fitting = fitting_size(rule, f"{request.width}x{request.height}")
        width, height = size(fitting or "") or (request.width, request.height)
        wanted |= {"width": width, "height": height}
    return request.model_copy(update=wanted)


def require_small(rule: Rule, sides: tuple[int, int] | None) -> None:
    """Refuse an image that is larger than a rule's size, because its result is. Raises `Declined`."""
    most = rule.most.get("pixels")
    if most is not None and sides is not None and sides[0] * sides[1] > most:
        raise Declined(too_much("pixels", sides[0] * sides[1], most))


def too_much(what: str, asked: float, most: float) -> Refusal:
    """Return the refusal of a value beyond a rule's bound."""
    scale = 1e6 if what == "pixels" else 1
    asked, most = apart(asked / scale, most / scale)
    bound = Phrase(f"rule.{what}", {"most": most})
    return Refusal(RefusalKind.TOO_MUCH, asked=asked, most=bound)


def apart(asked: float, most: float) -> tuple[float, float]:
    """Return two different numbers rounded to as few digits as show that they differ.

    Digits before the point are never rounded.
    """
    shown = ((_rounded(asked, digits), _rounded(most, digits)) for digits in range(3, 7))
    return next((pair for pair in shown if pair[0] != pair[1]), (asked, most))


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{max(digits, len(str(int(number))))}g}")
