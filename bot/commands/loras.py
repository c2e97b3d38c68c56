"""`/loras`: what each model's server has, where its workflow takes a LoRA."""

import asyncio

from bot.commands.context import Answer, Call, Context, Working
from bot.commands.table import Command
from bot.platforms.base import Body, Content
from bot.texts import join, plain
from queueing.errors import QueueError

_PATIENCE_S = 10.0
_NAMED = 40

COMMAND = Command(name="loras", help="command.loras")


async def handle(context: Context, call: Call) -> Answer:
    models = [name for name in context.catalog().models if _takes_lora(context, name)]

    async def ask() -> Content:
        lines = await asyncio.gather(*(_line(context, call, model) for model in models))
        shown = [line for line in lines if line]
        body: Body = () if shown else call.say("loras.none")
        for line in shown:
            body += (*line, "\n")
        return Content(body=join(body))

    return Working(content=Content(body=call.say("loras.asking")), later=ask)


def _takes_lora(context: Context, model: str) -> bool:
    takes = context.queue.options(model)
    return takes is None or "lora" in takes


async def _line(context: Context, call: Call, model: str) -> Body:
    """Return a model's LoRAs; nothing where it takes none or its server is away."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            names = await context.queue.loras(model)
    except (QueueError, TimeoutError):
        return ()
    if not names:
        return ()
    more = call.say("loras.more", count=len(names) - _NAMED) if len(names) > _NAMED else ()
    listed = ", ".join(names[:_NAMED]) + plain(more)
    return call.say("loras.line", model=model, names=listed)
