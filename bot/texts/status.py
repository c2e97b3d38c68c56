"""The text of a job's status message at each point of its life. Pure.

The chat message, the list of `/queue` and the transcript of the demo share these texts.
"""

from bot.core.content import Body, Content, Markdown, Moment, Period, ProgressBar
from bot.core.origin import ModelHint, Origin
from bot.texts import results
from bot.texts.catalogue import cost, join, say, word
from bot.texts.reasons import because
from bot.texts.refusals import told
from bot.texts.results import UNKNOWN, Abilities, Measures
from queueing.core.errors import Problem
from queueing.core.jobs import Job, JobState
from queueing.core.requests import (
    File,
    Generation,
    Output,
    Progress,
    Request,
    SpeechToText,
    TextToSpeech,
)
from queueing.core.snapshot import Reason, WaitCause, is_open_ended
from queueing.core.status import Estimate, Standing

CURSOR = " ▌"
"""Follows an answer that is still growing."""

PROMPT_SHOWN = 256
_AHEAD = (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9)

RESTS = frozenset(
    {WaitCause.QUIET, WaitCause.QUIET_SOON, WaitCause.YIELDING, WaitCause.WAKING, WaitCause.ASLEEP}
)
"""The reasons of hosts that are reserved for their owner, or asleep."""

# These reasons only repeat the first words of the message.
_SAID_ALREADY = frozenset({WaitCause.QUEUED, WaitCause.STARTING})


def waiting(standing: Standing, language: str, *, rarely: bool = False) -> Body:
    """Return the text of a waiting job: its place, the reason, and the estimate.

    A message that is edited `rarely` only states the most jobs ahead. That stays true while those
    jobs start, and when the job itself does.
    """
    job = standing.job
    reason = standing.reason
    already_said = not tells(reason)
    loads = reason is not None and reason.why is WaitCause.LOADING and standing.position == 1
    already_said |= loads
    if loads and not rarely:
        host = reason.host if reason is not None else None
        on = word(language, "reason.on", host=host) if host else ""
        body = say(language, "status.loading", model=job.model, on=on)
    elif standing.overflow:
        return join((*say(language, "status.overflow", model=job.model), *cost(job, language)))
    elif standing.position is None:
        body = say(language, "status.pending", model=job.model)
    elif rarely:
        count = next(each for each in _AHEAD if each >= standing.position - 1)
        key = "status.ahead" if count else "status.none_ahead"
        body = say(language, key, model=job.model, count=count)
    else:
        body = say(language, "status.queued", model=job.model, position=standing.position)
    if standing.ends is not None and not is_open_ended(reason):
        body += until(standing.ends, language)
    if reason is not None and not already_said:
        body += ("\n", *because(reason, language))
    if standing.overtaken and not rarely:
        body += ("\n", *say(language, "status.overtaken", count=standing.overtaken))
    return join((*body, *cost(job, language)))


def until(estimate: Estimate, language: str) -> Body:
    """Return when a job will probably end, in words that stay true until the latest moment."""
    if estimate.measured and estimate.soon:
        return say(language, "status.ends_soon", moment=Moment(estimate.latest))
    key = "status.ends" if estimate.measured else "status.ends_new"
    if estimate.late:
        key = "status.ends_late"
    return say(language, key, period=Period.around(estimate.earliest, estimate.latest))


def tells(reason: Reason | None) -> bool:
    """Return whether a reason adds anything to "other jobs come first"."""
    return reason is not None and reason.why not in _SAID_ALREADY


def near_model(near: ModelHint | None, language: str) -> Body:
    """Return a hint, on a new line, that a prompt's first word resembles a model's name."""
    if near is None:
        return ()
    return ("\n", *say(language, "hint.near_model", word=near.word, model=near.meant))


