"""The status messages of jobs whose ends are not yet delivered, by job and by chat.

Updates them as jobs change. Sends nothing and does not decide when to send.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from bot.core.origin import origin_in
from bot.core.platform import ChatPlatform, Invocation, MessageRef
from bot.delivery.channels import Channels
from bot.delivery.status_message import StatusMessage
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Progress


class OpenMessages:
    """All status messages that may still need an edit.

    Iterating yields them. `fewer` is set whenever one is dropped.
    """

    def __init__(self, platforms: Mapping[str, ChatPlatform], channels: Channels) -> None:
        self._platforms = platforms
        self._channels = channels
        self._messages: dict[int, StatusMessage] = {}
        # By the id of the job that transcribes or reads aloud.
        self._steps: dict[int, StatusMessage] = {}
        self._calls: dict[str, Invocation] = {}
        self.fewer = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[StatusMessage]:
        return iter(self._messages.values())

    def by_job(self) -> Mapping[int, StatusMessage]:
        """Return the messages by job id."""
        return self._messages

    # ------------------------------------------------------------ calls that may become jobs

    def expect(self, call: Invocation) -> None:
        """Remember how to answer a call, in case it becomes a job."""
        self._calls[call.key] = call

    def expect_no_more(self, call: Invocation) -> None:
        """Forget a call that has been answered or whose job has its message."""
        self._calls.pop(call.key, None)

    # ------------------------------------------------------------ what jobs report

    def change(self, job: Job) -> StatusMessage | None:
        """Record a changed job. Returns its message if that makes the message out of date.

        A job without a message gets one if its end is undelivered and this process serves its chat.
        """
        message = self._messages.get(job.id)
        if message is None:
            message = self._new(job)
            if message is None:
                return None
        elif job.version < message.job.version:
            return None
        if job.state is not message.job.state:
            message.progress = None
            if job.state is JobState.PENDING:
                message.written = ""  # the answer starts over
            elif job.state.final:
                # A delay of the open job's edits does not apply to its end.
                message.delayed_until = 0.0
        if job.reply_to != message.job.reply_to and (told := origin_in(job.reply_to)) is not None:
            cut = {"cut": told.cut, "cut_recording": told.cut_recording}
            message.origin = message.origin.model_copy(update=cut)
        message.job = job
        begun = job.state is JobState.PROCESSING and message.shown is not None
        if begun and self._channels.of(message).crowded:
            message.moved = True  # a crowded chat's text for a waiting job stays true
        else:
            message.changed = True
        if not job.held:  # its recording is transcribed
            message.step = None
        return message

    def change_step(self, made: Job) -> StatusMessage | None:
        """Record a change of the job that transcribes a recording or reads an answer aloud."""
        message = self._messages.get(made.parent or 0)
        if message is None or (message.step is not None and message.step.id > made.id):
            return None
        if message.step is None or message.step.state is not made.state:
            message.progress = None
        message.step = None if made.state.final else made
        if message.step is None:
            self._steps.pop(made.id, None)
        message.changed = True
        return message

    def progress(self, job_id: int, progress: Progress) -> StatusMessage | None:
        """Record the progress of a job or of its step. Returns the message that shows it."""
        message = self._messages.get(job_id) or self._steps.get(job_id)
        if message is not None:
            message.advance(progress)
        return message

    def _new(self, job: Job) -> StatusMessage | None:
        if job.acknowledged:
            return None
        origin = origin_in(job.reply_to)
        if origin is None or origin.platform not in self._platforms:
            return None  # no chat, or the platform is disabled or served by another process
        message = StatusMessage(job=job, origin=origin)
        call = self._calls.pop(origin.key, None)
        if call is not None and not call.button:
            message.respond, message.in_time = call.respond, call.in_time
        self._messages[job.id] = message
        self._channels.of(message).messages[job.id] = message
        return message

    # ------------------------------------------------------------ what was shown

    def shown(self, message: StatusMessage) -> None:
        """Route the progress of a message's step to it, once the message shows that step."""
        if message.step is not None and not message.dropped:
            self._steps[message.step.id] = message

    def drop(self, message: StatusMessage) -> None:
        """Forget a message that needs no more edits."""
        message.dropped = True
        if message.step is not None:
            self._steps.pop(message.step.id, None)
        self._messages.pop(message.job.id, None)
        self._channels.of(message).messages.pop(message.job.id, None)
        self.fewer.set()

    def forget(self, job_ids: Collection[int]) -> None:
        """Drop the messages of deleted jobs. The updates that they still need are recorded."""
        for message in [message for message in self if message.job.id in job_ids]:
            message.forgotten = True
            self.drop(message)

    def remove(self, refs: Collection[MessageRef]) -> None:
        """Note which results are being deleted from their chat, so that nothing follows them."""
        for message in self:
            message.removed |= message.ref in refs

    # ------------------------------------------------------------ chats that move

    def move(self, platform: str, old: str, new: str) -> list[StatusMessage]:
        """Move all messages of a chat to its new id, and return them."""
        channel = self._channels.at(platform, old)
        self._channels.remove(platform, old)
        moved = list(channel.messages.values())
        for message in moved:
            self.rehome(message, new)
        return moved

    def rehome(self, message: StatusMessage, chat: str) -> None:
        """Move one message to its chat's new id."""
        self._channels.of(message).messages.pop(message.job.id, None)
        message.origin = message.origin.model_copy(update={"chat": chat, "request": None})
        if message.ref is not None:
            message.ref = replace(message.ref, chat=chat)
        message.changed = True
        self._channels.of(message).messages[message.job.id] = message
