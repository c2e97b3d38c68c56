"""`/drain <host>`, for admins: pause a host, let its work end, unload it all: the card is free."""

from bot.commands.admin.target import meant_host
from bot.commands.call.context import Call, Context, audited
from bot.core.answers import Answer, Task, Working
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Content
from bot.texts.catalogue import say
from bot.texts.problems import told
from queueing.core.errors import QueueError, problem_of
from queueing.core.problems import What

COMMAND = Command(
    name="drain",
    help="command.drain",
    admin=True,
    params=(
        Param(name="host", kind=ParamKind.HOST, help="param.host", required=True, positional=True),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    host = meant_host(context.catalog, call)
    await context.queue.admin.pause(host=host)  # durable before anyone is told
    await audited(context, call, "drain", host)

    task = Task(command=COMMAND.name, language=call.language, host=host)
    return Working(content=Content(body=call.say("drain.started", host=host)), task=task)


async def work(context: Context, task: Task) -> Content:
    """Empty the host, unless it was resumed meanwhile, and report it."""
    host = task.host or ""
    try:
        hosts = context.catalog.cards(host) or (host,)
        if not context.queue.status.snapshot().paused.hosts.issuperset(hosts):
            return Content(body=say(task.language, "drain.resumed", host=host))
        await context.queue.admin.drain(host)
    except QueueError as error:
        why = problem_of(error)
        if why.what is What.RESUMED:
            return Content(body=say(task.language, "drain.resumed", host=host))
        reason = told(why, task.language)
        return Content(body=say(task.language, "drain.failed", host=host, reason=reason))
    return Content(body=say(task.language, "drain.done", host=host))
