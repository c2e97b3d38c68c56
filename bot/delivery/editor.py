"""Brings one job's status message up to date: decides what it shows, and sends or edits it.

Where a repeated send could show a job's result twice, the result is shown by editing its message,
which is safe to repeat after any crash. Failures are raised as `ChatError`; the caller decides when
to retry.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from bot.core.content import Body, Button, Content
from bot.core.errors import (
    ChatGone,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.core.live_settings import LiveSettings
from bot.core.platform import ChatPlatform, MessageRef
from bot.core.queue import Deliveries, JobReader, ModelReader, QueueStatus
from bot.delivery.channels import Channels, TurnOutcome
from bot.delivery.follow_ups import PING_WITHIN_S, FollowUps, Placement, deserves_ping
from bot.delivery.records import MessageRecords
from bot.delivery.result_renderer import Fallback, RenderedResult, ResultRenderer
from bot.delivery.spoken_answers import SpokenAnswer, SpokenAnswers
from bot.delivery.standings import StandingReader
from bot.delivery.status_message import StatusMessage
from bot.monitoring.delivery_meter import DeliveryMeter, counted
from bot.requests import recordings
from bot.texts import status
from bot.texts.busy_queues import busy_queue
from bot.texts.catalogue import join, word
from bot.texts.paging import is_long, last_page
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock
from queueing.core.requests import TextToImage, TextToVideo
from queueing.core.specs import sides
from queueing.core.status import Standing

log = logging.getLogger(__name__)

_AGAIN_S = 1.0  # before a first message that waits for its job's end is checked again


@dataclass(kw_only=True, eq=False, repr=False)
class Editor:
    """Draws and edits status messages, on every platform."""

    deliveries: Deliveries
    models: ModelReader
    status: QueueStatus
    records: MessageRecords
    platforms: Mapping[str, ChatPlatform]
    clock: Clock
    channels: Channels
    inquiry: StandingReader
    renderer: ResultRenderer
    extra_messages: FollowUps
    jobs: JobReader
    readings: SpokenAnswers | None = None
    meter: DeliveryMeter
    live: LiveSettings

    def draw(self, message: StatusMessage, standing: Standing) -> Content:
        """Return the content to show for an open job."""
        rarely = self.channels.of(message).edits_rarely(standing.position)
        shown = replace(standing, starts=None)  # no message shows it
        of = (shown, message.progress, bool(message.written), message.origin, rarely)
        if message.drawn is None or message.drawn[0] != of:  # usually nothing has changed
            message.drawn = of, self._draw(message, standing, rarely=rarely)
        return message.drawn[1]

    def _draw(self, message: StatusMessage, standing: Standing, *, rarely: bool) -> Content:
        limits = self._platform(message).limits
        if recordings.unheard(message.job):
            mine = standing if message.step is not None else None
            content = status.listening(message.job, mine, message.progress, message.origin.language)
        else:
            content = status.open_message(
                standing,
                message.progress,
                message.origin.language,
                previews=limits.previews,
                rarely=rarely,
            )
        if content.waits:
            content = replace(content, sizes=self._sizes(message.job))
        if not message.written:
            language = message.origin.language
            hint = status.near_model(message.origin.near, language)
            told = status.incomplete(message.origin, language)
            body = join((*content.body, *hint, *(("\n", *told) if told else ())))
            content = content if body == content.body else replace(content, body=body)
        return self.renderer.hidden(message.job, message.origin, last_page(content, limits))

    def _sizes(self, job: Job) -> tuple[tuple[int, int], ...]:
        """Return the sizes of the images or the video that an open job will probably make."""
        request = job.request
        if not isinstance(request, TextToImage | TextToVideo):
            return ()
        width, height = sides(request, self.models.offer.usual.get(job.model, {}))
        count = request.count if isinstance(request, TextToImage) else 1
        return ((round(width), round(height)),) * count

    async def refresh(self, message: StatusMessage) -> bool:
        """Make a message show its job's present state. Returns whether nothing more is to be shown.

        Raises `ChatError`, `StoreError`.
        """
        if message.ping_by is not None:
            await self._ping(message, message.ping_by)
            return True
        if message.job.state.final:
            return await self._finish(message)
        if not message.muted:
            await self._update(message)
        return False

    async def look_up(self, message: StatusMessage) -> None:
        """Look up the message that an earlier run may have sent. Idempotent."""
        if message.looked_up:
            return
        sent = await self.records.message(message.job.id)
        if sent is not None:
            message.ref, message.sent_at = sent.ref, sent.sent_at
        message.looked_up = True

    def _platform(self, message: StatusMessage) -> ChatPlatform:
        return self.platforms[message.origin.platform]

    # ------------------------------------------------------------ open jobs

    async def _update(self, message: StatusMessage) -> None:
        content = await self._drawn(message)
        if content is None:
            return
        if self.channels.of(message).awaits_end(message, self.clock.now()):
            message.delayed_until = self.clock.now() + _AGAIN_S
            message.changed = True
            return
        try:
            await self._show(message, content, again=partial(self._drawn, message))
        except (ContentRefused, TooLarge) as refusal:
            log.warning("job %s: the chat refused a status update: %s", message.job.id, refusal)
            # Do not retry this one; the next state may be accepted.
            message.show(content, message.kind, self.clock.now())

    async def _drawn(self, message: StatusMessage) -> Content | None:
        """Return the content to show, or None if the job has just ended."""
        asked_at = self.clock.now()
        await self._find_step(message)
        standing = await self.inquiry.of(message.current)
        if standing is None or standing.job.state.final:
            message.step = None  # if the step ended, show its parent job next
            return None  # the event of that end serves this message again
        if standing.job.version < message.current.version:
            return None  # a newer event is on its way
        if message.urgent_edit:
            message.changed = False  # this drawing covers whatever changed during the query
        message.asked_at = asked_at
        message.stand(standing)
        if is_long(message.progress.text if message.progress is not None else None):
            content = await asyncio.to_thread(self.draw, message, standing)
        else:
            content = self.draw(message, standing)
        if message.ref is None and message.sent_at is None:
            busy = self._busy(message, standing)
            content = replace(content, body=join((*busy, *content.body))) if busy else content
        return content

    async def _find_step(self, message: StatusMessage) -> None:
        """Find the open job that transcribes a recording; an earlier run may have accepted it."""
        if message.step is not None:
            return
        for place in recordings.unheard(message.job):
            made = await self.jobs.find(recordings.writing_key(message.job.id, place))
            if made is not None and not made.state.final:
                message.step = made
                return

    def _busy(self, message: StatusMessage, standing: Standing) -> Body:
        """Return the opening text for a request whose queue is long."""
        wait_s = 0.0 if standing.ends is None else standing.ends.at - self.clock.now()
        if wait_s <= self.live.busy_after_s:
            return ()
        snapshot, catalog = self.status.snapshot(), self.models.offer.catalog
        mine, language = self.renderer.offered(message.origin), message.origin.language
        return busy_queue(message.job.model, wait_s, snapshot, catalog, language, offered=mine)

    async def _show(
        self,
        message: StatusMessage,
        content: Content,
        *,
        again: Callable[[], Awaitable[Content | None]] | None = None,
    ) -> None:
        """Make the message show the content; send the message if there is none.

        Content that had to wait for its turn is drawn `again`, so that nothing outdated is sent. If
        a result became ready that goes first, nothing is shown and the message stays out of date.
        """
        if content == message.shown and message.ref is not None:
            return
        async with self._turn(message, content) as turn:
            if turn.waited and self.channels.of(message).gives_way(message, self.clock.now()):
                turn.used = False
                message.restore_marks()
                return
            drawn = await again() if turn.waited and again is not None else content
            if (
                drawn is None
                or message.dropped
                or (drawn == message.shown and message.ref is not None)
            ):
                turn.used = False
                return  # the job ended or was deleted, or the message already shows this
            if message.ref is not None and not (message.urgent_edit or message.job.state.final):
                self.channels.of(message).rate_limit.updated(self.clock.now())
            kind = message.kind
            put = await self._put(message, drawn)
        if message.ref is None:
            # Send a message, because the call cannot be answered.
            await self._show(message, drawn, again=again)
            return
        message.advanced |= put != drawn
        message.show(put, kind, self.clock.now())

    def _turn(
        self, message: StatusMessage, content: Content
    ) -> AbstractAsyncContextManager[TurnOutcome]:
        """Return the turn for the message's next request; a free request needs no turn."""
        if message.free(self.channels.of(message).rate_limit):
            return self.channels.free_turn(message.origin.platform)
        upload, burst = bool(content.files), message.awaited
        where = message.origin.platform, message.origin.chat
        return self.channels.turn(*where, burst=burst, upload=upload)

    async def _put(self, message: StatusMessage, content: Content) -> Content:
        """Make one request that shows the content or its first part. Returns what is shown."""
        if message.ref is not None and await self._put_draft(message, message.ref, content):
            return content
        if message.ref is not None:
            await self._edit(message, message.ref, content)
            return content
        whole = message.job.state.final or not content.files
        first = content if whole else replace(content, files=())
        ref = await (
            self._answer(message, first) if message.respond else self._send(message, first)
        )
        if ref is not None:
            now = self.clock.now()
            try:
                await self.records.note_message(message.job.id, ref, now)
            finally:
                if message.forgotten:
                    message.ref = ref  # the job is deleted, so nothing can be stored for it
            message.ref, message.sent_at, message.draft = ref, now, None
            await self.records.note_others(message.job.id, ref, now)
        return first

    async def _put_draft(self, message: StatusMessage, ref: MessageRef, content: Content) -> bool:
        """Show an answer that is being written as a draft. Returns False if the chat takes none.

        The message above it keeps the buttons, which a draft cannot have.
        """
        channel, origin = self.channels.of(message), message.origin
        draft = self._platform(message).limits.draft
        text = message.progress.text if message.progress is not None else None
        growing = text and not message.job.state.final
        if draft is None or origin.group or not growing or not channel.drafts:
            return False
        if message.draft is None or not message.shows_draft:
            await self._edit(message, ref, status.writing(message.job, content, origin.language))
        try:
            shown = replace(content, buttons=())
            await counted(self.meter, origin.platform, draft(origin.chat, message.job.id, shown))
        except (ContentRefused, TooLarge, SlowDown) as refusal:
            channel.drafts = False
            log.info("chat %s takes no drafts: %s", origin.chat, refusal)
            if isinstance(refusal, SlowDown):
                raise
            return False
        message.draft = shown
        return True

    async def _end_draft(self, message: StatusMessage, ref: MessageRef) -> None:
        """Delete the message above a draft. The one sent next takes the place of both.

        If Usher dies in between, the deleted message is noticed and the result is sent. A message
        that is too old to be deleted becomes the result itself.
        """
        platform = message.origin.platform
        try:
            async with self._turn(message, Content()):
                await counted(self.meter, platform, self._platform(message).delete(ref))
        except ContentRefused as refusal:
            log.info("job %s: the message above a draft stays: %s", message.job.id, refusal)
            message.draft = None
        else:
            message.ref = None

    async def _edit(self, message: StatusMessage, ref: MessageRef, content: Content) -> None:
        edit = self._platform(message).edit(ref, content)
        await counted(self.meter, message.origin.platform, edit)

    async def _send(self, message: StatusMessage, content: Content) -> MessageRef:
        origin = message.origin
        return await self._platform(message).send(
            origin.chat,
            content,
            reply_to=origin.request_ref(),
            nonce=origin.nonce if (at := message.sent_at) is None else f"{origin.key} after {at}",
        )

    async def _answer(self, message: StatusMessage, content: Content) -> MessageRef | None:
        """Answer the call, or return None if it cannot be answered any more.

        If the call was certainly not answered, keeps it for the next try.
        """
        respond, message.respond = message.respond, None
        if respond is None:
            return None
        try:
            return await respond(content, False)
        except (SlowDown, ContentRefused, TooLarge):
            message.respond = respond
            raise
        except (ChatUnavailable, MessageGone) as error:
            if isinstance(error, ChatUnavailable) and not error.unclear:
                message.respond = respond
                raise
            log.info(
                "job %s: could not answer the call, sending a message: %s", message.job.id, error
            )
            return None

    # ------------------------------------------------------------ ended jobs

    async def _finish(self, message: StatusMessage) -> bool:
        """Show the job's result, send the parts that do not fit, then acknowledge the delivery."""
        if message.draft is not None and message.ref is not None:
            await self._end_draft(message, message.ref)
        aloud = await self._aloud(message)
        if self._must_announce(message):
            follows = status.follows(message.job, message.origin.language)
            await self._show(message, message.draft or follows)
            message.changed = True
            return False
        rendered = await self._show_end(message, aloud)
        if message.ref is None or message.shown != rendered.content:
            return False
        message.answer_shown = True
        place = self._place(message, message.ref)
        if not await self.extra_messages.send_rest(place, message.job, rendered):
            incomplete = _with_send_again(message, rendered.content)
            await self._show(message, incomplete)
            if message.shown != incomplete:
                return False
        if aloud.goes_on is not None:
            return False
        await self.deliveries.acknowledge(message.job)
        now = self.clock.now()
        if message.job.finished_at is not None:
            took_s = max(0.0, now - message.job.finished_at)
            self.meter.delivered(message.origin.platform, took_s)
        pings = self._platform(message).limits.pings and not message.notified
        if pings and deserves_ping(message.job):
            message.ping_by = now + PING_WITHIN_S
            for each in self.channels.of(message).pings_with(message):
                each.ping_by = message.ping_by
        return message.ping_by is None

    def _must_announce(self, message: StatusMessage) -> bool:
        """Return whether a result needs a message before it can be shown by an edit.

        A process that dies right after a send does not know about it and sends again. Unless the
        platform recognises the repeat, a first send with the answer would show it twice.
        """
        completed = message.job.state is JobState.COMPLETED
        return completed and message.ref is None and not self._platform(message).limits.sends_once

    def _place(self, message: StatusMessage, ref: MessageRef) -> Placement:
        return Placement(
            platform=self._platform(message),
            ref=ref,
            channels=self.channels,
            removed=lambda: message.removed,
        )

    async def _ping(self, message: StatusMessage, by: float) -> None:
        """Notify the person of this result and of others they are owed a ping for, if in time."""
        together = self.channels.of(message).pings_with(message)
        for each in together:
            each.ping_by = -math.inf  # dropped without a separate ping
        last = max(together, key=lambda each: each.job.id)
        if last.ref is not None and self.clock.now() < by:
            place = self._place(last, last.ref)
            await self.extra_messages.ping(place, last.job, last.origin, len(together))

    async def _aloud(self, message: StatusMessage) -> SpokenAnswer:
        """Return the state of the spoken answer, and track the job that makes it."""
        if self.readings is None:
            return SpokenAnswer()
        aloud = await self.readings.of(message.job, message.origin)
        message.step = aloud.goes_on
        if aloud.goes_on is None or (standing := await self.inquiry.of(aloud.goes_on)) is None:
            return aloud
        return replace(aloud, note=status.reading(standing, message.origin.language))

    async def _show_end(self, message: StatusMessage, aloud: SpokenAnswer) -> RenderedResult:
        """Show the result, falling back to less of it until the chat accepts it."""
        limits = self._platform(message).limits.in_chat(message.origin.chat)
        while True:
            rendered = await self.renderer.render(
                message.job,
                message.origin,
                limits,
                written=message.left,
                fallback=message.fallback,
                aloud=aloud,
            )
            try:
                await self._show(message, rendered.content)
            except (ContentRefused, TooLarge) as refusal:
                below = message.fallback.below(too_large=isinstance(refusal, TooLarge))
                if below is message.fallback:
                    raise
                log.warning(
                    "job %s: the chat refused the result (%s): %s",
                    message.job.id,
                    message.fallback.name,
                    refusal,
                )
                message.fallback = below
            except ChatGone:
                if not rendered.content.files:
                    message.fallback = Fallback.WHOLE
                    raise
                # A chat where the bot may write but not send images refuses in the same way.
                message.fallback = Fallback.WORDS
            else:
                return rendered


def _with_send_again(message: StatusMessage, content: Content) -> Content:
    label = word(message.origin.language, "button.send_again")
    button = Button(command="show", job_id=message.job.id, label=label)
    return replace(content, buttons=(*content.buttons, (button,)))
