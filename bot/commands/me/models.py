"""`/models`, `/styles` and `/loras`: what people can choose from."""

import asyncio
from dataclasses import replace

from bot.commands.call.context import Call, Context, is_admin, reply
from bot.commands.me.settings import DEFAULT_MODELS
from bot.core.answers import Answer, Task, TaskReply
from bot.core.command import Command
from bot.core.content import Body, Content, Moment, Period, Strong
from bot.core.panels import ModelEntry, ModelsPanel, ModelUse
from bot.requests.rules import offers_lora
from bot.texts.catalogue import join, plain, say, word
from bot.texts.reasons import because
from bot.texts.status import RESTS, duration, gigabytes
from queueing.core.concurrency import timeout
from queueing.core.errors import QueueError
from queueing.core.requests import Capability
from queueing.core.snapshot import Residency
from queueing.core.specs import ModelSpec, together
from queueing.core.status import ModelStatus, Readiness

_PATIENCE_S = 10.0
_MODELS_ASKED = 50  # a server with `discover` may offer hundreds
_LORAS_NAMED = 40

LORAS = Command(name="loras", help="command.loras")


async def handle_loras(context: Context, call: Call) -> Answer:
    rights = context.access.counting(call.invocation.rights)
    asker = replace(call.invocation.asker, rights=rights)
    task = Task(command=LORAS.name, language=call.language, asker=asker)
    return TaskReply(content=Content(body=call.say("loras.asking")), task=task)


async def work_loras(context: Context, task: Task) -> Content:
    """Ask the servers for their LoRAs and list them."""
    models = [name for name in context.catalog.models if _takes_lora(context, name)][:_MODELS_ASKED]
    found = await asyncio.gather(*(_lora_names(context, model) for model in models))
    by_names: dict[tuple[str, ...], list[str]] = {}
    for model, names in zip(models, found, strict=True):
        by_names.setdefault(names, []).append(model)
    by_names.pop((), None)
    body: Body = () if by_names else say(task.language, "loras.none")
    for names, having in by_names.items():
        body += (*_lora_line(task.language, having, names), "\n")
    return Content(body=join(body))


def _takes_lora(context: Context, model: str) -> bool:
    takes = context.queue.models.offer.options_of(model)
    return takes is None or "lora" in takes


async def _lora_names(context: Context, model: str) -> tuple[str, ...]:
    """Return a model's LoRAs; empty if its server is unavailable."""
    try:
        async with timeout(_PATIENCE_S):
            names = await context.queue.models.loras(model)
    except (QueueError, TimeoutError):
        return ()
    return tuple(name for name in names if offers_lora(context.admission.rule, name))


def _lora_line(language: str, models: list[str], names: tuple[str, ...]) -> Body:
    left = len(names) - _LORAS_NAMED
    more = say(language, "loras.more", count=left) if left > 0 else ()
    listed = ", ".join(names[:_LORAS_NAMED]) + plain(more)
    return say(language, "loras.line", model=Strong(", ".join(models)), names=listed)


_MODELS_SHOWN = 20  # a server with `discover` may offer hundreds: those in use come first

MODELS = Command(name="models", help="command.models")


async def handle_models(context: Context, call: Call) -> Answer:
    specs, models = context.catalog.models, _offered(context)
    if not models:
        return reply(call.say("models.none"))
    body: Body = ()
    for model in models[:_MODELS_SHOWN]:
        body += ("\n", *_model_line(call, model, specs[model.name]))
    if len(models) > _MODELS_SHOWN:
        body += ("\n", *call.say("models.more", count=len(models) - _MODELS_SHOWN))
    return reply(join(body[1:]))


def _offered(context: Context) -> list[ModelStatus]:
    """Return all models that the caller may use, those in use first."""
    models, specs = context.queue.status.snapshot().models, context.catalog.models
    mine = (model for model in models if model.name in specs)
    return sorted(mine, key=lambda model: not (model.copies or model.waiting))


def _model_line(call: Call, model: ModelStatus, spec: ModelSpec) -> Body:
    aliases = ", ".join(spec.aliases)
    body = call.say(
        "models.line",
        model=Strong(model.name),
        also=word(call.language, "models.alias", aliases=aliases) if aliases else "",
        abilities=", ".join(_abilities(call, spec)),
        place=_place(call, model),
        waiting=model.waiting,
        took=_took(call, model),
    )
    if model.waiting and model.next_ends is not None:
        ends = model.next_ends
        body += call.say("models.next", period=Period.around(ends.earliest, ends.latest))
    if model.vram_mb:
        body += call.say("models.vram", vram=gigabytes(call.language, model.vram_mb))
    return body + _hindrances(call, model)


