"""Places a request in the queue: the pictures it came with, its limits, its origin."""

from collections.abc import Sequence
from dataclasses import replace

from bot.chat.api.attachment_kinds import AttachmentKind
from bot.chat.api.base import Attachment
from bot.chat.api.content import Moment
from bot.chat.api.errors import ChatError
from bot.chat.api.origin import Origin
from bot.chat.commands.context import Call, CallRefused, Context
from bot.chat.commands.jobs import drawn_pictures, replied_job
from bot.chat.commands.misspelt import near_model
from bot.chat.commands.parse import BadCall, clean
from bot.chat.texts import Value, status
from bot.people.access import free_again_at
from bot.requests.conversation import remembered_by
from bot.requests.images import BadPicture, checked
from bot.requests.text_files import MOST_BYTES, BadTextFile, decoded
from queueing.core.errors import LimitReached
from queueing.core.jobs import Job, NewJob
from queueing.core.ports import Admission
from queueing.core.requests import Chat, File, TextToImage

_SHARE_TO_CLEAR = 0.1  # of a full line; coming back for its first free place is a race
_NAME_SHOWN = 80
PICTURE_MB = 20  # what Telegram lets a bot download; the same everywhere


async def pictures(call: Call, of: Sequence[Attachment] | None = None) -> tuple[File, ...]:
    """Return the attached pictures, or those `of` them, checked. Raises `BadCall`.

    The size is checked before anything is downloaded, the format and the number of pixels before
    anything is decoded. One person's files in one chat are read one after the other.
    """
    files = call.invocation.files if of is None else of
    attached = [file for file in files if file.kind is AttachmentKind.PICTURE]
    if attached:
        await call.turn()
    return tuple([await _picture(each) for each in attached])


async def meant_pictures(context: Context, call: Call, *, most: int) -> tuple[File, ...]:
    """Return the attached pictures, or else those of the result that is replied to.

    Raises `BadCall` for unusable ones and where there is none.
    """
    files = await pictures(call)
    if not files and (job := await replied_job(context, call)) is not None:
        files = (await drawn_pictures(context, job))[:most]
    if not files:
        raise BadCall("problem.no_picture")
    return files


async def words(call: Call, limit: int) -> str:
    """Return what the attached text files say, each under its name, within `limit` characters.

    Raises `BadCall`.
    """
    texts = []
    for attached in call.invocation.files:
        if attached.kind is not AttachmentKind.TEXT:
            continue
        name = clean(attached.name)[:_NAME_SHOWN]
        if attached.size > MOST_BYTES:
            raise BadCall("problem.text_bytes", name=name, limit=MOST_BYTES // 1000)
        await call.turn()
        try:
            text = clean(decoded(await _read(attached)))
        except BadTextFile as bad:
            raise BadCall(bad.key, name=name, limit=MOST_BYTES // 1000) from bad
        texts.append(f"{name}\n{text}")
    together = "\n\n".join(texts)
    if len(together) > limit:
        raise BadCall("problem.text_too_long", length=len(together), limit=limit)
    return together


async def _read(attached: Attachment) -> bytes:
    try:
        return await attached.read()
    except ChatError as error:
        raise BadCall("problem.picture_unreadable") from error


async def _picture(attached: Attachment) -> File:
    _check_size(attached.size)
    data = await _read(attached)
    _check_size(len(data))
    try:
        return await checked(data)
    except BadPicture as bad:
        raise BadCall(bad.key, limit=bad.limit) from bad


def _check_size(size: int) -> None:
    if size > PICTURE_MB * 1_000_000:
        raise BadCall("problem.picture_bytes", size=size // 1_000_000, limit=PICTURE_MB)


async def place(
    context: Context,
    call: Call,
    model: str,
    request: TextToImage | Chat,
    files: tuple[File, ...] = (),
    *,
    hold_s: float = 0.0,
    earlier: Job | None = None,
) -> Job:
    """Accept a request durably, or raise `Refused` or `CallRefused`.

    A repeated call returns the same job and costs nothing more. With `hold_s` the job may start
    only that many seconds later, or when its prompt has been improved. What the caller sent here
    earlier is accepted first. `earlier` is the job whose conversation the request goes on with, or
    repeats.
    """
    await call.turn()
    room = context.rooms.of(call.invocation.platform, call.invocation.places)
    if (unwanted := room.unwanted(_words(request))) is not None:
        raise CallRefused("refused.word", word=unwanted)
    near = await near_model(context, call, request)
    new = NewJob(
        model=model,
        request=request,
        files=files,
        owner=call.invocation.user,
        reply_to=Origin.of(call.invocation, call.language, near).model_dump_json(),
        key=call.invocation.key,
        hold_s=hold_s,
        remembered_by=remembered_by(earlier, context.catalog.find(model)),
    )
    async with context.people.turn(new.owner):
        return await _submit(context, call, new)


async def _submit(context: Context, call: Call, new: NewJob) -> Job:
    """Accept a job within its owner's limits. Raises as `place`."""
    now = context.clock.now()
    limits = context.access.limits_of(call.person, call.invocation.rights)
    spent = await context.people.spent(new.owner, now)
    free_at = free_again_at(spent, limits.per_hour, now)
    if free_at is not None:
        raise CallRefused("refused.quota", limit=limits.per_hour or 0, moment=Moment(free_at))
    size = sum(len(file.data) for file in new.files)
    if context.received is not None:
        fits_at = context.received.fits_at(new.owner, size)
        if fits_at is not None:
            raise CallRefused("refused.files", moment=Moment(fits_at))
    admission = Admission(max_open=limits.open_per_person, max_in_line=limits.in_line_per_person)
    try:
        job = await context.queue.submit(replace(new, lane=limits.lane), limits=admission)
    except LimitReached as refusal:
        if refusal.scope == "line":
            raise _full(context, new.model, refusal) from None
        raise await _too_many(context, new.owner, refusal) from None
    if context.received is not None:
        context.received.note(new.owner, size)
    await context.people.spend(new.owner, job.id, now)
    return job


async def _too_many(context: Context, owner: str, refusal: LimitReached) -> Exception:
    """Return the refusal of one job too many, with when the next of the person's should end."""
    standings = await context.queue.standings(await context.queue.open_jobs(owner))
    ends = [
        each.done_at
        for each in standings.values()
        if each.done_at is not None and not status.open_ended(each.reason)
    ]
    if not ends:
        return refusal
    told: dict[str, Value] = {"limit": refusal.limit, "moment": Moment(min(ends))}
    return CallRefused("refused.limit_owner_until", **told)


def _full(context: Context, model: str, refusal: LimitReached) -> CallRefused:
    """Return the refusal of a full line, with when a tenth of it will have been done."""
    spec = context.catalog.find(model)
    status = next(each for each in context.queue.models() if spec and each.name == spec.name)
    told: dict[str, str | int] = {"model": status.name, "limit": refusal.limit}
    if status.next_done_at is None:
        return CallRefused("refused.line_stands", **told)
    now = context.clock.now()
    again_at = now + (status.next_done_at - now) * _SHARE_TO_CLEAR
    return CallRefused("refused.line_full", **told, moment=Moment(again_at))


def _words(request: TextToImage | Chat) -> tuple[str | None, ...]:
    """Return what a person said now; earlier turns of a conversation were looked at before."""
    match request:
        case TextToImage():
            return request.prompt, request.negative
        case Chat():
            return (request.messages[-1].text,)
