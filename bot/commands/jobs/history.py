"""`/history` lists the caller's jobs; `/show` sends a result again."""

from dataclasses import replace

from bot.commands.call.context import Call, Context, reply
from bot.commands.call.jobs import past_job
from bot.commands.call.submission import require_readers
from bot.core.answers import Answer, Reply, ResultReply
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Body, Button, Content, Moment, Strong
from bot.core.origin import Origin
from bot.core.panels import HistoryPanel, PastJobRow
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
    seen = _seen(context, call)
    body: Body = call.say("history.yours")
    for job in shown:
        body += ("\n", *_line(call, job, seen=seen))
    return Reply(content=Content(body=join(body), buttons=_buttons(call, shown, jobs)))


def _seen(context: Context, call: Call) -> bool:
    """Return whether images are shown openly in a chat."""
    invocation = call.invocation
    room = context.live.chat_settings.of(invocation.platform, invocation.places)
    rule = context.admission.rule
    return not (room.spoiler or rule.spoiler or (rule.private and invocation.group))


def _line(call: Call, job: Job, *, seen: bool) -> Body:
    return call.say(
        "history.line",
        job=Strong(str(job.id), job=job.id, has_image=_is_drawn(job) and seen),
        model=job.model,
        state=word(call.language, f"state.{job.state}"),
        prompt=prompt_of(job, call.language),
        moment=Moment(job.queued_at),
    )


def _is_drawn(job: Job) -> bool:
    return job.request.is_seen and job.state is JobState.COMPLETED


def _shows(job: Job) -> bool:
    """Return whether a job has a result, or an error, that can be shown again."""
    return job.state.final and job.state is not JobState.CANCELLED


def prompt_of(job: Job, language: str) -> str:
    """Return the words of a request on one short line."""
    prompt = status.shortened(" ".join(_request_text(job).split()), _PROMPT_SHOWN)
    return prompt or word(language, results.no_words(job.request))


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
        if _shows(job)
    ]
    rows = [tuple(show[at : at + _IN_ROW]) for at in range(0, len(show), _IN_ROW)]
    if len(jobs) > len(shown):
        older = word(call.language, "button.older")
        rows.append((Button(command="history", job_id=shown[-1].id, label=older),))
    return tuple(rows)


_PAGE = 30
_LOOKED_AT = 300  # jobs per search; the reader can go on from there


async def panel_history(context: Context, call: Call) -> HistoryPanel:
    """Return the caller's jobs before the one named, with all words of the call's text."""
    sought = call.invocation.text.casefold().split()
    jobs, before = await _found(context, call, sought)
    seen = _seen(context, call)
    return HistoryPanel(jobs=tuple(_past(call, job, seen=seen) for job in jobs), before=before)


async def _found(context: Context, call: Call, sought: list[str]) -> tuple[list[Job], int | None]:
    """Return jobs with all words sought, and where to go on."""
    user, before = call.invocation.user, call.whole("id")
    limit = _LOOKED_AT if sought else _PAGE + 1
    jobs = await context.queue.jobs.history(user, limit=limit, before=before)
    found: list[Job] = []
    for job in jobs:
        told = f"{job.model} {_request_text(job)}".casefold()
        if all(each in told for each in sought):
            found.append(job)
        if len(found) == _PAGE and job is not jobs[-1]:
            return found, job.id
    return found, jobs[-1].id if len(jobs) == limit else None


def _past(call: Call, job: Job, *, seen: bool) -> PastJobRow:
    return PastJobRow(
        job=job.id,
        model=job.model,
        state=job.state,
        state_words=word(call.language, f"state.{job.state}"),
        words=prompt_of(job, call.language),
        at=job.queued_at,
        has_image=_is_drawn(job) and seen,
        shows=_shows(job),
    )


SHOW = Command(
    name="show",
    help="command.show",
    topic=Topic.JOBS,
    params=(Param(name="id", kind=ParamKind.JOB, help="param.job", positional=True),),
)


COPY = Command(name="copy", help="command.copy", hidden=True, params=SHOW.params)


async def handle_copy(context: Context, call: Call) -> Answer:
    shown = await handle_show(context, call)
    return replace(shown, direct=True) if isinstance(shown, ResultReply) else shown


async def handle_show(context: Context, call: Call) -> Answer:
    job = await past_job(context, call)
    if job.state.final:
        require_readers(context, call)
        rights = context.access.counting(call.invocation.rights)
        origin = Origin.of(call.invocation, call.language, rights=rights)
        return ResultReply(job=job, origin=origin)
    # Its own message continues to be updated; this only shows the job's current state.
    standing = (await context.admission.shown.standings([job]))[job.id]
    content = status.open_message(standing, None, call.language, previews=False)
    return reply(content.body, buttons=content.buttons[0])
