"""`/settings`: a person's defaults for what a call omits: models, size, style, language."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bot.commands.call.context import Call, Context, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body, Content
from bot.core.panels import Choice, SettingRow, SettingsPanel
from bot.core.refusals import Declined
from bot.people.access import PersonLimits, day_of
from bot.people.people import Person
from bot.texts.catalogue import CATALOGUES, join, language_of, say, used_today, word
from queueing.core.requests import Capability

_RESET = "reset"
_ON, _OFF = "on", "off"
DEFAULT_MODELS: Mapping[str, tuple[Capability, ...]] = {
    "image": (Capability.TEXT_TO_IMAGE,),
    "ask": (Capability.TEXT_TO_TEXT,),
    "edit": (Capability.IMAGE_EDIT,),
    "video": (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
    "music": (Capability.TEXT_TO_AUDIO,),
    "speak": (Capability.TEXT_TO_SPEECH,),
    "transcribe": (Capability.SPEECH_TO_TEXT,),
}
"""By command, the capabilities of which its default model needs at least one."""
_ALWAYS = frozenset({"image", "ask"})

COMMAND = Command(
    name="settings",
    help="command.settings",
    params=(
        *(
            Param(name=name, kind=ParamKind.MODEL, help=f"param.my_{name}", able=able)
            for name, able in DEFAULT_MODELS.items()
        ),
        Param(name="size", kind=ParamKind.SIZE, help="param.my_size", choices=(_RESET,)),
        Param(name="style", kind=ParamKind.STYLE, help="param.my_style"),
        Param(name="voice", kind=ParamKind.CHOICE, help="param.my_voice", choices=(_ON, _OFF)),
        Param(
            name="language",
            kind=ParamKind.CHOICE,
            help="param.my_language",
            choices=(*CATALOGUES, _RESET),
        ),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    changes: dict[str, str | float | None] = {}
    for command in DEFAULT_MODELS:
        if (named := call.text(command)) is not None:
            changes[f"{command}_model"] = _model(context, named, DEFAULT_MODELS[command])
    if "ask_model" in changes:
        changes["ask_model_at"] = context.clock.now()
    if (size := call.text("size")) is not None:
        changes["size"] = None if size == _RESET else size
    if (style := call.text("style")) is not None:
        is_reset = style.casefold() == _RESET
        changes["style"] = None if is_reset else context.admission.require_style(style)
    if (voice := call.text("voice")) is not None:
        changes["aloud"] = _aloud(context, voice)
    if (language := call.text("language")) is not None:
        changes["language"] = None if language == _RESET else language
    person = call.person
    if changes:
        person = await context.people.change(call.invocation.user, **changes)
    language = person.language or language_of(call.invocation.language)
    used = await _gpu_time(context, call, person, language)
    return reply(_shown(context, person, language, used))


async def _gpu_time(context: Context, call: Call, person: Person, language: str) -> Body:
    limits = _limits(context, call, person)
    since = day_of(context.clock.now(), context.access.zone).began_at
    time = await context.queue.jobs.gpu_time(person.user, since)
    return used_today(time, limits.gpu_seconds_per_day, language)


def _limits(context: Context, call: Call, person: Person) -> PersonLimits:
    return context.access.limits_of(person, call.invocation.rights, context.admission.rule.limits)


def _aloud(context: Context, chosen: str) -> int | None:
    """Return whether answers are read aloud. Raises `Declined` if no model can speak."""
    if chosen == _OFF:
        return None
    context.admission.usual_model(Person(user=""), Capability.TEXT_TO_SPEECH)
    return 1


def _model(context: Context, named: str, able: Sequence[Capability]) -> str | None:
    """Return the model's name; None for "reset". Raises `Refused`."""
    catalog = context.catalog
    spec = catalog.find(named)
    if spec is None and named.casefold() == _RESET:
        return None
    found = (each for each in able if spec is not None and each in spec.capabilities)
    return context.admission.require(named, next(found, able[0])).name


