"""`/unload <model> [host]`, for admins: free a model's memory."""

from bot.commands.context import Answer, Call, Context, Working, audited
from bot.commands.preload import COMMAND as PRELOAD
from bot.commands.preload import named
from bot.commands.table import Command
from bot.platforms.base import Content
from queueing.errors import QueueError

COMMAND = Command(name="unload", help="command.unload", admin=True, params=PRELOAD.params)


async def handle(context: Context, call: Call) -> Answer:
    model, host = named(context.catalog, call)
    await audited(context, call, "unload", model, host or "")

    async def unload() -> Content:
        try:
            backends = await context.queue.unload(model, host)
        except QueueError as error:
            return Content(body=call.say("unload.failed", model=model, reason=str(error)))
        if not backends:
            return Content(body=call.say("unload.none", model=model))
        busy = [name for name in backends if name in _running(context, model)]
        key, where = ("unload.later", busy) if busy else ("unload.done", backends)
        return Content(body=call.say(key, model=model, backends=", ".join(where)))

    return Working(content=Content(body=call.say("unload.started", model=model)), later=unload)


def _running(context: Context, model: str) -> set[str]:
    """Return the backends on which the model has work: there it leaves when that has ended."""
    copies = (copy for each in context.queue.models() if each.name == model for copy in each.copies)
    return {copy.backend for copy in copies if copy.running}
