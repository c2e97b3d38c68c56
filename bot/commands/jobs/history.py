"""`/history` lists the caller's jobs; `/show` sends a result again."""

from bot.commands.call.context import Call, Context, reply
from bot.commands.call.jobs import past_job
from bot.core.answers import Answer, Reply, ResultReply
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Body, Button, Content, Moment, Strong
from bot.core.origin import Origin
from bot.texts import results, status
from bot.texts.catalogue import join, word
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat

_SHOWN = 10
_IN_ROW = 5
_PROMPT_SHOWN = 60

HISTORY = Command(
    name="history",
    help="command.history",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.older_than", positional=True),),
)


async def handle_history(context: Context, call: Call) -> Answer:
    user, before = call.invocation.user, call.whole("id")
    jobs = await context.queue.jobs.history(user, limit=_SHOWN + 1, before=before)
    if not jobs:
        if before is not None:
            return reply(call.say("history.none_before", job=before))
        return reply(call.say("history.none"))
    shown = jobs[:_SHOWN]
    hidden = context.live.chat_settings.of(call.invocation.platform, call.invocation.places).spoiler
    body: Body = call.say("history.yours")
    for job in shown:
        body += ("\n", *_line(call, job, seen=not hidden))
    return Reply(content=Content(body=join(body), buttons=_buttons(call, shown, jobs)))


def _line(call: Call, job: Job, *, seen: bool) -> Body:
    drawn = job.request.is_seen and job.state is JobState.COMPLETED
    prompt = status.shortened(" ".join(_request_text(job).split()), _PROMPT_SHOWN)
    return call.say(
        "history.line",
        job=Strong(str(job.id), job=job.id, has_image=drawn and seen),
        model=job.model,
        state=word(call.language, f"state.{job.state}"),
        prompt=prompt or word(call.language, results.no_words(job.request)),
        moment=Moment(job.queued_at),
    )


def _request_text(job: Job) -> str:
    """Return the words of a request, without the text or files a question was about."""
    text = job.request.words
    if not isinstance(job.request, Chat):
        return text
    own = "\n".join(line for line in text.splitlines() if not line.startswith(">"))
    return own.strip() or text


def _buttons(call: Call, shown: list[Job], jobs: list[Job]) -> tuple[tuple[Button, ...], ...]:
    """Return a button for each job that has a result, and one for the next page."""
    label = word(call.language, "button.show")
    show = [
        Button(command="show", job_id=job.id, label=f"{label} {job.id}")
        for job in shown
        if job.state.final and job.state is not JobState.CANCELLED
    ]
    rows = [tuple(show[at : at + _IN_ROW]) for at in range(0, len(show), _IN_ROW)]
    if len(jobs) > len(shown):
        older = word(call.language, "button.older")
        rows.append((Button(command="history", job_id=shown[-1].id, label=older),))
    return tuple(rows)


SHOW = Command(
    name="show",
    help="command.show",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


async def handle_show(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    if job.state.final:
        return ResultReply(job=job, origin=Origin.of(call.invocation, call.language))
    # Its own message continues to be updated; this only shows the job's current state.
    standing = (await context.queue.status.standings([job]))[job.id]
    content = status.open_message(standing, None, call.language, previews=False)
    return reply(content.body, buttons=content.buttons[0])
