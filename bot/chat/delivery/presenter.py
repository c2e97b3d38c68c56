"""Keeps every job's status message true and sees that every result is shown.

Events only mark cards; one task per chat with something to say lets the editor show the newest state
when the chat's budget allows, so a stale text is never sent and nobody waits for a chat but the
chat itself. All that is needed after a restart comes from the database.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from bot.chat.api.answers import Answer, Placed, TaskHandler
from bot.chat.api.base import ChatPlatform, Invocation
from bot.chat.api.chat_settings import ChatSettingsTable
from bot.chat.api.errors import ChatGone, ChatMoved, ChatUnavailable, MessageGone, SlowDown
from bot.chat.api.origin import Origin
from bot.chat.delivery.busy_line import BUSY_AFTER_S
from bot.chat.delivery.channels import Channel, Channels, wait
from bot.chat.delivery.delivery_failures import DeliveryFailures
from bot.chat.delivery.editor import Editor
from bot.chat.delivery.extra_messages import ExtraMessages
from bot.chat.delivery.inquiry import Inquiry
from bot.chat.delivery.originals import OriginalHints
from bot.chat.delivery.patient_calls import Patience
from bot.chat.delivery.replies import Replies
from bot.chat.delivery.result_renderer import ResultRenderer
from bot.chat.delivery.stale_messages import StaleMessages
from bot.chat.delivery.status_message import StatusMessage
from bot.chat.delivery.unfinished_messages import Owed
from bot.chat.records.message_records import MessageRecords
from bot.people.users import People
from queueing.core.errors import StoreError
from queueing.core.events import Erased, Event, Forgotten, JobChanged, LinesMoved, Progressed
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock
from queueing.service.jobqueue import JobQueue

log = logging.getLogger(__name__)

MOST_TAKEN_UP = 2000  # waiting jobs of an earlier run that are shown at once


class Presenter:
    """One for all platforms."""

    def __init__(
        self,
        *,
        queue: JobQueue,
        records: MessageRecords,
        people: People,
        platforms: Mapping[str, ChatPlatform],
        clock: Clock,
        work: TaskHandler,
        rooms: ChatSettingsTable | None = None,
        originals: OriginalHints | None = None,
        busy_after_s: float = BUSY_AFTER_S,
    ) -> None:
        self._queue = queue
        self._records = records
        self._platforms = platforms
        self._clock = clock
        self._desks = Channels(platforms, clock)
        packer = ResultRenderer(queue, rooms or ChatSettingsTable(), originals or OriginalHints())
        courier = ExtraMessages(records, clock)
        self._inquiry = Inquiry(queue)
        self._editor = Editor(
            queue=queue,
            records=records,
            people=people,
            platforms=platforms,
            clock=clock,
            desks=self._desks,
            inquiry=self._inquiry,
            packer=packer,
            courier=courier,
            busy_after_s=busy_after_s,
        )
        patience = Patience(platforms, self._desks)
        self._owed = Owed(
            platforms=platforms, debts=records.debts, patience=patience, work=work, clock=clock
        )
        self._answers = Replies(
            platforms=platforms,
            records=records,
            patience=patience,
            packer=packer,
            courier=courier,
            owed=self._owed,
        )
        self._setbacks = DeliveryFailures(
            queue=queue, records=records, clock=clock, desks=self._desks, drop=self._drop
        )
        self._cards: dict[int, StatusMessage] = {}
        self._lookout = StaleMessages(
            queue=queue,
            cards=self._cards.values(),
            draw=self._editor.draw,
            stale=self._serve,
            clock=clock,
        )
        self._expected: dict[str, Invocation] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[tuple[Invocation, Answer]] = []
        self._all_told = asyncio.Event()
        self._taken_up = 0  # the newest waiting job of an earlier run that has a card
        self._dropped = asyncio.Event()

    # ------------------------------------------------------------ what comes in

    def notice(self, event: Event) -> None:
        """Mark what an event made out of date. Called by the queue; never blocks or raises."""
        match event:
            case JobChanged(job=job):
                self._job_changed(job)
            case Progressed(job_id=job_id, progress=progress):
                if (card := self._cards.get(job_id)) is not None:
                    card.advance(progress)
                    self._serve(card)
            case Forgotten(job_ids=job_ids):
                self._forget(job_ids)
            case Erased() if self._tasks is not None:
                self._tasks.create_task(self._take_up_debts(self._tasks))
            case LinesMoved():
                self._lookout.moved(event)

    def expect(self, invocation: Invocation) -> None:
        """Remember how a call is answered, should it become a job."""
        self._expected[invocation.key] = invocation
        desk = self._desks.find(invocation.platform, invocation.chat)
        if desk is not None:
            desk.knocked()

    async def asked(self, platform: str, chat: str) -> None:
        """Wait until a prompt on its way into that chat is noted, so that a reply finds it."""
        await self._answers.asked(platform, chat)

    def answer(self, invocation: Invocation, answer: Answer) -> None:
        """Send a call's answer; a placed job's status message is already on its way."""
        self._expected.pop(invocation.key, None)
        if answer is None or isinstance(answer, Placed):
            return
        if self._tasks is None:
            self._early.append((invocation, answer))
            return
        self._tasks.create_task(self._answers.give(invocation, answer))

    def open_jobs_of(self, user: str) -> Sequence[str]:
        """Return the numbers of a person's open jobs, newest first, for completion."""
        own = [card.job for card in self._cards.values() if card.job.owner == user]
        return [str(job.id) for job in reversed(own) if not job.state.final]

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Serve all chats until cancelled; begins with what an earlier run left unsaid."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while self._early:
                self.answer(*self._early.pop(0))
            tasks.create_task(self._inquiry.run())
            try:
                await self._take_up()
                await self._take_up_debts(tasks)
                tasks.create_task(self._take_up_more())
                tasks.create_task(self._lookout.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def _take_up(self) -> None:
        """Begin with what an earlier run left unsaid."""
        unreachable = await self._records.unreachable()
        await self._take_up_some()
        self._setbacks.remember(self._cards, unreachable)
        for card in list(self._cards.values()):
            self._serve(card)

    async def _take_up_some(self) -> bool:
        """Make cards for some jobs of an earlier run; return whether more of them may wait.

        A job far back in a long line gets its card when others have gone, or when something
        happens to it: until then its message shows what it showed before.
        """
        jobs = await self._queue.to_tell(self._taken_up, MOST_TAKEN_UP)
        for job in jobs:
            self._job_changed(job)
        waiting = [job.id for job in jobs if job.state is JobState.PENDING]
        self._taken_up = max(waiting, default=self._taken_up)
        return len(waiting) >= MOST_TAKEN_UP

    async def _take_up_more(self) -> None:
        """Go on as cards are done with, until every job of an earlier run had one."""
        more = True
        while more:
            if len(self._cards) > MOST_TAKEN_UP // 2:
                self._dropped.clear()
                await self._dropped.wait()
                continue
            try:
                more = await self._take_up_some()
            except StoreError as error:
                log.warning("waiting jobs of an earlier run cannot be read: %s", error)
                self._dropped.clear()
                await self._dropped.wait()

    async def settle(self, timeout_s: float, *, owner: str = "") -> None:
        """Wait until every ended job's end is in its chat, at most that long.

        Chats that are not connected are not waited for. `owner` narrows it to people whose id begins so.
        """

        def untold() -> bool:
            ended = (card for card in self._cards.values() if card.job.state.final)
            return any(
                card.job.owner.startswith(owner) and self._connected(card.origin.platform).is_set()
                for card in ended
            )

        try:
            async with asyncio.timeout(timeout_s):
                while untold():
                    self._all_told.clear()
                    await self._all_told.wait()
        except TimeoutError:
            log.info("stopping with results not yet delivered; they are kept")

    def _job_changed(self, job: Job) -> None:
        card = self._cards.get(job.id)
        if card is None:
            card = self._new_card(job)
            if card is None:
                return
        elif job.version < card.job.version:
            return
        if job.state is not card.job.state:
            card.progress = None
            if job.state is JobState.PENDING:
                card.written = ""  # it begins again
            elif job.state.final:
                card.hold_until = 0.0  # what a passing state met says nothing of the end
        card.job, card.changed = job, True
        self._serve(card)

    def _new_card(self, job: Job) -> StatusMessage | None:
        if job.acknowledged:
            return None
        try:
            origin = Origin.model_validate_json(job.reply_to)
        except ValidationError:
            return None  # a job nobody waits for in a chat, such as an enhancement
        if origin.platform not in self._platforms:
            return None  # its platform is switched off: it stays unacknowledged
        card = StatusMessage(job=job, origin=origin)
        call = self._expected.pop(origin.key, None)
        if call is not None and not call.button:
            card.respond = call.respond
        self._cards[job.id] = card
        self._desks.of(card).cards[job.id] = card
        return card

    # ------------------------------------------------------------ serving chats

    def _serve(self, card: StatusMessage) -> None:
        desk = self._desks.of(card)
        desk.wake.set()
        if not desk.served and self._tasks is not None:
            desk.served = True
            self._tasks.create_task(self._serve_desk(desk, card.origin.platform))

    def _connected(self, platform: str) -> asyncio.Event:
        return self._platforms[platform].connected

    async def _serve_desk(self, desk: Channel, platform: str) -> None:
        connected = self._connected(platform)
        try:
            while (following := desk.next_card(self._clock.now(), len(self._cards))) is not None:
                if not connected.is_set():
                    await connected.wait()
                    continue
                card, due = following
                desk.wake.clear()
                wait_s = due - self._clock.now()
                if wait_s > 0:
                    await wait(desk.wake, wait_s)
                    continue
                await self._refresh(desk, card)
                if card.forgotten and card.ref is not None:  # while it was being shown
                    await self._owed.deleted(card.ref, card.origin.language)
        finally:
            desk.served = False

    async def _refresh(self, desk: Channel, card: StatusMessage) -> None:
        """Show a card's newest state, and react to what the chat says of it."""
        asked = card.take_marks()
        try:
            await self._editor.look_up(card)
            if card.ref is not None and card.ref.chat != card.origin.chat:
                self._rehome(card, card.ref.chat)  # the chat moved in an earlier run
            if await self._editor.refresh(card):
                self._drop(card)
        except SlowDown as slow:
            card.mark(asked)
            self._setbacks.slow_down(desk, card, slow)
        except MessageGone:
            card.ref, card.muted, card.changed = None, True, card.job.state.final
        except ChatMoved as moved:
            card.mark(asked)
            await self._follow(card, moved.new_chat)
        except (ChatGone, ChatUnavailable) as error:
            card.mark(asked)
            await self._setbacks.leave_alone(desk, card, error)
        except Exception as error:  # noqa: BLE001  it is logged there
            if not card.dropped:  # else it was forgotten just now: nothing can be noted of it
                card.mark(asked)
                await self._setbacks.try_later(card, error)
        else:
            desk.reached()
            card.failures = 0

    def _drop(self, card: StatusMessage) -> None:
        card.dropped = True
        self._cards.pop(card.job.id, None)
        self._desks.of(card).cards.pop(card.job.id, None)
        self._all_told.set()
        self._dropped.set()

    # ------------------------------------------------------------ chats that move

    async def _follow(self, card: StatusMessage, new_chat: str) -> None:
        """Go on in a chat's new place with all its cards."""
        platform, old = card.origin.platform, card.origin.chat
        await self._records.move_chat(platform, old, new_chat)
        desk = self._desks.at(platform, old)
        self._desks.remove(platform, old)
        for each in list(desk.cards.values()):
            self._rehome(each, new_chat)

    def _rehome(self, card: StatusMessage, new_chat: str) -> None:
        self._desks.of(card).cards.pop(card.job.id, None)
        card.origin = card.origin.model_copy(update={"chat": new_chat, "request": None})
        if card.ref is not None:
            card.ref = replace(card.ref, chat=new_chat)
        card.changed = True
        self._desks.of(card).cards[card.job.id] = card
        self._serve(card)

    # ------------------------------------------------------------ forgetting

    def _forget(self, job_ids: Collection[int]) -> None:
        """Let go of jobs that are being deleted; what becomes of their messages is owed then."""
        for card in [card for card in self._cards.values() if card.job.id in job_ids]:
            card.forgotten = True
            self._drop(card)

    async def _take_up_debts(self, tasks: asyncio.TaskGroup) -> None:
        """Make messages true that owe something, those of an earlier run among them."""
        try:
            await self._owed.take_up(tasks)
        except StoreError as error:
            log.warning("what messages owe cannot be read: %s", error)
