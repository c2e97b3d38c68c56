"""`/unload <model> [host]`, for admins: free a model's memory."""

from bot.chat.api.answers import Answer, Task
from bot.chat.api.content import Content
from bot.chat.api.table import Command
from bot.chat.commands.context import Call, Context
from bot.chat.commands.preload import COMMAND as PRELOAD
from bot.chat.commands.preload import begun, failed, named
from bot.chat.texts import say
from queueing.core.errors import QueueError

COMMAND = Command(name="unload", help="command.unload", admin=True, params=PRELOAD.params)


async def handle(context: Context, call: Call) -> Answer:
    model, _ = named(context.catalog, call)
    return await begun(context, call, COMMAND.name, call.say("unload.started", model=model))


async def work(context: Context, task: Task) -> Content:
    """Unload the model and report where it was."""
    model = task.model or ""
    try:
        backends = await context.queue.preloads.unload(model, task.host)
    except QueueError as error:
        return Content(body=failed(task, "unload.failed", error))
    if not backends:
        return Content(body=say(task.language, "unload.none", model=model))
    busy = [name for name in backends if name in _running(context, model)]
    key, where = ("unload.later", busy) if busy else ("unload.done", backends)
    return Content(body=say(task.language, key, model=model, backends=", ".join(where)))


def _running(context: Context, model: str) -> set[str]:
    """Return the backends on which the model has work, which it leaves when that has ended."""
    copies = (
        copy
        for each in context.queue.status.snapshot().models
        if each.name == model
        for copy in each.copies
    )
    return {copy.backend for copy in copies if copy.running}
