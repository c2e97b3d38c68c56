"""`/settings`: what a person wants when a call does not say: models, size, style, language."""

from bot.commands.context import Answer, Call, Context, reply
from bot.commands.drawing import style_named
from bot.commands.table import Command, Param, ParamKind
from bot.people import Person
from bot.platforms.base import Body
from bot.texts import CATALOGUES, join, language_of, say
from queueing.requests import Capability

_RESET = "reset"

COMMAND = Command(
    name="settings",
    help="command.settings",
    params=(
        Param(name="image", kind=ParamKind.MODEL, help="param.my_image"),
        Param(name="ask", kind=ParamKind.MODEL, help="param.my_ask"),
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
    changes: dict[str, str | None] = {}
    if (image := call.text("image")) is not None:
        changes["image_model"] = _model(context, image, Capability.TEXT_TO_IMAGE)
    if (ask := call.text("ask")) is not None:
        changes["ask_model"] = _model(context, ask, Capability.TEXT_TO_TEXT)
    if (size := call.text("size")) is not None:
        changes["size"] = None if size == _RESET else size
    if (style := call.text("style")) is not None:
        changes["style"] = None if style.casefold() == _RESET else style_named(context, call, style)
    if (language := call.text("language")) is not None:
        changes["language"] = None if language == _RESET else language
    person = call.person
    if changes:
        person = await context.people.change(call.invocation.user, **changes)
    return reply(_shown(person, person.language or language_of(call.invocation.language)))


def _model(context: Context, word: str, capability: Capability) -> str | None:
    """Return the model's own name; None for "reset". Raises `Refused`."""
    catalog = context.catalog()
    if catalog.find(word) is None and word.casefold() == _RESET:
        return None
    return catalog.require(word, capability).name


def _shown(person: Person, language: str) -> Body:
    usual = say(language, "settings.usual")
    rows: Body = say(language, "settings.yours")
    for key, value in (
        ("settings.image", person.image_model),
        ("settings.ask", person.ask_model),
        ("settings.size", person.size),
        ("settings.style", person.style),
        ("settings.language", person.language),
    ):
        rows += ("\n", *say(language, key), ": ", *((value,) if value else usual))
    return join((*rows, "\n", *say(language, "settings.hint")))
