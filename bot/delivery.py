"""Sends what an edit cannot carry: further parts of a result, pings, results brought back.

Each part is noted before it is sent and never blindly sent twice.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bot.parcels import Parcel, in_words
from bot.platforms.base import (
    ChatError,
    ChatPlatform,
    ChatUnavailable,
    Content,
    ContentRefused,
    Invocation,
    MessageRef,
    TooLarge,
)
from bot.records import Origin, Records
from bot.texts import status
from queueing.jobs import Job, JobState
from queueing.ports import Clock

log = logging.getLogger(__name__)

_PING = "ping"
_PING_AFTER_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where further messages go: beneath a status message.

    `turn` returns when the chat's budget has room for one more request, and takes it.
    """

    platform: ChatPlatform
    ref: MessageRef
    turn: Callable[[], Awaitable[None]]


class Courier:
    """Sends further parts, each once."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def send_rest(self, place: Place, job: Job, parcel: Parcel) -> bool:
        """Send the further parts; return whether each is known to be there.

        False when a part may or may not have been sent, now or before a crash. Raises `ChatError`
        when one surely was not sent: all may then be tried again.
        """
        for number, content in enumerate(parcel.rest, start=2):
            await self._send_once(place, job, f"part-{number}", content)
        return not (await self._records.unclear_parts(job.id) - {_PING})

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
            await self._send_once(place, job, _PING, content)
        except ChatError as error:
            log.info("job %s: no ping: %s", job.id, error)

    async def _send_once(self, place: Place, job: Job, part: str, content: Content) -> None:
        await place.turn()
        if not await self._records.begin_part(job.id, part, self._clock.now()):
            return
        try:
            message = await self._send(place, job, part, content)
        except ChatUnavailable as error:
            if not error.unclear:
                await self._records.drop_part(job.id, part)
                raise
            now = self._clock.now()
            await self._records.end_part(job.id, part, now, message=None, unclear=True)
            log.warning("job %s: %s may or may not have been sent", job.id, part)
            return
        except ChatError:
            await self._records.drop_part(job.id, part)
            raise
        await self._records.end_part(job.id, part, self._clock.now(), message=message)

    async def _send(self, place: Place, job: Job, part: str, content: Content) -> str | None:
        """Send a part; one that is refused goes as bare words, or not at all where it has none."""
        nonce = f"job-{job.id}-{part}"
        chat, ref = place.ref.chat, place.ref
        try:
            sent = await place.platform.send(chat, content, reply_to=ref, nonce=nonce)
        except (ContentRefused, TooLarge) as refusal:
            log.warning("job %s: %s was refused: %s", job.id, part, refusal)
            words = in_words(content)
            if not words.body or words == content:
                return None
            await place.turn()
            sent = await place.platform.send(chat, words, reply_to=ref, nonce=f"{nonce}-words")
        return sent.message
