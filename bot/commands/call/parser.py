"""Turns typed text into checked values by a command's `Param` table. Pure.

Text platforms pass one string (`flux a cat --size 3:2`), Discord passes typed options. Both end in
the same `check`, so a value means the same everywhere.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from bot.core.attachments import AttachmentKind
from bot.core.command import ATTACHED, Command, Param, ParamKind, Topic
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.options import size
from queueing.core.catalog import near

Value = str | int | float | bool
Args = Mapping[str, Value]


# Phones turn two hyphens into a dash, so "—size" means "--size".
_OPTION = re.compile(
    r"(?:^|(?<=\s))(?:(?:--|—|–)([A-Za-z][\w-]*)(?:=|\s+|$)|--(?=\s|$))", re.UNICODE
)
_QUOTED = re.compile(r"\"([^\"]*)\"|“([^”]*)”|(\S+)")
_ENDS = r"(?=[.,;:!?)\]>\"']{0,4}(?:\s|$))"  # punctuation after an address does not belong to it
IMAGE_ADDRESS = re.compile(
    r"<?https?://(?:[^\s/]+/\S{0,500}?\.(?:png|jpe?g|webp|gif|bmp|avif|heic)"
    rf"(?:{_ENDS}|[?#/]\S*?{_ENDS})|(?:cdn|media)\.discordapp\.\S+?{_ENDS})>?",
    re.IGNORECASE,
)
_JOB = re.compile(r"#?([0-9]{1,15})")
_PERSON = re.compile(r"<@!?\d+>|\d+|[a-z]+:\S+")

# Control characters would break other people's displays. Bidirectional overrides and isolates can
# reverse the bot's own words around them. Marks that languages need (U+200E, U+200F, joiners) stay.
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


_OTHER_BOTS: Mapping[str, str] = {
    **dict.fromkeys(("gen", "paint", "dream", "txt2img"), "image"),
    **dict.fromkeys(("gpt", "chat", "question", "llm"), "ask"),
    **dict.fromkeys(("tts", "say", "voice"), "speak"),
    **dict.fromkeys(("stt", "whisper"), "transcribe"),
    **dict.fromkeys(("song", "sing", "audio"), "music"),
    **dict.fromkeys(("animate", "img2vid", "txt2vid"), "video"),
    **dict.fromkeys(("blend", "inpaint", "img2img"), "edit"),
    **dict.fromkeys(("reset", "clear_context", "restart"), "new"),
    **dict.fromkeys(("redo", "retry", "reroll"), "again"),
    **dict.fromkeys(("ratio", "resolution"), "size"),
    **dict.fromkeys(("neg", "without"), "negative"),
    **dict.fromkeys(("n", "num", "batch", "images"), "count"),
    **dict.fromkeys(("denoise", "denoising", "iw"), "strength"),
    "stop": "cancel",
    "sref": "style",
}
"""Other bots' names for commands and options that are suggested, but not carried out."""

_TO_THE_END = frozenset({"no"})
"""Options whose value needs no quotes and ends only at the next option, as elsewhere."""

_FLAGS = frozenset({ParamKind.FLAG, ParamKind.MASK})


def clean(text: str) -> str:
    """Return text without control characters, with plain line breaks, trimmed.

    A text with nothing visible becomes empty.
    """
    kept = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    return kept if any(each.isprintable() and not each.isspace() for each in kept) else ""


def parse(command: Command, text: str, is_model: Callable[[str], bool], quoted: str = "") -> Args:
    """Return the values in a typed call.

    `--name value` may appear anywhere. The first remaining word is the model if it names one or if
    the command needs one. Further positional parameters follow, and a TEXT parameter takes the rest
    with its line breaks. After a job's number no model is expected, because the job has one. After
    a bare `--` that only options precede, everything is the TEXT parameter as it is. `quoted` is the
    prompt of what is to be made if there is no other. Raises `Declined`.
    """
    rest, raw = _take_options(command, clean(text))
    about_job = False
    for param in command.params:
        if not param.positional or param.name in raw or not rest:
            continue
        if param.kind is ParamKind.TEXT:
            raw[param.name], rest = rest, ""
            continue
        first, _, after = _split_word(rest)
        optional_model = param.kind is ParamKind.MODEL and not param.required
        if optional_model and (about_job or not is_model(first)):
            continue
        if param.kind is ParamKind.PERSON and not _PERSON.fullmatch(first):
            continue
        if param.kind is ParamKind.JOB and _begins_text(command, param, first):
            continue
        raw[param.name], rest = first, after
        about_job |= param.kind is ParamKind.JOB
    prompt = prompt_of(command)
    if prompt is not None and prompt.required and command.topic is Topic.MAKE and quoted:
        raw.setdefault(prompt.name, clean(quoted))
    values = check(command, raw)
    if rest and not _takes_person(command):
        raise Declined(Refusal(RefusalKind.LEFT_OVER, text=rest[:40]))
    return values


