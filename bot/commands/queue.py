"""`/queue`: the caller's jobs with place, reason and time, then the line of every busy model."""

from bot.commands.context import Answer, Call, Context, reply
from bot.commands.table import Command
from bot.platforms.base import Body, Button
from bot.texts import join, status, word
from queueing.jobs import JobState
from queueing.reports import ModelStatus

_JOBS_SHOWN = 10
_BUTTONS = 5
_LINES_SHOWN = 15

COMMAND = Command(name="queue", help="command.queue")


async def handle(context: Context, call: Call) -> Answer:
    jobs = await context.queue.open_jobs(call.invocation.user)
    standings = await context.queue.standings(jobs[:_JOBS_SHOWN])
    body: Body = call.say("queue.yours" if jobs else "queue.none_yours")
    for job in jobs[:_JOBS_SHOWN]:
        standing = standings.get(job.id)
        if standing is None:
            continue  # it ended between the two looks
        body += ("\n", *call.say("queue.job", job=job.id))
        if standing.job.state is JobState.PROCESSING:
            body += status.running(standing, None, call.language, previews=False).body
        else:
            body += status.waiting(standing, call.language)
    if len(jobs) > _JOBS_SHOWN:
        body += ("\n", *call.say("queue.more", count=len(jobs) - _JOBS_SHOWN))
    lines = [model for model in context.queue.models() if model.waiting or model.running]
    if not jobs and not lines:
        return reply(call.say("queue.empty"))
    body += _lines(call, lines)
    label = word(call.language, "button.cancel")
    buttons = [
        Button(command="cancel", job_id=job.id, label=f"{label} {job.id}")
        for job in jobs[:_BUTTONS]
    ]
    return reply(join(body), buttons=buttons)


def _lines(call: Call, lines: list[ModelStatus]) -> Body:
    if not lines:
        return ()
    body: Body = ("\n\n", *call.say("queue.lines"))
    for model in lines[:_LINES_SHOWN]:
        counts = {"waiting": model.waiting, "running": model.running}
        body += ("\n", *call.say("queue.line", model=model.name, **counts))
        if model.reason is not None and model.waiting:
            body += (" · ", status.because(model.reason, call.language))
    if len(lines) > _LINES_SHOWN:
        body += ("\n", *call.say("queue.more", count=len(lines) - _LINES_SHOWN))
    return body
