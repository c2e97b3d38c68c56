"""`/queue`: the caller's jobs with place, reason and time, then the queue of every busy model.

`/queue all`, for admins: all jobs with their owners.
"""

from collections.abc import Sequence

from bot.commands.call.context import Call, Context, is_admin, reply
from bot.core.answers import Answer
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Body, Button, Strong
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.texts import status
from bot.texts.catalogue import join, word
from bot.texts.reasons import because
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Embed
from queueing.core.status import ModelStatus

_JOBS_SHOWN = 10
_ALL_SHOWN = 30
_BUTTONS = 5
_QUEUES_SHOWN = 15

COMMAND = Command(
    name="queue",
    help="command.queue",
    topic=Topic.JOBS,
    params=(
        Param(
            name="whose",
            kind=ParamKind.CHOICE,
            help="param.whose",
            positional=True,
            choices=("all",),
            admin=True,
        ),
    ),
)


async def handle(context: Context, call: Call) -> Answer:
    everybody = call.text("whose") == "all"
    if everybody and not is_admin(context, call):
        raise Declined(Refusal(RefusalKind.ADMINS_ONLY, command="queue all"))
    jobs = await context.queue.jobs.open_jobs(None if everybody else call.invocation.user)
    models = context.admission.shown.report(call.invocation.asker).models
    lines = [model for model in models if model.waiting or model.running]
    if not jobs and not lines:
        return reply(call.say("queue.empty"))
    embeddings = sum(isinstance(job.request, Embed) for job in jobs)
    jobs = [job for job in jobs if not isinstance(job.request, Embed)]
    body = await _jobs(context, call, jobs, everybody=everybody)
    if embeddings:
        body += ("\n", *call.say("queue.embeddings", count=embeddings))
    label = word(call.language, "button.cancel")
    buttons = [
        Button(command="cancel", job_id=job.id, label=f"{label} {job.id}")
        for job in jobs[:_BUTTONS]
    ]
    return reply(join(body + _lines(call, lines)), buttons=() if everybody else buttons)


async def _jobs(context: Context, call: Call, jobs: Sequence[Job], *, everybody: bool) -> Body:
    """Return a line for each of the oldest jobs, with owners in the list of all jobs."""
    if everybody:
        body = call.say("queue.all", count=len(jobs))
    else:
        body = call.say("queue.yours" if jobs else "queue.none_yours")
    shown = jobs[: _ALL_SHOWN if everybody else _JOBS_SHOWN]
    standings = await context.admission.shown.standings(shown)
    for job in shown:
        standing = standings[job.id]
        body += ("\n", *call.say("queue.job", job=Strong(str(job.id))))
        if everybody:
            body += (f"{job.owner} · ",)
        if standing.job.state is JobState.PROCESSING:
            body += status.running(standing, None, call.language, previews=False).body
        else:
            body += status.waiting(standing, call.language)
    if len(jobs) > len(shown):
        body += ("\n", *call.say("queue.more", count=len(jobs) - len(shown)))
    return body


def _lines(call: Call, lines: list[ModelStatus]) -> Body:
    if not lines:
        return ()
    body: Body = ("\n\n", *call.say("queue.queues"))
    for model in lines[:_QUEUES_SHOWN]:
        counts = {"waiting": model.waiting, "running": model.running}
        body += ("\n", *call.say("queue.line", model=Strong(model.name), **counts))
        if model.reason is not None and model.waiting and status.tells(model.reason):
            body += (" · ", *because(model.reason, call.language))
    if len(lines) > _QUEUES_SHOWN:
        body += ("\n", *call.say("queue.more", count=len(lines) - _QUEUES_SHOWN))
    return body