def check(command: Command, raw: Mapping[str, Value]) -> Args:
    """Return the given values, checked and typed by the command's table.

    Raises `Declined`.
    """
    known = {param.name: param for param in command.params}
    for name in raw:
        if name not in known:
            raise _unknown_option(command, name)
    for param in command.params:
        missing = param.name not in raw or raw[param.name] == ""
        if param.required and missing:
            raise Declined(_missing(command, param))
    values = {name: _typed(known[name], value) for name, value in raw.items() if value != ""}
    if takes_addresses(command):
        _refuse_addresses(values)
    return values


def takes_addresses(command: Command) -> bool:
    """Return whether an address in a command's text can only mean the image at that address."""
    return command.topic is Topic.MAKE and command.takes.keys() == {AttachmentKind.IMAGE}


def filled(command: Command, fields: Args, more: str, *, held: bool = False) -> Args:
    """Return the unchecked values of a form's fields, and of the options typed into `more`.

    Options may also be typed into the prompt, as in other programs; their own fields take
    precedence, unless they `held` old values. Raises `Declined`.
    """
    rest, typed = _take_options(command, clean(more))
    if rest:
        raise Declined(Refusal(RefusalKind.LEFT_OVER, text=rest[:40]))
    prompt = prompt_of(command)
    if prompt is None or command.admin or command.prose:
        return {**typed, **fields}
    words, asked = _take_options(command, clean(str(fields.get(prompt.name, ""))))
    others = {name: value for name, value in fields.items() if name != prompt.name}
    given = {**others, **asked} if held else {**asked, **typed, **others}
    return {**given, **({prompt.name: words} if words else {})}


def literal(words: str) -> str:
    """Return what a person types for these words, behind a bare `--` if they look like options."""
    return f"-- {words}" if _OPTION.search(words) else words


def prompt_of(command: Command) -> Param | None:
    """Return the parameter that takes the words of a typed call."""
    return next((p for p in command.params if p.positional and p.kind is ParamKind.TEXT), None)


def words_in(command: Command, text: str, is_model: Callable[[str], bool]) -> str:
    """Return the words of a typed call, or "". A call that is refused is returned unchanged."""
    prompt = prompt_of(command)
    try:
        values = parse(command, text, is_model)
    except Declined:
        return text
    return "" if prompt is None else str(values.get(prompt.name, ""))


def _refuse_addresses(values: Args) -> None:
    """Refuse the address of an image, because in a prompt it would only spoil the result."""
    for value in values.values():
        if IMAGE_ADDRESS.search(str(value)):
            raise Declined(Refusal(RefusalKind.IMAGE_ADDRESS))


def recheck(params: Sequence[Param], args: Args) -> None:
    """Check values against other parameters of the same names. Raises `Declined`."""
    for param in params:
        if param.name in args:
            _typed(param, args[param.name])


def usage(command: Command) -> str:
    """Return the one-line form of a command without its options: `/image [model] <prompt>`."""
    words = [f"/{command.name}"]
    for param in command.params:
        if param.positional:
            own = () if param.kind is ParamKind.CHOICE else (param.name,)
            named = "|".join((*own, *param.choices))
            literal = not own and len(param.choices) == 1
            words.append((named if literal else f"<{named}>") if param.required else f"[{named}]")
    return " ".join(words)


def options(command: Command) -> tuple[Param, ...]:
    """Return the parameters that are typed as `--name value`."""
    return tuple(
        param for param in command.params if not param.positional and param.kind not in ATTACHED
    )


def _missing(command: Command, param: Param) -> Refusal:
    """Return the refusal for a call without that value, with the choices of a first parameter."""
    if param.kind is ParamKind.CHOICE and param is command.params[0]:
        calls = ", ".join(f"/{command.name} {choice}" for choice in param.choices)
        return Refusal(RefusalKind.MISSING_CHOICE, calls=calls)
    return Refusal(RefusalKind.MISSING, param=param.name)


def suggested(word: str, known: Sequence[str]) -> str | None:
    """Return the command or option that a word means in other bots, or else the nearest one."""
    if (meant := _OTHER_BOTS.get(word.casefold())) in known:
        return meant
    return next(iter(near(word, known)), None)


def _unknown_option(command: Command, name: str) -> Declined:
    meant = suggested(name, [param.name for param in options(command)])
    if meant is not None:
        return Declined(Refusal(RefusalKind.NEAR_OPTION, name=name, near=meant))
    return Declined(Refusal(RefusalKind.UNKNOWN_OPTION, name=name))


def _takes_person(command: Command) -> bool:
    """Return whether the command takes a person. Its handler refuses one it cannot read."""
    return any(param.kind is ParamKind.PERSON for param in command.params)


