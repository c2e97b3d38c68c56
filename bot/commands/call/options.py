"""The options of images, videos, music and speech, and those that decide when a job runs."""

import re
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from bot.commands.call.context import Call, Context
from bot.core.command import Param, ParamKind
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.access import next_at
from bot.requests.options import BAD_LORAS, loras_in
from bot.requests.rules import sides_of
from queueing.core.requests import (
    MUSIC_S_MOST,
    SEED_MAX,
    VIDEO_S_MOST,
    AnyRequest,
    LoraWeight,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

_SIZE = Param(name="size", kind=ParamKind.SIZE, help="param.size", aliases=("ar", "aspect"))
_STEPS = Param(name="steps", kind=ParamKind.WHOLE, help="param.steps", least=1, most=150, rare=True)
_SEED = Param(name="seed", kind=ParamKind.WHOLE, help="param.seed", least=-1, most=SEED_MAX)
_NEGATIVE = Param(name="negative", kind=ParamKind.TEXT, help="param.negative", aliases=("no",))
_GUIDANCE = Param(
    name="guidance",
    kind=ParamKind.DECIMAL,
    help="param.guidance",
    least=0,
    most=100,
    aliases=("cfg", "cfg-scale"),
    rare=True,
)
_SAMPLER = Param(name="sampler", kind=ParamKind.TEXT, help="param.sampler", rare=True)
_SCHEDULER = Param(name="scheduler", kind=ParamKind.TEXT, help="param.scheduler", rare=True)
_LORA = Param(name="lora", kind=ParamKind.TEXT, help="param.lora", repeats=True, rare=True)


def _seconds(most: float) -> Param:
    return Param(name="seconds", kind=ParamKind.DECIMAL, help="param.seconds", least=0.5, most=most)


IMAGE_OPTIONS = (
    _SIZE,
    _STEPS,
    _SEED,
    _NEGATIVE,
    _GUIDANCE,
    _SAMPLER,
    _SCHEDULER,
    Param(name="count", kind=ParamKind.WHOLE, help="param.count", least=1, most=4),
    Param(
        name="strength", kind=ParamKind.DECIMAL, help="param.strength", least=0, most=1, rare=True
    ),
    _LORA,
)
VIDEO_OPTIONS = (
    _seconds(VIDEO_S_MOST),
    Param(name="fps", kind=ParamKind.DECIMAL, help="param.fps", least=1, most=120),
    _SIZE,
    _STEPS,
    _SEED,
    _NEGATIVE,
    _GUIDANCE,
    _SAMPLER,
    _SCHEDULER,
    _LORA,
)
MUSIC_OPTIONS = (
    _seconds(MUSIC_S_MOST),
    Param(name="lyrics", kind=ParamKind.TEXT, help="param.lyrics"),
    _STEPS,
    _SEED,
    _NEGATIVE,
    _GUIDANCE,
    _SAMPLER,
    _SCHEDULER,
    _LORA,
)
SPEECH_OPTIONS = (
    Param(name="voice", kind=ParamKind.TEXT, help="param.voice"),
    Param(name="speed", kind=ParamKind.DECIMAL, help="param.speed", least=0.25, most=4),
)
TRANSCRIPT_OPTIONS = (
    Param(name="language", kind=ParamKind.TEXT, help="param.spoken_language"),
    Param(name="translate", kind=ParamKind.FLAG, help="param.translate"),
)

IMAGES = tuple(
    Param(name=name, kind=ParamKind.IMAGE, help="param.image" if number == 1 else "param.more")
    for number, name in enumerate(("image", "image2", "image3", "image4"), start=1)
)
"""The fields for all images that one edit may combine."""

OPTIONS: Mapping[type[AnyRequest], tuple[Param, ...]] = {
    TextToImage: IMAGE_OPTIONS,
    TextToVideo: VIDEO_OPTIONS,
    TextToAudio: MUSIC_OPTIONS,
    TextToSpeech: SPEECH_OPTIONS,
    SpeechToText: TRANSCRIPT_OPTIONS,
}
"""The options of each kind of request that has any."""

_OF_ANY = {param.name: param for params in OPTIONS.values() for param in params}
ANY_OPTIONS = (*({**_OF_ANY, "seconds": _seconds(MUSIC_S_MOST)}).values(),)
"""All options, for a command that changes requests of any kind."""


def given_in(context: Context, call: Call) -> dict[str, Any]:
    """Return a call's options by name, in the types that requests use. Raises `Declined`."""
    given: dict[str, Any] = {name: call.args[name] for name in _OF_ANY if name in call.args}
    if (named := given.get("size")) is not None:
        given["size"] = sides_of(context.admission.rule, str(named))
    if (loras := given.get("lora")) is not None:
        given["lora"] = _loras(loras)
    return given


def _loras(value: object) -> tuple[LoraWeight, ...]:
    try:
        return loras_in(str(value))
    except ValueError:
        raise Declined(BAD_LORAS) from None


WHEN = (
    Param(name="later", kind=ParamKind.FLAG, help="param.later", rare=True),
    Param(name="by", kind=ParamKind.TEXT, help="param.by", rare=True),
)
_CLOCK = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?")


def is_later(call: Call) -> bool:
    """Return whether a call's job runs only when nothing else waits."""
    return bool(call.args.get("later")) or call.text("by") is not None


def due_at(call: Call, now: float, zone: tzinfo | None) -> float | None:
    """Return when a call's job must be done; None if it names no time. Raises `Declined`.

    A time of day means its next occurrence in the zone.
    """
    said = call.text("by")
    if said is None:
        return None
    clock = _CLOCK.fullmatch(said.strip())
    if clock is None:
        raise Declined(Refusal(RefusalKind.BAD_TIME_OF_DAY, text=said[:40]))
    return next_at(now, zone, hour=int(clock[1]), minute=int(clock[2] or 0))