def _shown(context: Context, person: Person, language: str, used: Body) -> Body:
    """Return the person's settings, without the kinds that no model here can make."""
    rows: Body = say(language, "settings.yours")
    settings = [
        (name, _own_model(context, person, name), _usual(context, language, able))
        for name, able in _kinds(context).items()
    ]
    settings += [
        ("size", person.size, word(language, "settings.usual_size")),
        ("style", _own_style(context, person), word(language, "settings.usual_style")),
        (
            "voice",
            word(language, "settings.voice_on") if person.aloud else None,
            word(language, "settings.voice_off"),
        ),
        ("language", person.language, word(language, "settings.usual_language", code=language)),
    ]
    for name, own, usual in settings:
        rows += ("\n", *say(language, f"settings.{name}"), ": ", own or usual)
    rows += ("\n", *say(language, "settings.gpu"), ": ", *used)
    options = ", ".join(f"--{name} …" for name, _, _ in settings)
    return join((*rows, "\n", *say(language, "settings.hint", options=options)))


def _own_model(context: Context, person: Person, name: str) -> str | None:
    """Return the person's own default model, unless a rule keeps it from them here."""
    own: str | None = getattr(person, f"{name}_model")
    spec = context.queue.models.offer.catalog.find(own or "")
    return None if spec is not None and context.catalog.find(spec.name) is None else own


def _own_style(context: Context, person: Person) -> str | None:
    return person.style if person.style in context.admission.offered_styles else None


def _usual(context: Context, language: str, able: Sequence[Capability]) -> str:
    """Return the default model for people who chose none."""
    for capability in able:
        try:
            name = context.admission.usual_model(Person(user=""), capability)
        except Declined:
            continue
        return word(language, "settings.usual_model", model=name)
    return word(language, "settings.no_model")


def _kinds(context: Context) -> Mapping[str, tuple[Capability, ...]]:
    """Return the default models that can be chosen here, with what they must be able to do."""
    return {
        name: able
        for name, able in DEFAULT_MODELS.items()
        if name in _ALWAYS or any(map(context.catalog.able, able))
    }


async def panel(context: Context, call: Call) -> SettingsPanel:
    """Return the same as `/settings`, with the choices of each setting."""
    person, language = call.person, call.language
    rows = [
        _row(
            call,
            name,
            _own_model(context, person, name),
            _usual(context, language, able),
            tuple(dict.fromkeys(model for each in able for model in context.catalog.able(each))),
        )
        for name, able in _kinds(context).items()
    ]
    sizes, usual = context.admission.offered_sizes, word(language, "settings.usual_size")
    rows.append(replace(_row(call, "size", person.size, usual, sizes), free=True))
    styles, own = tuple(context.admission.offered_styles), _own_style(context, person)
    rows.append(_row(call, "style", own, word(language, "settings.usual_style"), styles))
    rows.append(_voice(call))
    usual = word(language, "settings.usual_language", code=call.invocation.language or language)
    rows.append(_row(call, "language", person.language, usual, tuple(CATALOGUES)))
    used = await _gpu_time(context, call, person, language)
    return SettingsPanel(
        settings=tuple(rows), lane=_limits(context, call, person).lane, gpu=Content(body=used)
    )


def _row(call: Call, name: str, own: str | None, usual: str, values: Sequence[str]) -> SettingRow:
    """Return a setting that "reset" clears."""
    known = dict.fromkeys((*values, *([own] if own else [])))
    return SettingRow(
        name=name,
        label=word(call.language, f"settings.{name}"),
        value=own or _RESET,
        choices=(
            Choice(value=_RESET, words=usual),
            *(Choice(value=value, words=value) for value in known),
        ),
    )


def _voice(call: Call) -> SettingRow:
    return SettingRow(
        name="voice",
        label=word(call.language, "settings.voice"),
        value=_ON if call.person.aloud else _OFF,
        choices=tuple(
            Choice(value=value, words=word(call.language, f"settings.voice_{value}"))
            for value in (_ON, _OFF)
        ),
    )