def _begins_text(command: Command, param: Param, first: str) -> bool:
    """Return whether the word is not a job but the beginning of the text that follows."""
    has_text = any(each.kind is ParamKind.TEXT and each.positional for each in command.params)
    return has_text and not param.required and not _JOB.fullmatch(first)


def _split_word(text: str) -> tuple[str, str, str]:
    word = re.match(r"(\S+)(\s*)", text)
    return (word[1], word[2], text[word.end() :]) if word else (text, "", "")


def _take_options(command: Command, text: str) -> tuple[str, dict[str, Value]]:
    known = {name: param for param in command.params for name in (param.name, *param.aliases)}
    prompt = prompt_of(command)
    raw: dict[str, Value] = {}
    kept, at = [], 0
    while found := _OPTION.search(text, at):
        if found[1] is None:
            kept.append(text[at : found.start()])
            at = found.end()
            if prompt is not None and not "".join(kept).strip():
                return "", {**raw, prompt.name: text[at:].strip()}
            kept.append(found[0])
            continue
        name = found[1].lower()
        if name not in known:
            if command.prose or text[found.start()] != "-":  # a dash in prose, not an option
                kept.append(text[at : found.end()])
                at = found.end()
                continue
            raise _unknown_option(command, name)
        kept.append(text[at : found.start()])
        at = found.end()
        param = known[name]
        if param.kind in _FLAGS:
            raw[param.name] = True
            continue
        said, at = _value(text, at, name)
        repeated = param.repeats and param.name in raw
        raw[param.name] = f"{raw[param.name]}, {said}" if repeated else said
    kept.append(text[at:])
    return re.sub(r"[ \t]{2,}", " ", "".join(kept)).strip(), raw


def _value(text: str, at: int, name: str) -> tuple[str, int]:
    """Return the value of an option that begins there, and where it ends. Raises `Declined`."""
    found, following = _QUOTED.match(text, at), _OPTION.search(text, at)
    to_the_end = name in _TO_THE_END and not (found and found[3] is None)
    end = following.start() if following else len(text)
    if found is None or (to_the_end and not text[at:end].strip()):
        raise Declined(Refusal(RefusalKind.NEEDS_VALUE, name=name))
    if to_the_end:
        return text[at:end].strip(), end
    return next(group for group in found.groups() if group is not None), found.end()


def _typed(param: Param, value: Value) -> Value:
    return _TYPES.get(param.kind, _words)(param, value)


def _words(_param: Param, value: Value) -> str:
    return clean(str(value))


def _size(param: Param, value: Value) -> str:
    if str(value) not in param.choices and size(str(value)) is None:
        raise Declined(Refusal(RefusalKind.NOT_A_SIZE, name=param.name))
    return str(value)


def _choice(param: Param, value: Value) -> str:
    if str(value) in param.choices:
        return str(value)
    choices = ", ".join(param.choices)
    if param.positional:
        one = len(param.choices) == 1
        kind = RefusalKind.NOT_THE_WORD if one else RefusalKind.NOT_ONE_OF
        raise Declined(Refusal(kind, value=str(value)[:40], choices=choices))
    raise Declined(Refusal(RefusalKind.NOT_A_CHOICE, name=param.name, choices=choices))


def _flag(_param: Param, value: Value) -> bool:
    return bool(value)


def _job(param: Param, value: Value) -> int | str:
    if (word := str(value).strip().casefold()) in param.choices:
        return word
    found = _JOB.fullmatch(str(value).strip())
    if found is None:
        raise Declined(Refusal(RefusalKind.NOT_A_JOB, value=str(value)[:40]))
    return int(found[1])


def _whole(param: Param, value: Value) -> int | str:
    if (word := str(value).strip().casefold()) in param.choices:
        return word
    # Python would accept "1_000" and, for hours, a million digits.
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", str(value)):
        raise Declined(Refusal(RefusalKind.NOT_WHOLE, name=param.name))
    return int(_within(param, int(value)))


def _decimal(param: Param, value: Value) -> float:
    try:
        number = float(str(value).replace(",", "."))
    except ValueError:
        raise Declined(Refusal(RefusalKind.NOT_A_NUMBER, name=param.name)) from None
    return float(_within(param, number))


def _within(param: Param, number: float) -> int | float:
    least = -math.inf if param.least is None else param.least
    most = math.inf if param.most is None else param.most
    if not least <= number <= most:  # also false for "nan"
        raise Declined(Refusal(RefusalKind.OUT_OF_RANGE, name=param.name, least=least, most=most))
    return number


_TYPES: Mapping[ParamKind, Callable[[Param, Value], Value]] = {
    ParamKind.JOB: _job,
    ParamKind.SIZE: _size,
    ParamKind.WHOLE: _whole,
    ParamKind.DECIMAL: _decimal,
    ParamKind.CHOICE: _choice,
    ParamKind.FLAG: _flag,
    ParamKind.MASK: _flag,
}
