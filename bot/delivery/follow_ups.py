"""Sends messages that an edit cannot carry: further parts of a result, pings, results shown again.

Each part is recorded before it is sent, so a crash never makes it go out twice.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bot.core.content import Content
from bot.core.errors import ChatError, ChatUnavailable, ContentRefused, TooLarge
from bot.core.origin import Origin
from bot.core.platform import ChatPlatform, MessageRef
from bot.delivery.channels import Channels, Turn
from bot.delivery.records import MessageRecords
from bot.delivery.result_renderer import RenderedResult, in_words
from bot.texts import status
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

_PING = "ping"
_PING_AFTER_S = 60.0
PING_WITHIN_S = 30.0  # after the result; a later ping would surprise those who have seen it


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where further messages go: below a status message, each in its own turn of the chat.

    `removed` returns whether that message is being deleted; nothing goes below it then.
    """

    platform: ChatPlatform
    ref: MessageRef
    channels: Channels
    removed: Callable[[], bool]

    def turn(self, *, burst: bool = False, upload: bool = False) -> Turn:
        """Return a turn for one more request."""
        return self.channels.turn(self.ref.platform, self.ref.chat, burst=burst, upload=upload)


AnswerCall = Callable[[Content], Awaitable[MessageRef | None]]
"""Answers a call with a message.

Returns None if that message cannot be edited. Raises `ChatError`.
"""

Post = Callable[[Content, MessageRef | None], Awaitable[MessageRef]]
"""Posts a message as a reply to another, or to the caller's if None. Raises `ChatError`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """The three ways to show an ended job again in answer to a call."""

    respond: AnswerCall
    send: Post
    edit: Callable[[MessageRef, Content], Awaitable[None]]


def deserves_ping(job: Job) -> bool:
    """Return whether a person waited more than a minute for the job's end."""
    waited = (job.finished_at or job.queued_at) - job.queued_at
    return waited >= _PING_AFTER_S and job.state is not JobState.CANCELLED


class FollowUps:
    """Sends further messages; each part of a result at most once."""

    def __init__(self, records: MessageRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def send_rest(self, place: Placement, job: Job, rendered: RenderedResult) -> bool:
        """Send the further parts. Returns whether all of them are known to have arrived.

        Returns False when a part may or may not have been sent, in this try or before a crash.
        Raises `ChatError` when a part was certainly not sent; all parts may then be tried again.
        """
        if not rendered.rest:
            return True
        for number, content in enumerate(rendered.rest, start=2):
            await self._send_once(place, job, f"part-{number}", content)
        return not (await self._records.unclear_parts(job.id) - {_PING})

    async def send_again(self, place: Again, rendered: RenderedResult, job: Job) -> None:
        """Answer a call with an ended job: new messages with its result and buttons.

        Raises `ChatError`; parts already sent stay.
        """
        first = replace(rendered.content, files=())
        ref = await place.respond(first)
        if ref is None:
            ref = await place.send(first, None)
        await self.shown_again(job, ref, rendered.content)
        if rendered.content.files:
            await place.edit(ref, rendered.content)
        for content in rendered.rest:
            await self.shown_again(job, await place.send(content, ref), content)

    async def shown_again(self, job: Job, ref: MessageRef, content: Content) -> None:
        """Record a message that shows an ended job again, so that replies to it are understood."""
        await self._records.note_again(job.id, ref, self._clock.now(), content.number)

    async def ping(self, place: Placement, job: Job, origin: Origin, count: int) -> None:
        """Notify a person that a job has ended, the last of `count`. A lost ping is not resent."""
        user_id = origin.user.partition(":")[2]
        content = status.ping(job, origin.language, user_id, count)
        try:
            await self._send_once(place, job, _PING, content)
        except ChatError as error:
            log.info("job %s: the ping was not sent: %s", job.id, error)

    async def _send_once(self, place: Placement, job: Job, part: str, content: Content) -> None:
        """Send a part. A refused part is resent as plain text, or dropped if it has no text.

        A part belongs to the message just shown, so it follows at once if the chat allows.
        """
        async with place.turn(burst=True, upload=bool(content.files)):
            if place.removed() or not await self._records.begin_part(
                job.id, part, self._clock.now()
            ):
                return
            refused = await self._attempt(place, job, part, content)
        words = in_words(content)
        if refused and words.body and words != content:
            async with place.turn():
                refused = await self._attempt(place, job, part, words, nonce="-words")
        if refused:
            await self._end(job, part, None)

    async def _attempt(
        self, place: Placement, job: Job, part: str, content: Content, *, nonce: str = ""
    ) -> bool:
        """Send a part and record the outcome. Returns whether the chat refused it."""
        try:
            sent = await place.platform.send(
                place.ref.chat,
                content,
                reply_to=place.ref,
                nonce=f"job-{job.id}-{part}{nonce}",
            )
        except (ContentRefused, TooLarge) as refusal:
            log.warning("job %s: the chat refused %s: %s", job.id, part, refusal)
            return True
        except ChatUnavailable as error:
            if not error.unclear:
                await self._records.drop_part(job.id, part)
                raise
            await self._end(job, part, None, unclear=True)
            log.warning("job %s: %s may or may not have been sent", job.id, part)
        except ChatError:
            await self._records.drop_part(job.id, part)
            raise
        else:
            number = content.number if content.files else None
            await self._end(job, part, sent.message, number=number)
            await self._records.note_others(job.id, sent, self._clock.now(), number)
            for each in (sent.message, *sent.others) if place.removed() else ():
                await place.platform.delete(replace(sent, message=each))
        return False

    async def _end(
        self,
        job: Job,
        part: str,
        message: str | None,
        *,
        number: int | None = None,
        unclear: bool = False,
    ) -> None:
        now = self._clock.now()
        await self._records.end_part(
            job.id, part, now, message=message, number=number, unclear=unclear
        )
