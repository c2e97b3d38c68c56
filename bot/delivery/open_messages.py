"""The status messages of the jobs whose ends are not told yet, by job and by chat.

Changes what they know as jobs change; sends nothing and decides nothing about when.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from bot.core.origin import origin_in
from bot.core.platform import ChatPlatform, Invocation
from bot.delivery.channels import Channels
from bot.delivery.status_message import StatusMessage
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Progress


class OpenMessages:
    """All status messages that may still have something to say.

    Iterating yields them. `fewer` is set whenever one is dropped.
    """

    def __init__(self, platforms: Mapping[str, ChatPlatform], channels: Channels) -> None:
        self._platforms = platforms
        self._channels = channels
        self._messages: dict[int, StatusMessage] = {}
        self._steps: dict[int, StatusMessage] = {}  # by the job made for theirs
        self._calls: dict[str, Invocation] = {}
        self.fewer = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[StatusMessage]:
        return iter(self._messages.values())

    def by_job(self) -> Mapping[int, StatusMessage]:
        """Return the messages by the numbers of their jobs."""
        return self._messages

    # ------------------------------------------------------------ calls that may become jobs

    def expect(self, call: Invocation) -> None:
        """Remember how to answer a call, in case it becomes a job."""
        self._calls[call.key] = call

    def expect_no_more(self, call: Invocation) -> None:
        """Forget a call: it has been answered, or its job has its message."""
        self._calls.pop(call.key, None)

    # ------------------------------------------------------------ what jobs report

    def change(self, job: Job) -> StatusMessage | None:
        """Record what a job has become; return its message if that makes it out of date.

        A job without a message gets one if it has something to tell in a chat served here.
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
                message.written = ""  # it begins again
            elif job.state.final:
                message.delayed_until = 0.0  # a penalty in a passing state does not concern the end
        if job.reply_to != message.job.reply_to and (told := origin_in(job.reply_to)) is not None:
            cut = {"cut": told.cut, "cut_recording": told.cut_recording}
            message.origin = message.origin.model_copy(update=cut)
        message.job = job
        begun = job.state is JobState.PROCESSING and message.shown is not None
        if begun and self._channels.of(message).crowded:
            message.moved = True  # what a crowded chat says of a waiting job stays true
        else:
            message.changed = True
        if not job.held:  # its recording is written down
            message.step = None
        return message

    def change_step(self, made: Job) -> StatusMessage | None:
        """Record where a job stands that writes down a recording or reads an answer aloud."""
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
        """Record how far a job has come, or one made for it; return the message that shows it."""
        message = self._messages.get(job_id) or self._steps.get(job_id)
        if message is not None:
            message.advance(progress)
        return message

    def _new(self, job: Job) -> StatusMessage | None:
        if job.acknowledged:
            return None
        origin = origin_in(job.reply_to)
        if origin is None or origin.platform not in self._platforms:
            return None  # without a chat, or one that is switched off or another process's
        message = StatusMessage(job=job, origin=origin)
        call = self._calls.pop(origin.key, None)
        if call is not None and not call.button:
            message.respond = call.respond
        self._messages[job.id] = message
        self._channels.of(message).messages[job.id] = message
        return message

    # ------------------------------------------------------------ what was shown

    def shown(self, message: StatusMessage) -> None:
        """Have the progress of its step shown in a message that shows the step by now."""
        if message.step is not None and not message.dropped:
            self._steps[message.step.id] = message

    def drop(self, message: StatusMessage) -> None:
        """Forget a message: nothing more is to be shown in it."""
        message.dropped = True
        if message.step is not None:
            self._steps.pop(message.step.id, None)
        self._messages.pop(message.job.id, None)
        self._channels.of(message).messages.pop(message.job.id, None)
        self.fewer.set()

    def forget(self, job_ids: Collection[int]) -> None:
        """Drop the jobs that are being deleted; what their messages must become is then a debt."""
        for message in [message for message in self if message.job.id in job_ids]:
            message.forgotten = True
            self.drop(message)

    # ------------------------------------------------------------ chats that move

    def move(self, platform: str, old: str, new: str) -> list[StatusMessage]:
        """Take all messages of a chat to its new id; return them."""
        channel = self._channels.at(platform, old)
        self._channels.remove(platform, old)
        moved = list(channel.messages.values())
        for message in moved:
            self.rehome(message, new)
        return moved

    def rehome(self, message: StatusMessage, chat: str) -> None:
        """Take one message to the new id of its chat."""
        self._channels.of(message).messages.pop(message.job.id, None)
        message.origin = message.origin.model_copy(update={"chat": chat, "request": None})
        if message.ref is not None:
            message.ref = replace(message.ref, chat=chat)
        message.changed = True
        self._channels.of(message).messages[message.job.id] = message