def running(
    standing: Standing, progress: Progress | None, language: str, *, previews: bool
) -> Content:
    """Return the message of a running job: its step, or the answer so far."""
    job = standing.job
    if progress is not None and progress.text:
        rows = results.while_open(job, language, writing=True)
        return Content(body=(Markdown(progress.text), CURSOR), buttons=rows)
    if progress is not None and progress.ahead:
        key = "status.behind_one" if progress.ahead == 1 else "status.behind"
        body = say(language, key, model=job.model, count=progress.ahead)
    else:
        body = say(language, results.at_work(job.request), model=job.model)
    body += _advance(progress, language)
    if standing.ends is not None:
        body += until(standing.ends, language)
    if job.attempt > 1:
        body += say(language, "status.attempt", attempt=job.attempt)
    shown = (progress.preview,) if previews and progress and progress.preview else ()
    rows = results.while_open(job, language)
    return Content(body=join(body), files=shown, buttons=rows, waits=True)


def writing(job: Job, content: Content, language: str) -> Content:
    """Return the message above an answer that is shown as a draft; it keeps the buttons."""
    body = say(language, results.at_work(job.request), model=job.model)
    return Content(body=body, buttons=content.buttons)


def _advance(progress: Progress | None, language: str) -> Body:
    if progress is None:
        return ()
    if progress.step is not None and progress.step[1] > 0:
        step, steps = progress.step
        fraction = step / steps if progress.fraction is None else progress.fraction
        return say(language, "status.step", step=step, steps=steps, bar=ProgressBar(fraction))
    if progress.fraction is not None:
        percent = int(progress.fraction * 100)
        return say(language, "status.percent", percent=percent, bar=ProgressBar(progress.fraction))
    return ()


def open_message(
    standing: Standing,
    progress: Progress | None,
    language: str,
    *,
    previews: bool,
    rarely: bool = False,
) -> Content:
    """Return the status message of an open job."""
    if standing.job.state is JobState.PROCESSING:
        return running(standing, progress, language, previews=previews)
    rows = results.while_open(standing.job, language)
    return Content(body=waiting(standing, language, rarely=rarely), buttons=rows, waits=True)


def failed(job: Job, language: str, written: str = "") -> Content:
    """Return the status message of a failed job.

    The answer `written` so far stays readable.
    """
    reason = (
        told(Problem.read(job.error), language) if job.error else word(language, "failed.unknown")
    )
    body = say(language, "status.failed", reason=reason)
    if written:
        body = (Markdown(written), "\n\n", *say(language, "status.broke_off"), "\n", *body)
    return Content(body=body, buttons=results.after_end(job, language))


def cancelled(job: Job, language: str, written: str = "") -> Content:
    """Return the status message of a cancelled job.

    The answer `written` so far stays readable.
    """
    body = say(language, "status.stopped" if written else "status.cancelled")
    if written:
        body = (Markdown(written), "\n\n", *body)
    return Content(body=body, buttons=results.after_end(job, language))


def forgotten(language: str) -> Content:
    """Return what replaces an open job's message once its owner had it deleted."""
    return Content(body=say(language, "status.forgotten"))


def result(
    job: Job,
    output: Output,
    language: str,
    *,
    files: tuple[File, ...],
    abilities: Abilities,
    measures: Measures = UNKNOWN,
    note: Body = (),
    hint: Body = (),
    seeded: bool = True,
    gallery: bool = False,
) -> Content:
    """Return the message of a completed job: its files with their facts, or its answer.

    `files` are those that fit the chat; `measures` describe the first. `note` states which files do
    not fit. `abilities` decide which buttons are shown. `hint` is shown only for generated files;
    for an answer it has served its purpose by then. `seeded` is whether the model takes a seed. In a
    `gallery` each image has a row of buttons.
    """
    facts = results.facts(job, language, _took(job, language), measures, seeded=seeded)
    body: Body = (*_words(job.request, output, language), *facts)
    if isinstance(job.request, Generation):
        body += hint
    if note:
        body += ("\n", *note)
    images = sum(file.mime.startswith("image/") for file in output.files)
    rows = results.of_result(job, language, abilities, images=images, gallery=gallery)
    sizes = () if measures.size is None else (measures.size,)
    return Content(
        body=join(body), files=files, buttons=rows, alt=shown_in(job.request), sizes=sizes
    )


def shown_in(request: Request) -> str:
    """Return what a request's images show: the prompt; "" for other results."""
    return (request.original or request.prompt) if isinstance(request, Generation) else ""


