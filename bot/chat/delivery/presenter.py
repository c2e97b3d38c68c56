"""Keeps every job's status message true and sees that every result is shown.

Events only mark messages; one task per chat with something to say lets the editor show the newest
state when the chat's budget allows, so a stale text is never sent and a chat delays only itself.
Everything needed after a restart comes from the database.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from bot.chat.api.answers import Answer, Placed, TaskHandler, Working
from bot.chat.api.base import ChatPlatform, Invocation
from bot.chat.api.chat_settings import ChatSettingsTable
from bot.chat.api.errors import ChatGone, ChatMoved, ChatUnavailable, MessageGone, SlowDown
from bot.chat.api.origin import Origin, origin_in
from bot.chat.delivery.busy_line import BUSY_AFTER_S
from bot.chat.delivery.channels import Channel, Channels, wait
from bot.chat.delivery.delivery_failures import DeliveryFailures
from bot.chat.delivery.editor import Editor
from bot.chat.delivery.extra_messages import ExtraMessages
from bot.chat.delivery.inquiry import Inquiry
from bot.chat.delivery.meter import DeliveryMeter, Unmeasured
from bot.chat.delivery.originals import OriginalHints
from bot.chat.delivery.patient_calls import Patience
from bot.chat.delivery.readings import Readings
from bot.chat.delivery.replies import Replies
from bot.chat.delivery.result_renderer import ResultRenderer
from bot.chat.delivery.stale_messages import StaleMessages
from bot.chat.delivery.status_message import StatusMessage
from bot.chat.delivery.unfinished_messages import Owed
from bot.chat.records.message_records import Records
from bot.queue.service import QueueService
from bot.requests import recordings
from queueing.core.errors import StoreError
from queueing.core.events import (
    Erased,
    Event,
    EventsMissed,
    Forgotten,
    JobChanged,
    LinesMoved,
    Progressed,
)
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

MOST_RESUMED = 2000  # waiting jobs of an earlier run that are shown at once


class Presenter:
    """One for all platforms."""

    def __init__(
        self,
        *,
        queue: QueueService,
        records: Records,
        platforms: Mapping[str, ChatPlatform],
        clock: Clock,
        work: TaskHandler,
        chat_settings: ChatSettingsTable | None = None,
        originals: OriginalHints | None = None,
        readings: Readings | None = None,
        meter: DeliveryMeter | None = None,
        busy_after: Callable[[], float] = lambda: BUSY_AFTER_S,
    ) -> None:
        self._deliveries = queue.deliveries
        self._jobs = queue.jobs
        self._records = records
        self._platforms = platforms
        self._clock = clock
        self._channels = Channels(platforms, clock)
        renderer = ResultRenderer(
            queue.jobs,
            queue.models,
            chat_settings or ChatSettingsTable(),
            originals or OriginalHints(),
        )
        extra_messages = ExtraMessages(records, clock)
        self._inquiry = Inquiry(queue.status)
        self._editor = Editor(
            deliveries=queue.deliveries,
            models=queue.models,
            status=queue.status,
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
            busy_after=busy_after,
        )
        patience = Patience(platforms, self._channels)
        self._owed = Owed(
            platforms=platforms, debts=records.debts, patience=patience, work=work, clock=clock
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
            drop=self._drop,
        )
        self._messages: dict[int, StatusMessage] = {}
        self._stale_messages = StaleMessages(
            status=queue.status,
            messages=self._messages.values(),
            draw=self._editor.draw,
            stale=self._serve,
            clock=clock,
        )
        self._steps: dict[int, StatusMessage] = {}  # by the job made for theirs
        self._expected: dict[str, Invocation] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[tuple[Invocation, Answer]] = []
        self._giving: dict[asyncio.Task[None], Invocation] = {}  # answers on their way
        self._all_told = asyncio.Event()
        self._resumed = 0  # the newest waiting job of an earlier run that has a message
        self._dropped = asyncio.Event()

    # ------------------------------------------------------------ what comes in

    def on_event(self, event: Event) -> None:
        """Mark what an event made out of date. Called by the queue; never blocks or raises."""
        match event:
            case JobChanged(job=job):
                self._inquiry.changed(job)
                self._job_changed(job)
            case Progressed(job_id=job_id, progress=progress):
                message = self._messages.get(job_id) or self._steps.get(job_id)
                if message is not None:
                    message.advance(progress)
                    self._serve(message)
            case Forgotten(job_ids=job_ids):
                self._forget(job_ids)
            case Erased() if self._tasks is not None:
                self._tasks.create_task(self._resume_debts(self._tasks))
            case LinesMoved():
                self._stale_messages.moved(event)
            case EventsMissed() if self._tasks is not None:
                self._tasks.create_task(self._catch_up(self._tasks))

    def remember_call(self, invocation: Invocation) -> None:
        """Remember how to answer a call, in case it becomes a job."""
        self._expected[invocation.key] = invocation
        channel = self._channels.find(invocation.platform, invocation.chat)
        if channel is not None:
            channel.retry_now()

    async def asked(self, platform: str, chat: str) -> None:
        """Wait until a prompt on its way into that chat is recorded, so that a reply finds it."""
        await self._replies.asked(platform, chat)

    def answer(self, invocation: Invocation, answer: Answer) -> None:
        """Send a call's answer; a placed job's status message is already on its way."""
        self._expected.pop(invocation.key, None)
        if answer is None or isinstance(answer, Placed):
            return
        if self._tasks is None:
            self._early.append((invocation, answer))
            return
        giving = self._tasks.create_task(self._replies.give(invocation, answer))
        if not isinstance(answer, Working):  # which may take minutes, and a restart resumes it
            self._giving[giving] = invocation
            giving.add_done_callback(self._given)

    def _given(self, giving: asyncio.Task[None]) -> None:
        del self._giving[giving]
        self._all_told.set()

    def open_jobs_of(self, user: str) -> Sequence[str]:
        """Return the numbers of a person's open jobs, newest first, for completion."""
        own = [message.job for message in self._messages.values() if message.job.owner == user]
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
                await self._resume()
                await self._resume_debts(tasks)
                tasks.create_task(self._resume_more())
                tasks.create_task(self._stale_messages.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def _resume(self) -> None:
        """Begin with what an earlier run left unsaid."""
        unreachable = await self._records.unreachable()
        await self._resume_some()
        self._failures.remember(self._messages, unreachable)
        for message in list(self._messages.values()):
            self._serve(message)

    async def _resume_some(self) -> bool:
        """Create messages for some jobs of an earlier run; return whether more may wait.

        A job far back in a long line gets its message when others have gone, or when an event
        concerns it: until then its message shows what it showed before.
        """
        jobs = await self._deliveries.to_tell(self._resumed, MOST_RESUMED)
        for job in jobs:
            self._job_changed(job)
        waiting = [job.id for job in jobs if job.state is JobState.PENDING]
        self._resumed = max(waiting, default=self._resumed)
        return len(waiting) >= MOST_RESUMED

    async def _resume_more(self) -> None:
        """Continue as messages are finished, until every job of an earlier run had one."""
        more = True
        while more:
            if len(self._messages) > MOST_RESUMED // 2:
                self._dropped.clear()
                await self._dropped.wait()
                continue
            try:
                more = await self._resume_some()
            except StoreError as error:
                log.warning("waiting jobs of an earlier run cannot be read: %s", error)
                self._dropped.clear()
                await self._dropped.wait()

    async def _catch_up(self, tasks: asyncio.TaskGroup) -> None:
        """Read what is open or unsaid once more, because events were missed."""
        known = set(self._messages)
        self._resumed = 0
        try:
            await self._resume_some()
            for job_id in known & self._messages.keys():
                job = await self._jobs.get(job_id)
                if job is None:
                    self._forget({job_id})
                else:
                    self._job_changed(job)
        except StoreError as error:
            log.warning("what has happened meanwhile cannot be read: %s", error)
        await self._resume_debts(tasks)
        await self._resume_more()

    async def settle(self, timeout_s: float, *, owner: str = "") -> None:
        """Wait until every ended job's end and every answer is in its chat, at most that long.

        A call whose answer is lost is not repeated: its platform was told that it is carried out.
        Chats that are not connected are not waited for. `owner` restricts it to people whose id
        begins with it.
        """

        def untold() -> bool:
            ended = (message for message in self._messages.values() if message.current.state.final)
            waiting = [
                *((message.job.owner, message.origin.platform) for message in ended),
                *((call.user, call.platform) for call in self._giving.values()),
            ]
            return any(
                user.startswith(owner) and self._connected(platform).is_set()
                for user, platform in waiting
            )

        try:
            async with asyncio.timeout(timeout_s):
                while untold():
                    self._all_told.clear()
                    await self._all_told.wait()
        except TimeoutError:
            log.info("stopping with results not yet delivered; they are kept")

    def _step_changed(self, made: Job) -> None:
        """Show where the job stands that writes down a recording or reads an answer aloud."""
        message = self._messages.get(made.parent or 0)
        if message is None or (message.step is not None and message.step.id > made.id):
            return
        if message.step is None or message.step.state is not made.state:
            message.progress = None
        message.step = None if made.state.final else made
        if message.step is None:
            self._steps.pop(made.id, None)
        message.changed = True
        self._serve(message)

    def _job_changed(self, job: Job) -> None:
        if job.owner == recordings.OWNER:
            self._step_changed(job)
            return
        message = self._messages.get(job.id)
        if message is None:
            message = self._new_message(job)
            if message is None:
                return
        elif job.version < message.job.version:
            return
        if job.state is not message.job.state:
            message.progress = None
            if job.state is JobState.PENDING:
                message.written = ""  # it begins again
            elif job.state.final:
                message.delayed_until = 0.0  # a penalty in a passing state does not concern the end
        if job.reply_to != message.job.reply_to and (told := origin_in(job.reply_to)) is not None:
            message.origin = message.origin.model_copy(update={"cut": told.cut})
        message.job, message.changed = job, True
        if not job.held:  # its recording is written down
            message.step = None
        self._serve(message)

    def _new_message(self, job: Job) -> StatusMessage | None:
        if job.acknowledged:
            return None
        origin = origin_in(job.reply_to)
        if origin is None or not self._serves(origin):
            return None  # without a chat, or one that is switched off or served elsewhere
        message = StatusMessage(job=job, origin=origin)
        call = self._expected.pop(origin.key, None)
        if call is not None and not call.button:
            message.respond = call.respond
        self._messages[job.id] = message
        self._channels.of(message).messages[job.id] = message
        return message

    def _serves(self, origin: Origin) -> bool:
        platform = self._platforms.get(origin.platform)
        return platform is not None and platform.serves(origin.chat, origin.within)

    # ------------------------------------------------------------ serving chats

    def _serve(self, message: StatusMessage) -> None:
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
                following := channel.next_message(self._clock.now(), len(self._messages))
            ) is not None:
                if not connected.is_set():
                    await connected.wait()
                    continue
                message, due = following
                channel.wake.clear()
                wait_s = due - self._clock.now()
                if wait_s > 0:
                    await wait(channel.wake, wait_s)
                    continue
                await self._refresh(channel, message)
                if message.forgotten and message.ref is not None:  # while it was being shown
                    await self._owed.deleted(message.ref, message.origin)
        finally:
            channel.served = False

    async def _refresh(self, channel: Channel, message: StatusMessage) -> None:
        """Show a message's newest state, and react to the chat's error."""
        asked = message.take_marks()
        try:
            await self._editor.look_up(message)
            if message.ref is not None and message.ref.chat != message.origin.chat:
                self._rehome(message, message.ref.chat)  # the chat moved in an earlier run
            self._shown(message, everything=await self._editor.refresh(message))
        except SlowDown as slow:
            message.mark(asked)
            self._failures.slow_down(channel, message, slow)
        except MessageGone:
            await self._gone(message)
        except ChatMoved as moved:
            message.mark(asked)
            await self._follow(message, moved.new_chat)
        except (ChatGone, ChatUnavailable) as error:
            message.mark(asked)
            await self._failures.leave_alone(channel, message, error)
        except Exception as error:  # noqa: BLE001  # it is logged there
            if (
                not message.dropped
            ):  # otherwise it was forgotten just now, and nothing can be recorded for it
                message.mark(asked)
                await self._failures.try_later(message, error)
        else:
            channel.reached()
            message.failures = 0

    def _shown(self, message: StatusMessage, *, everything: bool) -> None:
        if everything:
            self._drop(message)
        elif message.step is not None and not message.dropped:
            self._steps[message.step.id] = message

    async def _gone(self, message: StatusMessage) -> None:
        """Go on without a message that was deleted; an answer that was read needs no other."""
        if message.told:
            await self._deliveries.acknowledge(message.job)
            self._drop(message)
        else:
            message.ref, message.muted, message.changed = None, True, message.job.state.final

    def _drop(self, message: StatusMessage) -> None:
        message.dropped = True
        if message.step is not None:
            self._steps.pop(message.step.id, None)
        self._messages.pop(message.job.id, None)
        self._channels.of(message).messages.pop(message.job.id, None)
        self._all_told.set()
        self._dropped.set()

    # ------------------------------------------------------------ chats that move

    async def _follow(self, message: StatusMessage, new_chat: str) -> None:
        """Continue at a chat's new id with all its messages."""
        platform, old = message.origin.platform, message.origin.chat
        await self._records.move_chat(platform, old, new_chat)
        channel = self._channels.at(platform, old)
        self._channels.remove(platform, old)
        for each in list(channel.messages.values()):
            self._rehome(each, new_chat)

    def _rehome(self, message: StatusMessage, new_chat: str) -> None:
        self._channels.of(message).messages.pop(message.job.id, None)
        message.origin = message.origin.model_copy(update={"chat": new_chat, "request": None})
        if message.ref is not None:
            message.ref = replace(message.ref, chat=new_chat)
        message.changed = True
        self._channels.of(message).messages[message.job.id] = message
        self._serve(message)

    # ------------------------------------------------------------ forgetting

    def _forget(self, job_ids: Collection[int]) -> None:
        """Drop the jobs that are being deleted; what their messages must become is then a debt."""
        for message in [
            message for message in self._messages.values() if message.job.id in job_ids
        ]:
            message.forgotten = True
            self._drop(message)

    async def _resume_debts(self, tasks: asyncio.TaskGroup) -> None:
        """Settle the debts of messages, those of an earlier run included."""
        try:
            await self._owed.resume(tasks)
        except StoreError as error:
            log.warning("unfinished messages cannot be read: %s", error)
