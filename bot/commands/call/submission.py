"""What commands that submit a job share: they identify the caller and return the outcome.

The first word of a prompt may be a misspelt model name. It stays in the prompt, because it may be
meant literally and a job should get its place without a question. The job's message mentions it
once.
"""

from collections.abc import Mapping, Sequence

from bot.commands.call.context import Call, Context
from bot.commands.call.options import due_at, is_later
from bot.core.answers import AcceptedJob
from bot.core.attachments import SPOKEN
from bot.core.command import ParamKind
from bot.core.origin import ModelHint, Origin
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.creation import Creation, require_taken
from bot.requests.limits import SubmissionDetails
from queueing.core.jobs import Job
from queueing.core.requests import Capability, File, Generation, Request, TextToImage

_WITHOUT_FILES = {
    Capability.VISION: Capability.TEXT_TO_TEXT,
    Capability.IMAGE_TO_IMAGE: Capability.TEXT_TO_IMAGE,
}
"""Weaker capabilities, for hints: the person may have meant a model that takes no files."""
_LOOKED_AT = 20  # of the person's latest jobs


async def asking(
    context: Context,
    call: Call,
    needs: Capability,
    *,
    cut: Sequence[str] = (),
    same_again: bool = False,
    unused: Sequence[str] = (),
) -> SubmissionDetails:
    """Return a call's details for a submission, once everything sent before it is accepted.

    `cut` names the documents of which only the beginning is used. `same_again` is whether a
    repeated request may give the same result. `unused` names the parameters in a prompt that have
    no effect. Raises `Declined` where the result could not be shown.
    """
    invocation = call.invocation
    if invocation.lacks:
        raise Declined(Refusal(RefusalKind.CHAT_CLOSED, rights=", ".join(invocation.lacks)))
    require_readers(context, call)
    await call.turn()
    settings = context.live.chat_settings.of(invocation.platform, invocation.places)
    near = await _near_model(context, call, needs)
    aloud = bool(call.person.aloud) and any(file.kind in SPOKEN for file in invocation.files)
    origin = Origin.of(
        invocation,
        call.language,
        near,
        aloud=aloud,
        cut=tuple(cut),
        same_again=same_again,
        unused=tuple(unused),
        rights=context.access.counting(invocation.rights),
    )
    return SubmissionDetails(
        person=call.person,
        rights=frozenset(invocation.rights),
        unwanted=settings.words,
        key=invocation.key,
        reply_to=origin.model_dump_json(),
        later=is_later(call),
        due_at=due_at(call, context.clock.now(), context.access.zone),
    )


def require_readers(context: Context, call: Call) -> None:
    """Refuse to show a result to a group if the caller's rule keeps it private.

    Raises `Declined`.
    """
    if context.admission.rule.private and call.invocation.group:
        raise Declined(Refusal(RefusalKind.PRIVATE_ONLY))


async def repeated(
    context: Context, call: Call, job: Job, request: Request, *, unused: Sequence[str] = ()
) -> AcceptedJob:
    """Submit a job again with its files, with `request` in place of its request.

    It goes to the job's model unless the call names another. `unused` names the parameters in its
    prompt that have no effect. Raises `Declined` and `Refused`.
    """
    files = await context.queue.jobs.inputs(job)
    if files is None or (not files and job.request.needs_files):
        raise Declined(Refusal(RefusalKind.FILES_GONE, job=job.id))
    able = request.needs(has_files=bool(files))
    named = call.text("model")
    model = job.model if named is None else context.admission.require(named, able).name
    seeded = context.queue.models.offer.honours(model, "seed")
    same = not seeded and model == job.model and _but_for_its_seed(request, job.request)
    by = await asking(context, call, able, same_again=same, unused=unused)
    return placed(await context.admission.submit(by, model, request, files, earlier=job))


def _but_for_its_seed(request: Request, other: Request) -> bool:
    if not isinstance(request, Generation) or not isinstance(other, Generation):
        return False
    return bool(request.model_copy(update={"seed": other.seed}) == other)


async def create(context: Context, call: Call, needs: Capability, drawing: Creation) -> AcceptedJob:
    """Submit a request for an image, a video or music. Raises `Declined`.

    The message of its job names what has no effect among the parameters in the prompt.
    """
    drawing, unused = context.admission.understood(call.person, drawing)
    by = await asking(context, call, needs, unused=unused)
    return placed(await context.admission.draw(by, drawing))


async def draw(
    context: Context, call: Call, model: str, request: TextToImage, files: tuple[File, ...] = ()
) -> AcceptedJob:
    """Submit an image request as it is. Raises `Declined`."""
    by = await asking(context, call, request.needs(has_files=bool(files)))
    return placed(await context.admission.submit(by, model, request, files))


async def submitted(
    context: Context,
    call: Call,
    request: Request,
    files: tuple[File, ...] = (),
    *,
    options: Mapping[str, object],
) -> AcceptedJob:
    """Submit a request to the named model, or else the default one.

    `options` are those the person gave; one that the model would ignore is refused. Raises
    `Declined` and `Refused`.
    """
    able = request.needs(has_files=bool(files))
    named = call.text("model") or context.admission.usual_model(call.person, able)
    model = context.admission.require(named, able).name
    takes = context.queue.models.offer.options_of(model)
    require_taken(options, type(request), model, takes)
    by = await asking(context, call, able)
    return placed(await context.admission.submit(by, model, request, files))


def placed(outcome: Job | Refusal) -> AcceptedJob:
    """Return the answer to a call that submitted a job. Raises `Declined`."""
    if not isinstance(outcome, Job):
        raise Declined(outcome)
    return AcceptedJob(job=outcome)


# ---------------------------------------------------------------- a model that was perhaps meant


async def _near_model(context: Context, call: Call, needs: Capability) -> ModelHint | None:
    """Return the model that the first typed word resembles; None if no hint is needed."""
    text = _prompt(context, call)
    word = text.split(maxsplit=1)[0] if text else ""
    meant = context.catalog.misspelt(word, _WITHOUT_FILES.get(needs, needs))
    if meant is None or await _used_before(context, call.invocation.user, word):
        return None
    return ModelHint(word=word, meant=meant)


def _prompt(context: Context, call: Call) -> str:
    """Return the text that was typed where a model could come first; "" for other calls."""
    if call.invocation.options or call.text("model") is not None:
        return ""
    command = next(each for each in context.commands if each.name == call.invocation.command)
    positional = {param.kind: param.name for param in command.params if param.positional}
    if ParamKind.MODEL not in positional:
        return ""
    return call.text(positional.get(ParamKind.TEXT, "")) or ""


async def _used_before(context: Context, user: str, word: str) -> bool:
    """Return whether the person recently began a prompt with this word, so it is no typo."""
    jobs = await context.queue.jobs.history(user, limit=_LOOKED_AT)
    return any(job.request.words.casefold().startswith(word.casefold()) for job in jobs)
