"""`/models`: what each model can do, whether it is in memory and where, its line and usual time."""

from bot.commands.call.context import Call, Context, reply
from bot.core.answers import Answer
from bot.core.command import Command
from bot.core.content import Body, Moment, Period, Strong
from bot.texts.catalogue import join, word
from bot.texts.status import RESTS, because, duration, gigabytes
from queueing.core.catalog import ModelSpec
from queueing.core.divided import together
from queueing.core.requests import Capability
from queueing.core.snapshot import Residency
from queueing.core.status import ModelStatus, Readiness

_SHOWN = 20  # a discovering server may offer hundreds: those in use come first

COMMAND = Command(name="models", help="command.models")


async def handle(context: Context, call: Call) -> Answer:
    models = sorted(
        context.queue.status.snapshot().models,
        key=lambda model: not (model.copies or model.waiting),
    )
    if not models:
        return reply(call.say("models.none"))
    specs = context.catalog.models
    body: Body = ()
    for model in models[:_SHOWN]:
        body += ("\n", *_line(call, model, specs[model.name]))
    if len(models) > _SHOWN:
        body += ("\n", *call.say("models.more", count=len(models) - _SHOWN))
    return reply(join(body[1:]))


def _line(call: Call, model: ModelStatus, spec: ModelSpec) -> Body:
    aliases = ", ".join(spec.aliases)
    abilities = [
        word(call.language, f"ability.{able}") for able in Capability if able in spec.capabilities
    ]
    body = call.say(
        "models.line",
        model=Strong(model.name),
        also=word(call.language, "models.alias", aliases=aliases) if aliases else "",
        abilities=", ".join(abilities),
        place=_place(call, model),
        waiting=model.waiting,
        took=word(call.language, "models.unmeasured")
        if model.service_s is None
        else word(call.language, "models.took", took=duration(call.language, model.service_s)),
    )
    if model.waiting and model.next_ends is not None:
        ends = model.next_ends
        body += call.say("models.next", period=Period.around(ends.earliest, ends.latest))
    if model.vram_mb:
        body += call.say("models.vram", vram=gigabytes(call.language, model.vram_mb))
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
        return word(call.language, "models.loading", hosts=hosts)
    needed = model.readiness is Readiness.NEEDS_LOADING
    return word(call.language, "models.needs_loading" if needed else "models.not_loaded")
