"""Keeps every job's status message up to date and delivers every result.

Events only mark messages as out of date. One task per busy chat then has the editor show the newest
state when the chat's budget allows. So a stale text is never sent, and a slow chat delays only
itself. Everything needed after a restart comes from the database.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.core.answers import AcceptedJob, Answer, Deletion, TaskHandler, TaskReply
from bot.core.errors import ChatGone, ChatMoved, ChatUnavailable, MessageGone, SlowDown
from bot.core.live_settings import LiveSettings
from bot.core.platform import ChatPlatform, Invocation
from bot.core.queue import Deliveries, QueueStatus
from bot.core.service import QueueService
from bot.delivery.channels import Channel, Channels
from bot.delivery.editor import Editor
from bot.delivery.follow_ups import FollowUps
from bot.delivery.open_messages import OpenMessages
from bot.delivery.records import MessageRecords
from bot.delivery.replies import Replies
from bot.delivery.result_renderer import OriginalHints, ResultRenderer
from bot.delivery.retries import ChatRetry, DeliveryFailures
from bot.delivery.spoken_answers import SpokenAnswers
from bot.delivery.standings import StaleMessages, StandingReader
from bot.delivery.status_message import StatusMessage
from bot.delivery.tasks import TaskRunner
from bot.monitoring.delivery_meter import DeliveryMeter, Unmeasured
from bot.requests import recordings
from bot.requests.rules import RuleTable
from queueing.core.concurrency import TaskGroup, came, timeout
from queueing.core.errors import StoreError
from queueing.core.events import (
    Erased,
    Event,
    EventsMissed,
    Forgotten,
    JobChanged,
    Progressed,
    QueuesMoved,
)
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

MOST_RESUMED = 2000  # waiting jobs of an earlier run to show at once


@dataclass(eq=False, repr=False)
class Backlog:
    """Reads jobs of an earlier run and passes each to `resume`, oldest first."""

    deliveries: Deliveries
    messages: OpenMessages
    resume: Callable[[Job], None]
    _newest_id: int = field(default=0, init=False)  # the newest waiting job resumed so far

    def begin_again(self) -> None:
        """Start over from the oldest job."""
        self._newest_id = 0

    async def some(self) -> bool:
        """Resume a batch of jobs. Returns whether more may be waiting. Raises `StoreError`.

        A job far back in a long queue gets its message once others are done, or when an event
        concerns it. Until then its message keeps the text of the earlier run.
        """
        jobs = await self.deliveries.to_tell(self._newest_id, MOST_RESUMED)
        for job in jobs:
            self.resume(job)
        waiting = [job.id for job in jobs if job.state is JobState.PENDING]
        self._newest_id = max(waiting, default=self._newest_id)
        return len(waiting) >= MOST_RESUMED

    async def rest(self) -> None:
        """Resume the remaining jobs as messages finish, until all are resumed."""
        more = True
        while more:
            if len(self.messages) > MOST_RESUMED // 2:
                await self._fewer()
                continue
            try:
                more = await self.some()
            except StoreError as error:
                log.warning("cannot read the waiting jobs of an earlier run: %s", error)
                await self._fewer()

    async def _fewer(self) -> None:
        self.messages.fewer.clear()
        await self.messages.fewer.wait()


class Presenter:
    """Keeps the status messages of all platforms up to date, and answers calls."""

    def __init__(
        self,
        *,
        queue: QueueService,
        status: QueueStatus,
        records: MessageRecords,
        platforms: Mapping[str, ChatPlatform],
        clock: Clock,
        work: TaskHandler,
        live: LiveSettings,
        originals: OriginalHints | None = None,
        readings: SpokenAnswers | None = None,
        meter: DeliveryMeter | None = None,
        rules: RuleTable | None = None,
    ) -> None:
        self._deliveries = queue.deliveries
        self._jobs = queue.jobs
        self._records = records
        self._platforms = platforms
        self._clock = clock
        self._channels = Channels(platforms, clock)
        self._messages = OpenMessages(platforms, self._channels)
        renderer = ResultRenderer(
            queue.jobs,
            queue.models,
            live.chat_settings,
            originals or OriginalHints(),
            rules or RuleTable(),
        )
        extra_messages = FollowUps(records, clock)
        self._inquiry = StandingReader(status)
        self._editor = Editor(
            deliveries=queue.deliveries,
            models=queue.models,
            status=status,
            records=records,
            platforms=platforms,
            clock=clock,
            channels=self._channels,
            inquiry=self._inquiry,
            renderer=renderer,
            extra_messages=extra_messages,
            jobs=queue.jobs,
            readings=readings,
            meter=meter or Unmeasured(),
            live=live,
        )
        patience = ChatRetry(platforms, self._channels)
        self._owed = TaskRunner(
            platforms=platforms, updates=records.updates, patience=patience, work=work, clock=clock
        )
        self._replies = Replies(
            platforms=platforms,
            records=records,
            patience=patience,
            renderer=renderer,
            extra_messages=extra_messages,
            owed=self._owed,
        )
        self._failures = DeliveryFailures(
            deliveries=queue.deliveries,
            records=records,
            clock=clock,
            channels=self._channels,
            drop=self._messages.drop,
        )
        self._stale_messages = StaleMessages(
            status=status,
            messages=self._messages.by_job().values(),
            draw=self._editor.draw,
            stale=self._serve,
            clock=clock,
        )
        self._tasks: TaskGroup | None = None
        self._early: list[tuple[Invocation, Answer]] = []
        self._giving: dict[asyncio.Task[None], Invocation] = {}  # answers being sent
        self._earlier = Backlog(queue.deliveries, self._messages, self._job_changed)

    # ------------------------------------------------------------ what comes in

    def on_event(self, event: Event) -> None:
        """Mark the messages that an event makes out of date.

        Called by the queue; never blocks or raises.
        """
        match event:
            case JobChanged(job=job):
                self._inquiry.changed(job)
                self._job_changed(job)
            case Progressed(job_id=job_id, progress=progress):
                self._serve(self._messages.progress(job_id, progress))
            case Forgotten(job_ids=job_ids):
                self._messages.forget(job_ids)
            case Erased() if self._tasks is not None:
                self._tasks.create_task(self._resume_updates(self._tasks))
            case QueuesMoved():
                self._stale_messages.moved(event)
            case EventsMissed() if self._tasks is not None:
                self._tasks.create_task(self._catch_up(self._tasks))

    def _job_changed(self, job: Job) -> None:
        made = job.owner == recordings.OWNER
        self._serve(self._messages.change_step(job) if made else self._messages.change(job))

    def remember_call(self, invocation: Invocation) -> None:
        """Remember how to answer a call, in case it becomes a job."""
        self._messages.expect(invocation)
        self.answered(invocation.platform)
        channel = self._channels.find(invocation.platform, invocation.chat)
        if channel is not None:
            channel.retry_now()

    def answered(self, platform: str) -> None:
        """Deliver what an outage of the platform has delayed, because it answers again."""
        if platform in self._platforms:
            self._channels.succeeded(platform)

    async def asked(self, platform: str, chat: str) -> None:
        """Wait until a prompt being sent to that chat is recorded, so that replies find it."""
        await self._replies.asked(platform, chat)

    def answer(self, invocation: Invocation, answer: Answer) -> None:
        """Send a call's answer. An accepted job needs none: its status message is the answer."""
        self._messages.expect_no_more(invocation)
        if answer is None or isinstance(answer, AcceptedJob):
            return
        if isinstance(answer, Deletion):
            self._messages.remove(answer.refs)
        if self._tasks is None:
            self._early.append((invocation, answer))
            return
        giving = self._tasks.create_task(self._replies.give(invocation, answer))
        if not isinstance(answer, TaskReply):  # a task may take minutes, and a restart resumes it
            self._giving[giving] = invocation
            giving.add_done_callback(self._given)

    def _given(self, giving: asyncio.Task[None]) -> None:
        del self._giving[giving]
        self._messages.fewer.set()  # wakes `settle`, which waits for answers and messages

    def open_jobs_of(self, user: str) -> Sequence[str]:
        """Return the ids of a person's open jobs, newest first, for completion."""
        own = [message.job for message in self._messages if message.job.owner == user]
        return [str(job.id) for job in reversed(own) if not job.state.final]

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Serve all chats until cancelled, starting with what an earlier run left undelivered."""
        async with TaskGroup() as tasks:
            self._tasks = tasks
            while self._early:
                self.answer(*self._early.pop(0))
            tasks.create_task(self._inquiry.run())
            try:
                await self._resume()
                await self._resume_updates(tasks)
                tasks.create_task(self._earlier.rest())
                tasks.create_task(self._stale_messages.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def _resume(self) -> None:
        """Serve what an earlier run left undelivered."""
        unreachable = await self._records.unreachable()
        await self._earlier.some()
        self._failures.remember(self._messages.by_job(), unreachable)
        for message in list(self._messages):
            self._serve(message)

    async def _catch_up(self, tasks: TaskGroup) -> None:
        """Read open and undelivered jobs again, because events were missed."""
        known = set(self._messages.by_job())
        self._earlier.begin_again()
        try:
            await self._earlier.some()
            for job_id in known & self._messages.by_job().keys():
                job = await self._jobs.get(job_id)
                if job is None:
                    self._messages.forget({job_id})
                else:
                    self._job_changed(job)
        except StoreError as error:
            log.warning("cannot read the jobs that changed while events were missed: %s", error)
        await self._resume_updates(tasks)
        await self._earlier.rest()

    async def _resume_updates(self, tasks: TaskGroup) -> None:
        """Carry out all pending updates, including those of an earlier run."""
        try:
            await self._owed.resume(tasks)
        except StoreError as error:
            log.warning("cannot read the unfinished messages: %s", error)

    async def settle(self, timeout_s: float, *, owner: str = "") -> None:
        """Wait until all results and answers are delivered, at most `timeout_s`.

        A lost answer is never resent, because its platform already counts the call as handled.
        Disconnected platforms are not waited for. `owner` restricts the wait to people whose id
        starts with it.
        """

        def untold() -> bool:
            ended = (message for message in self._messages if message.untold)
            waiting = [
                *((message.job.owner, message.origin.platform) for message in ended),
                *((call.user, call.platform) for call in self._giving.values()),
            ]
            return any(
                user.startswith(owner) and self._connected(platform).is_set()
                for user, platform in waiting
            )

        try:
            async with timeout(timeout_s):
                while untold():
                    self._messages.fewer.clear()
                    await self._messages.fewer.wait()
        except TimeoutError:
            log.info("stopping with undelivered results; they are kept for the next start")

    # ------------------------------------------------------------ serving chats

    def _serve(self, message: StatusMessage | None) -> None:
        """Schedule a message to be shown when its chat allows. Ignores None."""
        if message is None:
            return
        channel = self._channels.of(message)
        channel.wake.set()
        if not channel.served and self._tasks is not None:
            channel.served = True
            self._tasks.create_task(self._serve_channel(channel, message.origin.platform))

    def _connected(self, platform: str) -> asyncio.Event:
        return self._platforms[platform].connected

    async def _serve_channel(self, channel: Channel, platform: str) -> None:
        connected = self._connected(platform)
        try:
            while (
                following := channel.next_message(now := self._clock.now(), len(self._messages))
            ) is not None:
                if not connected.is_set():
                    await connected.wait()
                    continue
                message, due = following
                channel.wake.clear()
                if due > now:
                    await came(channel.wake, due - now)
                    continue
                await self._refresh(channel, message)
                if message.forgotten and message.ref is not None:
                    # The job was deleted during the edit.
                    await self._owed.deleted(message.ref, message.origin)
        finally:
            channel.served = False

    async def _refresh(self, channel: Channel, message: StatusMessage) -> None:
        """Show a message's newest state, and handle the chat's errors."""
        message.take_marks()
        try:
            await self._editor.look_up(message)
            if message.ref is not None and message.ref.chat != message.origin.chat:
                # The chat moved during an earlier run.
                self._messages.rehome(message, message.ref.chat)
                self._serve(message)
            if await self._editor.refresh(message):
                self._messages.drop(message)
            else:
                self._messages.shown(message)
        except SlowDown as slow:
            message.restore_marks()
            self._failures.slow_down(channel, message, slow)
        except MessageGone:
            await self._gone(message)
        except ChatMoved as moved:
            message.restore_marks()
            await self._follow(message, moved.new_chat)
        except (ChatGone, ChatUnavailable) as error:
            message.restore_marks()
            await self._failures.leave_alone(channel, message, error)
        except Exception as error:  # noqa: BLE001  # it is logged there
            # A dropped message's job is deleted, so nothing can be recorded for it.
            if not message.dropped:
                message.restore_marks()
                await self._failures.try_later(message, error)
        else:
            channel.reached()
            message.failures = 0

    async def _gone(self, message: StatusMessage) -> None:
        """Handle a deleted message. Nothing replaces it if its answer has been shown."""
        if message.answer_shown:
            await self._deliveries.acknowledge(message.job)
            self._messages.drop(message)
        else:
            message.ref, message.muted, message.changed = None, True, message.job.state.final

    async def _follow(self, message: StatusMessage, new_chat: str) -> None:
        """Move all messages of a chat to its new id."""
        platform, old = message.origin.platform, message.origin.chat
        await self._records.move_chat(platform, old, new_chat)
        for moved in self._messages.move(platform, old, new_chat):
            self._serve(moved)