def _words(request: Request, output: Output, language: str) -> Body:
    """Return the text above the facts: the prompt, or the answer itself."""
    match request:
        case Generation():
            return _prompt(request, language)
        case TextToSpeech(text=text):
            return (shortened(text), "\n")
        case SpeechToText() if not output.text.strip():
            return (*say(language, "result.nothing_said"), "\n")
        case _:
            return (Markdown(output.text), "\n\n")


def _prompt(request: Generation, language: str) -> Body:
    """Return the original prompt, and below it the text model's version."""
    if not request.prompt:
        return ()  # a variation of a person's own image
    if request.original is None:
        return (shortened(request.prompt), "\n")
    better = say(language, "result.improved", prompt=shortened(request.prompt))
    return (shortened(request.original), "\n", *better, "\n")


def follows(job: Job, language: str) -> Content:
    """Return the message of a completed job before it shows the result, which an edit adds."""
    return Content(body=say(language, "status.follows", model=job.model))


def ping(job: Job, language: str, user_id: str, count: int = 1) -> Content:
    """Return the short message that follows a long wait, because edits send no notification.

    It announces `count` results, of which this job's is the last.
    """
    key = "ping.failed" if job.state is JobState.FAILED else results.ready(job.request)
    if count > 1:
        return Content(body=say(language, "ping.several", count=count), mention=user_id)
    return Content(body=say(language, key, model=job.model), mention=user_id)


def duration(language: str, seconds: float) -> str:
    """Return a duration as people read it, such as "12 s"; never "0 s"."""
    if seconds < 1:
        return word(language, "duration.none")
    return word(language, "duration.seconds", seconds=f"{seconds:.0f}")


def gigabytes(language: str, megabytes: float) -> str:
    """Return an amount of memory as people write it, without a needless decimal."""
    number = f"{megabytes / 1024:.1f}".removesuffix(".0")
    return number.replace(".", word(language, "number.point"))


def shortened(prompt: str, limit: int = PROMPT_SHOWN) -> str:
    """Return a prompt of at most `limit` characters, with an ellipsis if it was cut."""
    return prompt if len(prompt) <= limit else prompt[: limit - 1].rstrip() + "…"


def _took(job: Job, language: str) -> str:
    began = job.started_at or job.finished_at or 0.0
    return duration(language, (job.finished_at or 0.0) - began)


UNUSED_SHOWN = 200  # characters of the names of what has no effect
HEARD_SHOWN = 600  # characters of a transcript above its answer


def listening(
    question: Job, standing: Standing | None, progress: Progress | None, language: str
) -> Content:
    """Return the message of a question whose recording is being transcribed.

    `standing` is that of the transcription, None before it is accepted.
    """
    body = say(language, "recording.first", model=question.model)
    if standing is not None:
        body += ("\n", *_stands(standing, progress, language))
    return Content(body=join(body), buttons=results.while_open(question, language))


def reading(standing: Standing, language: str) -> Body:
    """Return the text below an answer while it is read aloud."""
    return join((*say(language, "aloud.reading"), " ", *_stands(standing, None, language)))


def _stands(standing: Standing, progress: Progress | None, language: str) -> Body:
    if standing.job.state is JobState.PROCESSING:
        return running(standing, progress, language, previews=False).body
    return waiting(standing, language)


def quoted(heard: str, language: str) -> str:
    """Return what was heard as a quotation, to put before its answer."""
    return word(language, "recording.heard", text=shortened(heard, HEARD_SHOWN))


def same_again(origin: Origin, language: str) -> Body:
    """Return the sentence about a repetition by a model that takes no seed."""
    return say(language, "result.same_again") if origin.same_again else ()


def incomplete(origin: Origin, language: str) -> Body:
    """Return the sentences about the inputs of which a part was not used."""
    lines: list[str] = []
    if origin.unused:
        names = shortened(", ".join(origin.unused), UNUSED_SHOWN)
        lines.append(word(language, "result.unused", names=names))
    recording = (word(language, "recording.itself"),) if origin.cut_recording else ()
    if names := ", ".join((*origin.cut, *recording)):
        lines.append(word(language, "result.cut", names=names))
    if origin.cut_answer:
        lines.append(word(language, "result.cut_answer"))
    if origin.may_be_cut:
        lines.append(word(language, "result.may_be_cut"))
    return ("\n".join(lines),) if lines else ()
