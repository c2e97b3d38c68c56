"""`/preload <model> [host]`, for admins: load a model now and keep it."""

from bot.commands.context import Answer, Call, CallRefused, Context, Working, audited
from bot.commands.table import Command, Param, ParamKind
from bot.commands.target import meant_host, meant_model
from bot.platforms.base import Content
from queueing.catalog import Catalog
from queueing.errors import QueueError

COMMAND = Command(
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


async def handle(context: Context, call: Call) -> Answer:
    model, host = named(context.catalog, call)
    await audited(context, call, "preload", model, host or "")

    async def load() -> Content:
        try:
            backend = await context.queue.preload(model, host)
        except QueueError as error:
            return Content(body=call.say("preload.failed", model=model, reason=str(error)))
        loaded_on = context.catalog.host_of[backend]
        body = call.say("preload.done", model=model, host=loaded_on, backend=backend)
        return Content(body=body)

    return Working(content=Content(body=call.say("preload.started", model=model)), later=load)


def named(catalog: Catalog, call: Call) -> tuple[str, str | None]:
    """Return the model and host a call names. Raises `UnknownModel` or `CallRefused`."""
    model = meant_model(catalog, call)
    if call.text("host") is None:
        return model, None
    host = meant_host(catalog, call)
    hosts = [catalog.host_of[name] for name in catalog.models[model].backends]
    if host not in hosts:
        names = ", ".join(dict.fromkeys(hosts))
        raise CallRefused("refused.unknown_host", name=host, model=model, names=names)
    return model, host
