"""`/unload <model> [host]`, for admins: free a model's memory."""

from collections.abc import Mapping

from bot.commands.admin.preload import COMMAND as PRELOAD
from bot.commands.admin.preload import begun, failed, named
from bot.commands.call.context import Call, Context
from bot.core.answers import Answer, Task
from bot.core.command import Command
from bot.core.content import Content
from bot.texts.catalogue import say
from queueing.core.errors import QueueError
from queueing.core.snapshot import Residency
from queueing.core.status import CopyStatus

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
    copies = _copies(context, model)
    busy = [name for name in backends if name in copies and copies[name].running]
    loading = [name for name in backends if name in copies and _is_loading(copies[name])]
    key, where = "unload.done", backends
    if busy or loading:
        key, where = ("unload.later", busy) if busy else ("unload.loading", loading)
    places = ", ".join(f"{context.catalog.place_of(name)} ({name})" for name in where)
    return Content(body=say(task.language, key, model=model, places=places))


def _copies(context: Context, model: str) -> Mapping[str, CopyStatus]:
    """Return the copies of a model by backend; it leaves those that work or load afterwards."""
    found = (each for each in context.queue.status.snapshot().models if each.name == model)
    return {copy.backend: copy for each in found for copy in each.copies}


def _is_loading(copy: CopyStatus) -> bool:
    return copy.residency is Residency.LOADING
