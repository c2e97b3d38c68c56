"""What the composer's pickers offer a person: kinds of requests, models with their wait, options.

The page turns what is chosen into the command line that a person would type, so nothing here allows
or refuses a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from bot.core.asker import Asker
from bot.core.command import Command, Param, ParamKind
from bot.core.live_settings import LiveSettings
from bot.core.queue import ModelReader, QueueStatus
from bot.people.people import People, Person
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.routes.assets import browsers_language
from bot.platforms.web.routes.sessions import Sessions
from bot.requests.creation import FIELDS
from bot.requests.model_choice import model_of_style, usual_model
from bot.requests.options import SHAPES, Style
from bot.requests.rules import Rule, RuleTable, offered, offers_style
from bot.texts.catalogue import describe
from queueing.core.errors import StoreError
from queueing.core.ports import Clock
from queueing.core.requests import (
    AnyRequest,
    Capability,
    Chat,
    Record,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from queueing.core.status import ModelStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """A kind of request: its command, and what a model needs without and with an attached image."""

    name: str
    command: str
    makes: type[AnyRequest]
    able: Capability
    with_image: Capability | None = None


_KINDS = (
    _Kind(
        name="chat",
        command="ask",
        makes=Chat,
        able=Capability.TEXT_TO_TEXT,
        with_image=Capability.VISION,
    ),
    _Kind(
        name="image",
        command="image",
        makes=TextToImage,
        able=Capability.TEXT_TO_IMAGE,
        with_image=Capability.IMAGE_TO_IMAGE,
    ),
    _Kind(
        name="edit",
        command="edit",
        makes=TextToImage,
        able=Capability.IMAGE_EDIT,
        with_image=Capability.IMAGE_EDIT,
    ),
    _Kind(
        name="video",
        command="video",
        makes=TextToVideo,
        able=Capability.TEXT_TO_VIDEO,
        with_image=Capability.IMAGE_TO_VIDEO,
    ),
    _Kind(name="speech", command="speak", makes=TextToSpeech, able=Capability.TEXT_TO_SPEECH),
    _Kind(name="music", command="music", makes=TextToAudio, able=Capability.TEXT_TO_AUDIO),
)
_OPTIONS = (
    "size",
    "count",
    "style",
    "seconds",
    "voice",
    "speed",
    "lyrics",
    "guidance",
    "strength",
    "steps",
    "seed",
    "negative",
)
"""The options that have a control, in the order of their controls."""


class ModelChoice(Record):
    """A model and when a result would come (`wait_s`), None if unknown.

    `text` and `image` are whether it works without and with an attached image. `takes` are the
    options it honours.
    """

    name: str
    wait_s: int | None
    paused: bool
    text: bool
    image: bool
    takes: tuple[str, ...]


class OptionRow(Record):
    """An option of a kind; `help` is a sentence."""

    name: str
    kind: ParamKind
    help: str
    choices: tuple[str, ...]
    least: float | None
    most: float | None


class KindRow(Record):
    """A kind of request, and the models used without and with an image where none is named."""

    name: str
    command: str
    usual: str | None
    usual_with_image: str | None
    models: tuple[ModelChoice, ...]
    options: tuple[OptionRow, ...]


class StyleRow(Record):
    """A style, and the model it uses where none is named."""

    name: str
    model: str | None


class ChoiceRows(Record):
    """Everything the pickers offer.

    `names` are the models' names and aliases, which a prompt's first word may not be by accident.
    `hears` is whether a model can transcribe what a person says.
    """

    kinds: tuple[KindRow, ...] = ()
    shapes: tuple[str, ...] = ()
    styles: tuple[StyleRow, ...] = ()
    names: tuple[str, ...] = ()
    hears: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """Reads what a person can choose from. The operator's `styles` and `rules` may change."""

    models: ModelReader
    status: QueueStatus
    people: People
    live: LiveSettings
    styles: Mapping[str, Style]
    clock: Clock
    rules: RuleTable

    async def of(
        self, asker: Asker, commands: Sequence[Command], language: str | None
    ) -> ChoiceRows:
        """Return a person's choices, in their language. Raises `StoreError`."""
        person = await self.people.get(asker.user)
        rule = self.rules.of(asker)
        catalog, everything = offered(self.models.offer.catalog, rule), self.models.offer.catalog
        known = {command.name: command for command in commands}
        states = {model.name: model for model in self.status.snapshot().models}
        rows = (
            self._kind(kind, known[kind.command], person, language, rule, states=states)
            for kind in _KINDS
            if kind.command in known
        )
        return ChoiceRows(
            kinds=tuple(row for row in rows if row.models),
            shapes=tuple(SHAPES),
            styles=tuple(
                StyleRow(name=name, model=model_of_style(catalog, style, Capability.TEXT_TO_IMAGE))
                for name, style in self.styles.items()
                if offers_style(rule, style)
            ),
            hears=bool(catalog.able(Capability.SPEECH_TO_TEXT)),
            names=tuple(
                {n for each in everything.models.values() for n in (each.name, *each.aliases)}
            ),
        )

    def _kind(
        self,
        kind: _Kind,
        command: Command,
        person: Person,
        language: str | None,
        rule: Rule,
        *,
        states: Mapping[str, ModelStatus],
    ) -> KindRow:
        catalog = offered(self.models.offer.catalog, rule)
        text = catalog.able(kind.able)
        image = catalog.able(kind.with_image) if kind.with_image is not None else ()
        options = self._options(kind, command, language, rule)
        return KindRow(
            name=kind.name,
            command=kind.command,
            usual=self._usual(person, kind.able, rule) if text else None,
            usual_with_image=self._usual(person, kind.with_image, rule) if image else None,
            models=tuple(
                self._model(name, states.get(name), options, text=name in text, image=name in image)
                for name in dict.fromkeys((*text, *image))
            ),
            options=options,
        )

    def _usual(self, person: Person, capability: Capability | None, rule: Rule) -> str | None:
        if capability is None:
            return None
        catalog = offered(self.models.offer.catalog, rule)
        return usual_model(catalog, (rule.defaults, self.live.defaults), person, capability)

    def _options(
        self, kind: _Kind, command: Command, language: str | None, rule: Rule
    ) -> tuple[OptionRow, ...]:
        params = {param.name: param for param in command.params}
        shown = (params[name] for name in _OPTIONS if name in params and _means(kind, name))
        return tuple(
            OptionRow(
                name=param.name,
                kind=param.kind,
                help=describe(param.help, language),
                choices=param.choices,
                least=param.least,
                most=_most(param, rule),
            )
            for param in shown
        )

    def _model(
        self,
        name: str,
        status: ModelStatus | None,
        options: Sequence[OptionRow],
        *,
        text: bool,
        image: bool,
    ) -> ModelChoice:
        takes = self.models.offer.options_of(name)
        ends = None if status is None else status.next_ends
        return ModelChoice(
            name=name,
            wait_s=None if ends is None else max(0, round(ends.at - self.clock.now())),
            paused=status is not None and status.paused,
            text=text,
            image=image,
            takes=tuple(
                each.name
                for each in options
                if takes is None or each.name == "style" or _field(each.name) in takes
            ),
        )


