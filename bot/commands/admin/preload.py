"""`/preload` and `/unload`, for admins: load a model and keep it loaded, or free its memory."""

from collections.abc import Mapping

from bot.commands.admin.targets import meant_host, meant_model
from bot.commands.call.context import Call, Context, audited
from bot.core.answers import Answer, Task, TaskReply
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Body, Content
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.texts.catalogue import join, say
from bot.texts.reasons import because
from bot.texts.refusals import told
from queueing.core.catalog import Catalog
from queueing.core.errors import QueueError, problem_of
from queueing.core.snapshot import Residency
from queueing.core.status import CopyStatus

PRELOAD = Command(
    name="preload",
    help="command.preload",
    admin=True,
    params=(
        Param(
            name="model",
            kind=ParamKind.MODEL,
            help="param.admin_model",
            required=True,
            positional=True,
        ),
        Param(name="host", kind=ParamKind.HOST, help="param.host", positional=True),
    ),
)


async def handle_preload(context: Context, call: Call) -> Answer:
    model, host = named(context.catalog, call)
    try:
        reason = await context.queue.preloads.waits_for(model, host)
    except QueueError:
        reason = None  # the outcome follows at once and reports the error
    if reason is None:
        return await begun(context, call, PRELOAD.name, call.say("preload.started", model=model))
    why = because(reason, call.language)
    body = (*call.say("preload.waits", model=model), *why, " …")
    return await begun(context, call, PRELOAD.name, join(body))


async def begun(context: Context, call: Call, command: str, body: Body) -> TaskReply:
    """Record a preload or unload in the audit log and return its first answer."""
    model, host = named(context.catalog, call)
    await audited(context, call, command, model, host or "")

    task = Task(command=command, language=call.language, model=model, host=host)
    return TaskReply(content=Content(body=body), task=task)


def failed(task: Task, key: str, error: QueueError) -> Body:
    """Return the text for an admin about a failed task, with the reason."""
    reason = told(problem_of(error), task.language)
    return say(task.language, key, model=task.model or "", reason=reason)


async def work_preload(context: Context, task: Task) -> Content:
    """Load the model and report its host."""
    model = task.model or ""
    try:
        backend = await context.queue.preloads.preload(model, task.host)
    except QueueError as error:
        body = failed(task, "preload.failed", error)
    else:
        host = context.catalog.place_of(backend)
        body = say(task.language, "preload.done", model=model, host=host, backend=backend)
    return Content(body=body)


def named(catalog: Catalog, call: Call) -> tuple[str, str | None]:
    """Return the model and host a call names. Raises `UnknownModel` or `Declined`."""
    model = meant_model(catalog, call)
    if call.text("host") is None:
        return model, None
    host = meant_host(catalog, call)
    spec = catalog.models[model]
    hosts = [each for name in spec.backends for each in catalog.parts_of(spec, name)]
    if not set(hosts).intersection(catalog.gpus(host)):
        names = ", ".join(dict.fromkeys(hosts))
        raise Declined(Refusal(RefusalKind.NOT_ON_HOST, name=host, model=model, names=names))
    return model, host


UNLOAD = Command(name="unload", help="command.unload", admin=True, params=PRELOAD.params)


async def handle_unload(context: Context, call: Call) -> Answer:
    model, _ = named(context.catalog, call)
    return await begun(context, call, UNLOAD.name, call.say("unload.started", model=model))


async def work_unload(context: Context, task: Task) -> Content:
    """Unload the model and report the hosts it left."""
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
    """Return a model's copies by backend. Copies that run jobs or load leave later."""
    found = (each for each in context.queue.status.snapshot().models if each.name == model)
    return {copy.backend: copy for each in found for copy in each.copies}


def _is_loading(copy: CopyStatus) -> bool:
    return copy.residency is Residency.LOADING