def _abilities(call: Call, spec: ModelSpec) -> list[str]:
    return [
        word(call.language, f"ability.{able}") for able in Capability if able in spec.capabilities
    ]


def _took(call: Call, model: ModelStatus) -> str:
    if model.service_s is None:
        return word(call.language, "models.unmeasured")
    return word(call.language, "models.took", took=duration(call.language, model.service_s))


def _hindrances(call: Call, model: ModelStatus) -> Body:
    """Return what keeps jobs of a model from starting, each part after " · "."""
    body: Body = ()
    for trouble in model.troubles:
        moment = Moment(trouble.again_at)
        body += call.say("models.trouble", backend=trouble.backend, moment=moment)
    if model.paused:
        return body + call.say("models.paused")
    if model.reason is not None and model.reason.why in RESTS:
        return (*body, " · ", *because(model.reason, call.language))
    return body


def _place(call: Call, model: ModelStatus) -> str:
    if model.vram_mb == 0:
        return word(call.language, "models.weightless")
    ready = [copy for copy in model.copies if copy.residency is Residency.READY]
    loading = [copy for copy in model.copies if copy.residency is Residency.LOADING]
    if ready:
        hosts = ", ".join(dict.fromkeys(together(copy.hosts) for copy in ready))
        words = word(call.language, "models.in_memory", hosts=hosts)
        pinned = any(copy.pinned for copy in ready)
        return f"{words} ({word(call.language, 'models.pinned')})" if pinned else words
    if loading:
        hosts = ", ".join(dict.fromkeys(together(copy.hosts) for copy in loading))
        ahead = all(copy.ahead for copy in loading)
        return word(
            call.language, "models.loading_ahead" if ahead else "models.loading", hosts=hosts
        )
    needed = model.readiness is Readiness.NEEDS_LOADING
    return word(call.language, "models.needs_loading" if needed else "models.not_loaded")


def _ready_at(model: ModelStatus) -> float | None:
    """Return when the first copy of a loading model will be ready; None if one is ready already."""
    if any(copy.residency is Residency.READY for copy in model.copies):
        return None
    loading = (copy.ready_at for copy in model.copies if copy.residency is Residency.LOADING)
    return min(loading, default=None)


_SHOWN_FIRST = (Residency.READY, Residency.LOADING, Residency.UNLOADING)


async def panel_models(context: Context, call: Call) -> ModelsPanel:
    """Return the same as `/models`, as rows."""
    rows = tuple(_row(context, call, model) for model in _offered(context))
    return ModelsPanel(models=rows, operates=is_admin(context, call))


def _row(context: Context, call: Call, model: ModelStatus) -> ModelEntry:
    spec = context.catalog.models[model.name]
    kept = {copy.residency for copy in model.copies}
    return ModelEntry(
        name=model.name,
        aliases=tuple(spec.aliases),
        abilities=tuple(_abilities(call, spec)),
        place=_place(call, model),
        memory=next((each for each in _SHOWN_FIRST if each in kept), None),
        needs_memory=model.vram_mb != 0,
        vram=gigabytes(call.language, model.vram_mb) if model.vram_mb else "",
        waiting=model.waiting,
        running=model.running,
        took=_took(call, model),
        ready_at=_ready_at(model),
        ends=model.next_ends,
        notes=Content(body=_hindrances(call, model)),
        uses=tuple(
            ModelUse(
                command=name,
                kind=word(call.language, f"settings.{name}"),
                chosen=getattr(call.person, f"{name}_model") == model.name,
            )
            for name, able in DEFAULT_MODELS.items()
            if spec.capabilities.intersection(able)
        ),
    )


STYLES = Command(name="styles", help="command.styles")


async def handle_styles(context: Context, call: Call) -> Answer:
    styles = context.admission.offered_styles
    if not styles:
        return reply(call.say("styles.none"))
    body: Body = ()
    for name, style in styles.items():
        body += ("\n", *call.say("styles.line", name=Strong(name), prompt=style.prompt))
    return reply(join(body[1:]))
