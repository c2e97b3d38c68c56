"""`/resume [model or host]`, for admins: lift its pause; without either, every pause."""

from collections.abc import Sequence

from bot.commands.admin.pause import COMMAND as PAUSE
from bot.commands.admin.target import meant_target, subject, words
from bot.commands.call.context import Call, Context, audited, reply
from bot.core.answers import Answer
from bot.core.command import Command
from bot.core.content import Moment
from bot.texts.catalogue import word
from queueing.core.paused import Paused
from queueing.core.snapshot import Blocked, Reason
from queueing.core.status import QueueSnapshot

COMMAND = Command(name="resume", help="command.resume", admin=True, params=PAUSE.params)


async def handle(context: Context, call: Call) -> Answer:
    model, host = meant_target(context.catalog, call)
    snapshot = context.queue.status.snapshot()
    hosts = () if host is None else context.catalog.cards(host)
    before, rest = snapshot.paused, _rest(snapshot, hosts)
    still = await context.queue.admin.resume(model=model, host=host)
    if host is not None and rest is not None:
        await audited(context, call, "resume", host)
        key = "resume.in_quiet" if rest.why is Blocked.QUIET else "resume.beside_others"
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


def _rest(snapshot: QueueSnapshot, hosts: Sequence[str]) -> Reason | None:
    """Return why hosts would do nothing without a pause, too."""
    return next((each.rest for each in snapshot.hosts if each.name in hosts and each.rest), None)


def _names(call: Call, paused: Paused) -> str:
    everything = [word(call.language, "pause.everything")] if paused.everything else []
    return ", ".join([*everything, *sorted(paused.models), *sorted(paused.hosts)])
