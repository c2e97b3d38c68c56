"""`/loras`: what each model's server has, for models whose workflow takes a LoRA."""

import asyncio

from bot.commands.call.context import Call, Context
from bot.core.answers import Answer, Task, Working
from bot.core.command import Command
from bot.core.content import Body, Content, Strong
from bot.texts.catalogue import join, plain, say
from queueing.core.concurrency import timeout
from queueing.core.errors import QueueError

_PATIENCE_S = 10.0
_ASKED = 50  # models; a discovering server may offer hundreds
_NAMED = 40

COMMAND = Command(name="loras", help="command.loras")


async def handle(_context: Context, call: Call) -> Answer:
    task = Task(command=COMMAND.name, language=call.language)
    return Working(content=Content(body=call.say("loras.asking")), task=task)


async def work(context: Context, task: Task) -> Content:
    """Ask the servers and list what they have."""
    models = [name for name in context.catalog.models if _takes_lora(context, name)][:_ASKED]
    told = await asyncio.gather(*(_names(context, model) for model in models))
    by_names: dict[tuple[str, ...], list[str]] = {}
    for model, names in zip(models, told, strict=True):
        by_names.setdefault(names, []).append(model)
    by_names.pop((), None)
    body: Body = () if by_names else say(task.language, "loras.none")
    for names, having in by_names.items():
        body += (*_line(task.language, having, names), "\n")
    return Content(body=join(body))


def _takes_lora(context: Context, model: str) -> bool:
    takes = context.queue.models.offer.options_of(model)
    return takes is None or "lora" in takes


async def _names(context: Context, model: str) -> tuple[str, ...]:
    """Return a model's LoRAs; none if its server is away."""
    try:
        async with timeout(_PATIENCE_S):
            return await context.queue.models.loras(model)
    except (QueueError, TimeoutError):
        return ()


def _line(language: str, models: list[str], names: tuple[str, ...]) -> Body:
    left = len(names) - _NAMED
    more = say(language, "loras.more", count=left) if left > 0 else ()
    listed = ", ".join(names[:_NAMED]) + plain(more)
    return say(language, "loras.line", model=Strong(", ".join(models)), names=listed)
