"""Packs a job's end into what a chat can show, and sends what an edit cannot carry.

The end itself is an edit of the status message and may be repeated. Further texts, albums and
pings are new messages: each is noted before it is sent and never blindly sent twice.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bot.buttons import abilities_of
from bot.pictures import dimensions, fitted
from bot.platforms.base import (
    Body,
    ChatError,
    ChatPlatform,
    ChatUnavailable,
    Content,
    Invocation,
    Limits,
    Markdown,
    MessageRef,
    SlowDown,
)
from bot.records import Origin, Records
from bot.texts import plain, say, status
from bot.texts.split import pages, utf16_length
from queueing.jobqueue import JobQueue
from queueing.jobs import Job, JobState
from queueing.ports import Clock
from queueing.requests import File, Output

log = logging.getLogger(__name__)

_PING_AFTER_S = 60.0
_PAGES = 4  # longer answers come as a file as well
_KEPT_DAYS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where further messages go: beneath a status message.

    `turn` returns when the chat's budget has room for one more request, and takes it.
    """

    platform: ChatPlatform
    ref: MessageRef
    turn: Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """What the status message becomes, and what follows it in messages of their own."""

    content: Content
    rest: tuple[Content, ...] = ()


class Courier:
    """Makes parcels and sends their further parts."""

    def __init__(self, queue: JobQueue, records: Records, clock: Clock) -> None:
        self._queue = queue
        self._records = records
        self._clock = clock

    async def pack(self, job: Job, origin: Origin, limits: Limits, written: str = "") -> Parcel:
        """Return what an ended job's owner is shown; `written` is as far as an answer had come."""
        language = origin.language
        match job.state:
            case JobState.FAILED:
                return Parcel(content=status.failed(job, language))
            case JobState.CANCELLED:
                return self._pack_text(
                    status.cancelled(job, language, written), written, limits, language
                )
        output = await self._queue.output(job)
        if output is None:
            body = say(language, "status.gone", job=job.id, days=_KEPT_DAYS)
            return Parcel(content=Content(body=body))
        return await self._pack_output(job, output, language, limits)

    async def _pack_output(self, job: Job, output: Output, language: str, limits: Limits) -> Parcel:
        files, note = await self._fit_files(output.files, limits, language)
        size = await dimensions(output.files[0]) if output.files else None
        content = status.result(
            job,
            output,
            language,
            files=files[: limits.files_per_edit],
            abilities=abilities_of(job, self._queue.catalog),
            size=size,
            note=note,
        )
        parcel = self._pack_text(content, output.text, limits, language)
        if len(files) > limits.files_per_edit:
            further = Content(files=files[limits.files_per_edit :])
            return replace(parcel, rest=(*parcel.rest, further))
        return parcel

    def _pack_text(self, content: Content, text: str, limits: Limits, language: str) -> Parcel:
        room = limits.caption if content.files else limits.text
        if _length(content.body) <= room:
            return Parcel(content=content)
        first, rest = self._paged(content, text, room, language)
        return Parcel(content=first, rest=tuple(rest))

    async def _fit_files(
        self, files: tuple[File, ...], limits: Limits, language: str
    ) -> tuple[tuple[File, ...], Body]:
        made = [(file, await fitted(file, limits.upload)) for file in files]
        fitting = tuple(file for _, file in made if file is not None)
        if len(fitting) < len(files):
            lost = len(files) - len(fitting)
            return fitting, say(language, "result.files_left_out", count=lost)
        if any(file is not original for original, file in made):
            return fitting, say(language, "result.smaller")
        return fitting, ()

    def _paged(
        self, content: Content, text: str, room: int, language: str
    ) -> tuple[Content, list[Content]]:
        """Split a long answer over several messages; a very long one comes as a file as well."""
        facts = tuple(part for part in content.body if not isinstance(part, Markdown))
        parts = pages(text, room - _length(facts) - 40)
        if len(parts) <= _PAGES:
            first = replace(content, body=(Markdown(parts[0]), "\n", *_more(language)))
            following = [Content(body=(Markdown(part),)) for part in parts[1:-1]]
            following.append(Content(body=(Markdown(parts[-1]), *facts)))
            return first, following
        whole = File(name="answer.md", mime="text/markdown", data=text.encode())
        cut = say(language, "status.cut")
        return (
            replace(
                content,
                body=(Markdown(parts[0]), "\n", *cut, *facts),
                files=(*content.files, whole),
            ),
            [],
        )

    def last_page(self, content: Content, limits: Limits) -> Content:
        """Return an open job's message with a growing answer cut to its newest part."""
        return self._page(content, limits, -1)

    def first_page(self, content: Content, limits: Limits) -> Content:
        """Return a message cut to what the chat can show at once."""
        return self._page(content, limits, 0)

    def _page(self, content: Content, limits: Limits, index: int) -> Content:
        room = (limits.caption if content.files else limits.text) - 8
        if _length(content.body) <= room:
            return content
        answers = [part.text for part in content.body if isinstance(part, Markdown)]
        if answers:
            return replace(content, body=(Markdown(pages(answers[0], room)[index]),))
        return replace(content, body=(pages(plain(content.body), room)[index],))

    async def send_rest(self, place: Place, job: Job, parcel: Parcel) -> None:
        """Send the further parts, each once. Raises `ChatError` when one surely was not sent."""
        for number, content in enumerate(parcel.rest, start=2):
            await self._send_once(place, job, f"part-{number}", content)

    async def send_again(
        self,
        call: Invocation,
        platform: ChatPlatform,
        parcel: Parcel,
        job: Job,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        """Answer a call with an ended job: fresh messages with its result and buttons.

        Raises `ChatError`; what has been sent by then stays.
        """
        first = replace(parcel.content, files=())
        ref = await call.respond(first, False)
        if ref is None:
            await turn()
            ref = await platform.send(call.chat, first, reply_to=call.request)
        await self._records.note_again(job.id, ref, self._clock.now())
        if parcel.content.files:
            await turn()
            await platform.edit(ref, parcel.content)
        for content in parcel.rest:
            await turn()
            await platform.send(ref.chat, content, reply_to=ref)

    async def ping(self, place: Place, job: Job, origin: Origin) -> None:
        """Tell a person who waited long that the job has ended; a lost ping is not repeated."""
        waited = (job.finished_at or job.queued_at) - job.queued_at
        if waited < _PING_AFTER_S or job.state is JobState.CANCELLED:
            return
        user_id = origin.user.partition(":")[2]
        content = status.ping(job, origin.language, user_id)
        try:
            await self._send_once(place, job, "ping", content)
        except ChatError as error:
            log.info("job %s: no ping: %s", job.id, error)

    async def _send_once(self, place: Place, job: Job, part: str, content: Content) -> None:
        await place.turn()
        if not await self._records.begin_part(job.id, part, self._clock.now()):
            return
        try:
            sent = await place.platform.send(
                place.ref.chat, content, reply_to=place.ref, nonce=f"job-{job.id}-{part}"
            )
        except ChatUnavailable as error:
            if error.unclear:
                now = self._clock.now()
                await self._records.end_part(job.id, part, now, message=None, unclear=True)
                log.warning("job %s: %s may or may not have been sent", job.id, part)
                return
            await self._records.drop_part(job.id, part)
            raise
        except SlowDown:
            await self._records.drop_part(job.id, part)
            raise
        await self._records.end_part(job.id, part, self._clock.now(), message=sent.message)


def _length(body: Body) -> int:
    return utf16_length(plain(body))


def _more(language: str) -> Body:
    return say(language, "status.continued")
