"""Transcribes what people say to a page, as jobs of theirs that no chat shows.

The page chooses a key for each recording and asks for the transcript by it. No message reports the
end of these jobs, so each is acknowledged when it ends; retention deletes it like any other.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from bot.core.asker import Asker, rooms_of
from bot.core.origin import Origin, origin_in
from bot.core.queue import Deliveries, JobReader, JobSubmitter, QueueStatus
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.people.access import Access
from bot.people.people import People
from bot.requests.admission import AdmissionService
from bot.requests.files.media import checked_sound
from bot.requests.limits import SubmissionDetails
from bot.requests.recordings import words_of
from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job
from queueing.core.requests import Capability, SpeechToText

log = logging.getLogger(__name__)

PLATFORM = "dictation"  # of these jobs' origins; no chat has this name
AGAIN_S = 5.0  # until a retry after a database failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Speaker:
    """A person at a page: their platform and chat there, their user, name and language."""

    platform: str
    chat: str
    user: str
    name: str
    language: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dictated:
    """The state of a recording: its job, its `text` once it is done, and when it probably is."""

    job: Job
    text: str | None = None
    ends_at: float | None = None


class DictationEnds:
    """Acknowledges the ended jobs of dictations, in the process that runs the queue."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._ended: asyncio.Queue[Job | None] = asyncio.Queue()  # None: those of an earlier run
        self._ended.put_nowait(None)

    def on_event(self, event: Event) -> None:
        """Handle the ends of these jobs. Never blocks."""
        if isinstance(event, JobChanged):
            self._note(event.job)

    async def run(self) -> None:
        """Acknowledge ended jobs until cancelled, starting with those of an earlier run."""
        while True:
            job = await self._ended.get()
            try:
                if job is not None:
                    await self._deliveries.acknowledge(job)
                    continue
                for left in await self._deliveries.to_tell(0, 0):
                    self._note(left)
            except StoreError as error:
                log.warning("cannot acknowledge transcripts: %s", error)
                await asyncio.sleep(AGAIN_S)
                self._ended.put_nowait(job)

    def _note(self, job: Job) -> None:
        if job.state.final and not job.acknowledged and is_dictated(job):
            self._ended.put_nowait(job)


@dataclass(kw_only=True, eq=False, repr=False)
class Dictation:
    """Submits people's recordings and returns their transcripts."""

    submitter: JobSubmitter
    jobs: JobReader
    status: QueueStatus
    admission: AdmissionService
    people: People
    access: Access
    # set and replaced whenever such a job changes
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def on_event(self, event: Event) -> None:
        """Wake those who wait for these jobs. Never blocks."""
        if isinstance(event, JobChanged) and is_dictated(event.job):
            self._changed.set()
            self._changed = asyncio.Event()

    async def submit(self, by: Speaker, key: str, data: bytes) -> Job | Refusal:
        """Accept a recording within the person's limits. Idempotent by `key`.

        Raises `StoreError`.
        """
        try:
            return await self._submit(by, key, data)
        except Declined as declined:
            return declined.refusal

    async def _submit(self, by: Speaker, key: str, data: bytes) -> Job | Refusal:
        if not self.access.lets_in(by.platform, (by.chat,)):
            raise Declined(Refusal(RefusalKind.CHAT_NOT_ALLOWED, chat=by.chat))
        if not self.access.may_use(by.platform, by.user, ()):
            raise Declined(Refusal(RefusalKind.ROLE_NEEDED))
        person = await self.people.get(by.user)
        rooms = rooms_of(by.platform, (by.chat,))
        admission = self.admission.of(Asker(user=by.user, rooms=rooms))
        model = admission.usual_model(person, Capability.SPEECH_TO_TEXT)
        sound = await checked_sound("", data)
        origin = Origin(
            platform=PLATFORM,
            chat=by.chat,
            group=False,
            user=by.user,
            user_name=by.name,
            language=by.language,
            key=_key(by.user, key),
        )
        asking = SubmissionDetails(person=person, key=origin.key, reply_to=origin.model_dump_json())
        return await admission.submit(asking, model, SpeechToText(), (sound,))

    async def find(self, user: str, key: str, *, within_s: float = 0.0) -> Dictated | None:
        """Return a person's recording once it is transcribed, at the latest after `within_s`.

        None if they have no such recording. Raises `StoreError`.
        """
        job = await self.jobs.find(_key(user, key))
        try:
            async with timeout(within_s):
                while job is not None and not job.state.final:
                    changed = self._changed
                    job = await self.jobs.get(job.id)
                    if job is not None and not job.state.final:
                        await changed.wait()
        except TimeoutError:
            pass
        return None if job is None else await self._dictated(job)

    async def _dictated(self, job: Job) -> Dictated:
        if not job.state.final:
            ends = (await self.status.standings((job,)))[job.id].ends
            return Dictated(job=job, ends_at=None if ends is None else ends.at)
        output = await self.jobs.output(job)
        return Dictated(job=job, text=None if output is None else words_of(output.text))

    async def cancel(self, user: str, key: str) -> None:
        """Cancel a person's recording. Idempotent. Raises `StoreError`."""
        job = await self.jobs.find(_key(user, key))
        if job is not None:
            await self.submitter.cancel(job.id)


def is_dictated(job: Job) -> bool:
    """Return whether a job transcribes what a person said to a page."""
    if f'"{PLATFORM}"' not in job.reply_to:  # most jobs are from chats
        return False
    origin = origin_in(job.reply_to)
    return origin is not None and origin.platform == PLATFORM


def _key(user: str, key: str) -> str:
    # The page chooses its keys. The person's id in front prevents the use of someone else's.
    return f"{user}:dictation:{key}"
