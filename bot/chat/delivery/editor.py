"""Makes one job's status message true: what it should show now, and how it gets there.

The end of a job is an edit of its message and may be repeated after any crash. What went wrong is
raised as a `ChatError`; who waits how long for another try is not decided here.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial

from bot.chat.api.base import ChatPlatform, MessageRef
from bot.chat.api.content import Body, Button, Content, Markdown
from bot.chat.api.errors import (
    ChatGone,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.chat.delivery import busy_line as busy
from bot.chat.delivery.busy_line import BUSY_AFTER_S
from bot.chat.delivery.channels import Channels, Taken
from bot.chat.delivery.extra_messages import Below, ExtraMessages
from bot.chat.delivery.inquiry import Inquiry
from bot.chat.delivery.result_renderer import Fallback, RenderedResult, ResultRenderer, last_page
from bot.chat.delivery.status_message import StatusMessage
from bot.chat.records.message_records import MessageRecords
from bot.chat.texts import join, plain, status, word
from bot.people.users import People
from queueing.core.jobs import JobState
from queueing.core.ports import Clock
from queueing.core.standings import Standing
from queueing.service.jobqueue import JobQueue

log = logging.getLogger(__name__)


class Editor:
    """One for all platforms."""

    def __init__(
        self,
        *,
        queue: JobQueue,
        records: MessageRecords,
        people: People,
        platforms: Mapping[str, ChatPlatform],
        clock: Clock,
        desks: Channels,
        inquiry: Inquiry,
        packer: ResultRenderer,
        courier: ExtraMessages,
        busy_after_s: float = BUSY_AFTER_S,
    ) -> None:
        self._busy_after_s = busy_after_s
        self._queue = queue
        self._records = records
        self._people = people
        self._platforms = platforms
        self._clock = clock
        self._desks = desks
        self._inquiry = inquiry
        self._packer = packer
        self._courier = courier

    def draw(self, card: StatusMessage, standing: Standing) -> Content:
        """Return what the message of an open job should show."""
        of = (standing, card.progress, bool(card.written), card.origin)
        if card.drawn is None or card.drawn[0] != of:  # most looks find that nothing changed
            card.drawn = of, self._draw(card, standing)
        return card.drawn[1]

    def _draw(self, card: StatusMessage, standing: Standing) -> Content:
        limits = self._platform(card).limits
        content = status.open_message(
            standing, card.progress, card.origin.language, previews=limits.previews
        )
        if not card.written:
            hint = status.near_model(card.origin.near, card.origin.language)
            content = replace(content, body=join((*content.body, *hint)))
        return self._packer.hidden(card.job, card.origin, last_page(content, limits))

    async def refresh(self, card: StatusMessage) -> bool:
        """Make a card's message show its job as it is now; return whether all has been shown.

        Raises `ChatError`, `StoreError`.
        """
        if card.job.state.final:
            return await self._finish(card)
        if not card.muted:
            await self._update(card)
        return False

    async def look_up(self, card: StatusMessage) -> None:
        """Find the message an earlier run may have sent. Idempotent."""
        if card.looked_up:
            return
        sent = await self._records.message(card.job.id)
        if sent is not None:
            card.ref, card.sent_at = sent.ref, sent.sent_at
        card.looked_up = True

    def _platform(self, card: StatusMessage) -> ChatPlatform:
        return self._platforms[card.origin.platform]

    # ------------------------------------------------------------ open jobs

    async def _update(self, card: StatusMessage) -> None:
        content = await self._drawn(card)
        if content is None:
            return
        try:
            await self._show(card, content, again=partial(self._drawn, card))
        except (ContentRefused, TooLarge) as refusal:
            log.warning("job %s: a passing state was refused: %s", card.job.id, refusal)
            card.show(content, card.kind, self._clock.now())  # not again; the next state may do

    async def _drawn(self, card: StatusMessage) -> Content | None:
        """Return what the message should show now; None where the job ended just now."""
        standing = await self._inquiry.of(card.job)
        if standing is None or standing.job.state.final:
            return None  # that event serves this card again
        card.stand(standing)
        content = self.draw(card, standing)
        if card.ref is None and card.sent_at is None:
            content = replace(content, body=join((*self._busy(card, standing), *content.body)))
        return content

    def _busy(self, card: StatusMessage, standing: Standing) -> Body:
        """Return what comes first in the answer to a request whose line is long."""
        wait_s = 0.0 if standing.done_at is None else standing.done_at - self._clock.now()
        if wait_s <= self._busy_after_s:
            return ()
        models, catalog = self._queue.models(), self._queue.catalog
        language = card.origin.language
        return busy.notice(card.job.model, wait_s, models, catalog, language)

    async def _show(
        self,
        card: StatusMessage,
        content: Content,
        *,
        again: Callable[[], Awaitable[Content | None]] | None = None,
    ) -> None:
        """Make the card's message show this; the first time, send it.

        What had to wait for its turn is drawn `again`, so that nothing outdated is sent.
        """
        if content == card.shown and card.ref is not None:
            return
        async with self._turn(card, content) as turn:
            drawn = await again() if turn.waited and again is not None else content
            if drawn is None or card.dropped or (drawn == card.shown and card.ref is not None):
                turn.used = False
                return  # it ended, was forgotten, or became true again, while its turn came
            if card.ref is not None and not (card.telling or card.job.state.final):
                self._desks.of(card).pace.updated(self._clock.now())
            kind = card.kind
            put = await self._put(card, drawn)
        if card.ref is None:
            await self._show(card, drawn, again=again)  # as a message, as no call can be answered
            return
        if put != drawn:
            async with self._turn(card, drawn):
                await self._platform(card).edit(card.ref, drawn)
        card.show(drawn, kind, self._clock.now())

    def _turn(self, card: StatusMessage, content: Content) -> AbstractAsyncContextManager[Taken]:
        """Return the turn of the card's next request, which may need none."""
        if card.free(self._desks.of(card).pace):
            return nullcontext(Taken(waited=False))
        upload = bool(content.files)
        return self._desks.turn(card.origin.platform, card.origin.chat, upload=upload)

    async def _put(self, card: StatusMessage, content: Content) -> Content:
        """Make one request that shows a content or its beginning, and return what it showed."""
        if card.ref is not None:
            await self._platform(card).edit(card.ref, content)
            return content
        first = _beginning(card, content)
        ref = await (self._answer(card, first) if card.respond else self._send(card, first))
        if ref is not None:
            now = self._clock.now()
            try:
                await self._records.note_message(card.job.id, ref, now)
            finally:
                if card.forgotten:
                    card.ref = ref  # the job is gone, and nothing can be noted of it
            card.ref, card.sent_at = ref, now
        return first

    async def _send(self, card: StatusMessage, content: Content) -> MessageRef:
        return await self._platform(card).send(
            card.origin.chat,
            content,
            reply_to=card.origin.request_ref(),
            nonce=card.origin.key + ("" if card.sent_at is None else " afresh"),
        )

    async def _answer(self, card: StatusMessage, content: Content) -> MessageRef | None:
        """Answer the call; None where that cannot be done, or not any more.

        What was surely not answered can still be: then the call is kept for the next try.
        """
        respond, card.respond = card.respond, None
        if respond is None:
            return None
        try:
            return await respond(content, False)
        except (SlowDown, ContentRefused, TooLarge):
            card.respond = respond
            raise
        except (ChatUnavailable, MessageGone) as error:
            if isinstance(error, ChatUnavailable) and not error.unclear:
                card.respond = respond
                raise
            log.info("job %s: the call could not be answered (%s)", card.job.id, error)
            return None

    # ------------------------------------------------------------ ended jobs

    async def _finish(self, card: StatusMessage) -> bool:
        """Turn the message into the job's end, send what does not fit in it, acknowledge."""
        if card.job.state is JobState.FAILED:
            await self._people.give_back(card.job.id)
        parcel = await self._show_end(card)
        if card.ref is None:
            return False
        platform, chat = card.origin.platform, card.origin.chat
        turn = partial(self._desks.turn, platform, chat)
        place = Below(platform=self._platform(card), ref=card.ref, turn=turn)
        if not await self._courier.send_rest(place, card.job, parcel):
            await self._show(card, _with_send_again(card, parcel.content))
        await self._queue.acknowledge(card.job)
        if self._platform(card).limits.pings:
            await self._courier.ping(place, card.job, card.origin)
        return True

    async def _show_end(self, card: StatusMessage) -> RenderedResult:
        """Show the result, or as much of it as the chat takes."""
        limits = self._platform(card).limits.in_chat(card.origin.chat)
        while True:
            parcel = await self._packer.pack(
                card.job, card.origin, limits, written=card.written, rung=card.rung
            )
            try:
                await self._show(card, parcel.content)
            except (ContentRefused, TooLarge) as refusal:
                below = card.rung.below(too_large=isinstance(refusal, TooLarge))
                if below is card.rung:
                    raise
                log.warning("job %s: %s was refused: %s", card.job.id, card.rung.name, refusal)
                card.rung = below
            except ChatGone:
                if not parcel.content.files:
                    card.rung = Fallback.WHOLE
                    raise
                # Where we may write but send no pictures, the refusal looks the same.
                card.rung = Fallback.WORDS
            else:
                return parcel


def _beginning(card: StatusMessage, content: Content) -> Content:
    """Return what a message begins with; a result then comes as an edit, which may be repeated."""
    first = _announced(content) if card.job.state is JobState.COMPLETED else content
    return replace(first, files=())


def _announced(content: Content) -> Content:
    """Return a result without its answer: the line of facts, for a message yet to be sent.

    A process that dies right after a send cannot know of it and sends again; an answer sent that
    way would be shown twice.
    """
    facts = tuple(part for part in content.body if not isinstance(part, Markdown))
    if facts and isinstance(facts[0], str):
        facts = (facts[0].lstrip(), *facts[1:])
    return replace(content, body=facts) if plain(facts).strip() else content


def _with_send_again(card: StatusMessage, content: Content) -> Content:
    label = word(card.origin.language, "button.send_again")
    button = Button(command="show", job_id=card.job.id, label=label)
    return replace(content, buttons=(*content.buttons, (button,)))
