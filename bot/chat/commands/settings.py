"""`/settings`: a person's defaults for what a call leaves open: models, size, style, language."""

from bot.chat.api.answers import Answer
from bot.chat.api.content import Body
from bot.chat.api.table import Command, Param, ParamKind
from bot.chat.commands.context import Call, Context, reply
from bot.chat.texts import CATALOGUES, join, language_of, say, word
from bot.people.users import Person
from bot.requests.drawing import style_name
from bot.requests.refusals import Declined
from queueing.core.requests import Capability

_RESET = "reset"
_DRAWS, _WRITES = Capability.TEXT_TO_IMAGE, Capability.TEXT_TO_TEXT

COMMAND = Command(
    name="settings",
    help="command.settings",
    params=(
        Param(name="image", kind=ParamKind.MODEL, help="param.my_image", able=_DRAWS),
        Param(name="ask", kind=ParamKind.MODEL, help="param.my_ask", able=_WRITES),
        Param(name="size", kind=ParamKind.SIZE, help="param.my_size", choices=(_RESET,)),
        Param(name="style", kind=ParamKind.STYLE, help="param.my_style"),
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
    if (image := call.text("image")) is not None:
        changes["image_model"] = _model(context, image, _DRAWS)
    if (ask := call.text("ask")) is not None:
        changes["ask_model"] = _model(context, ask, _WRITES)
        changes["ask_model_at"] = context.clock.now()
    if (size := call.text("size")) is not None:
        changes["size"] = None if size == _RESET else size
    if (style := call.text("style")) is not None:
        named = context.admission.styles
        changes["style"] = None if style.casefold() == _RESET else style_name(named, style)
    if (language := call.text("language")) is not None:
        changes["language"] = None if language == _RESET else language
    person = call.person
    if changes:
        person = await context.people.change(call.invocation.user, **changes)
    language = person.language or language_of(call.invocation.language)
    return reply(_shown(context, person, language))


def _model(context: Context, named: str, capability: Capability) -> str | None:
    """Return the model's own name; None for "reset". Raises `Refused`."""
    catalog = context.catalog
    if catalog.find(named) is None and named.casefold() == _RESET:
        return None
    return catalog.require(named, capability).name


def _shown(context: Context, person: Person, language: str) -> Body:
    rows: Body = say(language, "settings.yours")
    for key, own, usual in (
        ("settings.image", person.image_model, _usual(context, language, _DRAWS)),
        ("settings.ask", person.ask_model, _usual(context, language, _WRITES)),
        ("settings.size", person.size, word(language, "settings.usual_size")),
        ("settings.style", person.style, word(language, "settings.usual_style")),
        (
            "settings.language",
            person.language,
            word(language, "settings.usual_language", code=language),
        ),
    ):
        rows += ("\n", *say(language, key), ": ", own or usual)
    return join((*rows, "\n", *say(language, "settings.hint")))


def _usual(context: Context, language: str, capability: Capability) -> str:
    """Return the model of people who chose none."""
    try:
        name = context.admission.usual_model(Person(user=""), capability)
    except Declined:
        return word(language, "settings.no_model")
    return word(language, "settings.usual_model", model=name)
