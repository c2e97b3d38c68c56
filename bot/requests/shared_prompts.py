"""Reads prompts in the notation that image programs share. Pure.

Such prompts contain LoRAs as tags (`<lora:ink:0.8>`), and often end with a block of parameters:

    a cat
    Negative prompt: a dog
    Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 512x768
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.core.refusals import Declined
from bot.requests.creation import FIELDS, PROMPT_LIMIT, Creation
from bot.requests.options import BAD_LORAS, size
from queueing.core.requests import LORAS_MOST, SEED_MAX, LoraWeight

_TAG = re.compile(r"<(lora|lyco|hypernet):([^<>:\n]+)(?::([^<>\n]*))?>", re.IGNORECASE)
_LORAS = frozenset({"lora", "lyco"})
_WILDCARD = re.compile(r"(?<!\w)__[\w*/-]{1,60}?__(?!\w)")
_NEGATIVE = re.compile(r"(?:^|(?<=\s))Negative prompt:", re.IGNORECASE)
_PAIR = r"[A-Z][\w /-]*:\s*(?:\"(?:\\.|[^\"\\])*\"|\{[^{}]*\}|\[[^\[\]]*\]|[^,\n]*)"
_PARAMETERS = re.compile(
    rf"(?:^|(?<=\s))(?=Steps:\s*+\d++\s*+(?:,|$|\n))(?:{_PAIR}(?:,\s*|\s*$|\n))+"
)
_KEY = re.compile(rf"({_PAIR})(?:,|\n|$)")
_BOOKKEEPING = re.compile(
    r"hash|version|resources|metadata|date|^Template|^Negative Template", re.IGNORECASE
)
_LENGTH_MOST = 2 * PROMPT_LIMIT  # a block may be as long as its prompt
_STEPS_MOST = 150
_GUIDANCE_MOST = 100
_SHOWN = 40  # characters of a name that had no effect


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPrompt:
    """A prompt in other programs' notation, taken apart.

    `options` are values of `DrawingOptions` by name. `unused` names everything else that the prompt
    asks for.
    """

    prompt: str
    loras: tuple[LoraWeight, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def read(text: str) -> SharedPrompt:
    """Take a prompt apart. Plain prompts and much too long ones are returned unchanged.

    Raises `Declined` if a LoRA's weight is out of range.
    """
    if len(text) > _LENGTH_MOST:
        return SharedPrompt(prompt=text)
    words, negative, block = _parts(text)
    try:
        prompt, loras, unused = _without_tags(words)
        without, _, more = _without_tags(negative)
    except ValueError:
        raise Declined(BAD_LORAS) from None
    more = (*(tag[0] for tag in _TAG.finditer(negative) if _is_lora(tag)), *more)
    options, left = _options(block)
    if without:
        options["negative"] = without
    wildcards = _WILDCARD.findall(words)
    names = dict.fromkeys(name[:_SHOWN] for name in (*unused, *more, *left, *wildcards))
    return SharedPrompt(prompt=prompt, loras=loras, options=options, unused=tuple(names))


def tagged(text: str) -> tuple[str, ...]:
    """Return the names in a text's tags, which some servers read as LoRAs."""
    return tuple(tag[2].strip() for tag in _TAG.finditer(text))


def applied(
    drawing: Creation, shared: SharedPrompt, takes: Collection[str] | None
) -> tuple[Creation, tuple[str, ...]]:
    """Return a request with what its prompt contains, and the names of what has no effect.

    Explicit options take precedence. `takes` are the fields the model honours, None for all.
    """
    given = drawing.options.given
    fields = {name: FIELDS.get(name, name) for name in shared.options if name not in given}
    sized = drawing.files and "size" in fields  # a result has the size of its image
    fits = {name for name, field in fields.items() if takes is None or field in takes}
    fits -= {"size"} if sized else set()
    own = drawing.options.lora or ()
    named = {lora.name.casefold() for lora in own}
    loras = (*own, *(lora for lora in shared.loras if lora.name.casefold() not in named))
    if len(loras) > LORAS_MOST:
        raise Declined(BAD_LORAS)
    wanted: dict[str, Any] = {name: shared.options[name] for name in fits}
    options = replace(drawing.options, **wanted, lora=loras or None)
    idle = (f"--{name}" for name in fields if name not in fits)
    return replace(drawing, prompt=shared.prompt, options=options), (*idle, *shared.unused)


def _parts(text: str) -> tuple[str, str, str]:
    """Return the prompt, the negative prompt and the block of parameters."""
    found = list(_PARAMETERS.finditer(text))
    block = found[-1] if found and _KEY.findall(found[-1][0])[1:] else None
    head = text[: block.start()] if block else text
    said = _NEGATIVE.search(head)
    on_its_line = said is not None and head[: said.start()].rstrip(" \t")[-1:] in {"", "\n"}
    if said is None or not (block or on_its_line):
        return head.strip() if block else text, "", block[0] if block else ""
    return head[: said.start()].strip(), head[said.end() :].strip(), block[0] if block else ""


def _without_tags(text: str) -> tuple[str, tuple[LoraWeight, ...], tuple[str, ...]]:
    """Return a text without its tags, its LoRAs, and the tags that have no effect."""
    tags = list(_TAG.finditer(text))
    if not tags:
        return text, (), ()
    loras = tuple(
        LoraWeight(name=tag[2].strip() or tag[2], weight=_weight(tag[3]))
        for tag in tags
        if _is_lora(tag)
    )
    bare = re.sub(r"[ \t]{2,}", " ", _TAG.sub("", text))
    bare = re.sub(r"(?<!\s)\s+,", ",", re.sub(r",(\s*,)+", ",", bare))
    return bare.strip(" ,\n"), loras, tuple(tag[0] for tag in tags if not _is_lora(tag))


def _is_lora(tag: re.Match[str]) -> bool:
    return tag[1].casefold() in _LORAS


def _weight(written: str | None) -> float:
    """Return a tag's weight: the number that comes first, which counts for the model."""
    number = re.match(r"\s*([+-]?(?:\d{1,9}\.?\d*|\.\d+))", written or "")
    return float(number[1]) if number else 1.0


def _options(block: str) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the options in a block, and the names of its other parameters."""
    options: dict[str, object] = {}
    left = []
    for pair in _KEY.findall(block):
        name, _, value = (part.strip() for part in pair.partition(":"))
        option, convert = _READ.get(name.casefold(), ("", _nothing))
        found = convert(value.strip('" '))
        if found is not None:
            options[option] = found
        elif not _BOOKKEEPING.search(name):
            left.append(name)
    return options, tuple(left)


def _nothing(_: str) -> None:
    return None


def _steps(value: str) -> int | None:
    return int(value) if re.fullmatch(r"\d{1,3}", value) and 0 < int(value) <= _STEPS_MOST else None


def _seed(value: str) -> int | None:
    found = re.fullmatch(r"-1|\d{1,20}", value)
    return int(value) if found and int(value) <= SEED_MAX else None


def _guidance(value: str) -> float | None:
    found = re.fullmatch(r"\d{1,3}(\.\d{1,6})?", value)
    return float(value) if found and float(value) <= _GUIDANCE_MOST else None


_READ: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "steps": ("steps", _steps),
    "seed": ("seed", _seed),
    "cfg scale": ("guidance", _guidance),
    "distilled cfg scale": ("guidance", _guidance),  # comes later, and takes precedence
    "size": ("size", size),
}