def _most(param: Param, rule: Rule) -> float | None:
    """Return the most that a rule and the parameter allow."""
    bounds = (param.most, rule.most.get(param.name))
    return min((bound for bound in bounds if bound is not None), default=None)


def _field(option: str) -> str:
    return FIELDS.get(option, option)


def _means(kind: _Kind, option: str) -> bool:
    """Return whether an option means something for a kind, whose command may make others too."""
    if option == "strength":
        return kind.with_image is Capability.IMAGE_TO_IMAGE
    return option == "style" or _field(option) in kind.makes.model_fields


class ChoiceRoutes:
    """The route of the choices. Without `choices`, it offers nothing."""

    def __init__(self, who: Sessions, calls: Calls, choices: Choices | None) -> None:
        self._who = who
        self._calls = calls
        self._choices = choices

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the route below a path."""
        router.add_get(f"{path}/choices", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        person = self._who.require(request)
        rows = ChoiceRows()
        if self._choices is not None:
            language = await self._calls.language_of(person) or browsers_language(request)
            asker, commands = self._calls.asker(person), self._calls.handler.commands
            try:
                rows = await self._choices.of(asker, commands, language)
            except StoreError:
                raise web.HTTPServiceUnavailable from None
        return web.json_response(text=rows.model_dump_json())
