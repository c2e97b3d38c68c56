"""`/pause`, `/resume` and `/drain`, for admins: stop and resume models and hosts."""

from collections.abc import Sequence

from bot.commands.admin.targets import meant_host, meant_target, subject, words
from bot.commands.call.context import Call, Context, audited, reply
from bot.core.answers import Answer, Task, TaskReply
from bot.core.command import Command, Param, ParamKind
from bot.core.content import Content, Moment
from bot.texts.catalogue import say, word
from bot.texts.refusals import told
from queueing.core.errors import ProblemKind, QueueError, problem_of
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Pauses, StatusReport

DRAIN = Command(
    name="drain",
    help="command.drain",
    admin=True,
    params=(
        Param(name="host", kind=ParamKind.HOST, help="param.host", required=True, positional=True),
    ),
)


async def handle_drain(context: Context, call: Call) -> Answer:
    host = meant_host(context.catalog, call)
    await context.queue.admin.pause(host=host)  # durable before anyone is notified
    await audited(context, call, "drain", host)

    task = Task(command=DRAIN.name, language=call.language, host=host)
    return TaskReply(content=Content(body=call.say("drain.started", host=host)), task=task)


async def work_drain(context: Context, task: Task) -> Content:
    """Drain the host and report the outcome, even if it was resumed in between."""
    host = task.host or ""
    try:
        hosts = context.catalog.gpus(host) or (host,)
        if not context.queue.status.snapshot().paused.hosts.issuperset(hosts):
            return Content(body=say(task.language, "drain.resumed", host=host))
        await context.queue.admin.drain(host)
    except QueueError as error:
        why = problem_of(error)
        if why.what is ProblemKind.RESUMED:
            return Content(body=say(task.language, "drain.resumed", host=host))
        reason = told(why, task.language)
        return Content(body=say(task.language, "drain.failed", host=host, reason=reason))
    return Content(body=say(task.language, "drain.done", host=host))


PAUSE = Command(
    name="pause",
    help="command.pause",
    admin=True,
    params=(
        Param(name="model", kind=ParamKind.MODEL, help="param.admin_model", positional=True),
        Param(name="host", kind=ParamKind.HOST, help="param.host", positional=True),
    ),
)


async def handle_pause(context: Context, call: Call) -> Answer:
    model, host = meant_target(context.catalog, call)
    await context.queue.admin.pause(model=model, host=host)
    await audited(context, call, "pause", subject(model, host))
    return reply(call.say("pause.done", what=words(call, model, host)))


RESUME = Command(name="resume", help="command.resume", admin=True, params=PAUSE.params)


async def handle_resume(context: Context, call: Call) -> Answer:
    model, host = meant_target(context.catalog, call)
    snapshot = context.queue.status.snapshot()
    hosts = () if host is None else context.catalog.gpus(host)
    before, rest = snapshot.paused, _rest(snapshot, hosts)
    still = await context.queue.admin.resume(model=model, host=host)
    if host is not None and rest is not None:
        await audited(context, call, "resume", host)
        key = "resume.in_quiet" if rest.why is WaitCause.QUIET else "resume.beside_others"
        body = call.say(key, host=host, moment=Moment(rest.until or 0.0, clock=True))
    elif all(before.without(model=model, host=each) == before for each in hosts or (None,)):
        key = "resume.nothing" if model is None and host is None else "resume.not_paused"
        body = call.say(key, what=words(call, model, host))
    else:
        await audited(context, call, "resume", subject(model, host))
        body = call.say("resume.done", what=words(call, model, host))
    if names := _names(call, still):
        body += ("\n", *call.say("resume.still", names=names))
    return reply(body)


def _rest(snapshot: StatusReport, hosts: Sequence[str]) -> Reason | None:
    """Return why the hosts would be idle even without a pause."""
    return next((each.rest for each in snapshot.hosts if each.name in hosts and each.rest), None)


def _names(call: Call, paused: Pauses) -> str:
    everything = [word(call.language, "pause.everything")] if paused.everything else []
    return ", ".join([*everything, *sorted(paused.models), *sorted(paused.hosts)])
