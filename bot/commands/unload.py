"""`/unload <model> [host]`, for admins: free a model's memory."""

from bot.commands.context import Answer, Call, Context, Working, audited
from bot.commands.preload import COMMAND as PRELOAD
from bot.commands.preload import named
from bot.commands.table import Command
from bot.platforms.base import Content
from queueing.errors import QueueError

COMMAND = Command(name="unload", help="command.unload", admin=True, params=PRELOAD.params)


async def handle(context: Context, call: Call) -> Answer:
    model, host = named(context.catalog(), call)
    await audited(context, call, "unload", model, host or "")

    async def unload() -> Content:
        try:
            backends = await context.queue.unload(model, host)
        except QueueError as error:
            return Content(body=call.say("unload.failed", model=model, reason=str(error)))
        if not backends:
            return Content(body=call.say("unload.none", model=model))
        return Content(body=call.say("unload.done", model=model, backends=", ".join(backends)))

    return Working(content=Content(body=call.say("unload.started", model=model)), later=unload)
