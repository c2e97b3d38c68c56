"""Runs prompt enhancement: a text model improves the prompt for an image model.

Owns the jobs it submits to a text model, from acceptance to end. The image keeps its place and
never waits longer than its delay: without an answer by then, the original prompt is used.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field

from pydantic import ValidationError

from bot.core.live_settings import ChatSettingsTable
from bot.core.origin import Origin
from bot.core.queue import Deliveries, JobEraser, JobReader, JobSubmitter
from bot.core.refusals import Declined
from bot.requests.admission import AdmissionService
from bot.requests.creation import Made
from bot.requests.enhancement import OWNER, improved
from bot.requests.rules import require_loras
from bot.requests.word_filter import said_in, unwanted_word
from queueing.core.concurrency import TaskGroup, timeout
from queueing.core.errors import StoreError
from queueing.core.events import Event, Forgotten, JobChanged
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock
from queueing.core.requests import Request

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Enhancer:
    """Requests better prompts for delayed images, videos and music, and releases these jobs."""

    submitter: JobSubmitter
    jobs: JobReader
    deliveries: Deliveries
    erasure: JobEraser
    admission: AdmissionService
    clock: Clock
    chat_settings: ChatSettingsTable
    _held: asyncio.Queue[Job] = field(default_factory=asyncio.Queue, init=False)
    # images in progress: a repeated call reports its image again
    _taken: set[int] = field(default_factory=set, init=False)
    # by image and by question
    _ends: dict[int, asyncio.Future[None]] = field(default_factory=dict, init=False)

    def on_event(self, event: Event) -> None:
        """Handle new delayed images, and the ends of awaited jobs."""
        if isinstance(event, Forgotten):
            for job_id in event.job_ids & self._ends.keys():
                _resolve(self._ends[job_id])
        if not isinstance(event, JobChanged):
            return
        job = event.job
        if event.event is None and self._is_held(job) and job.id not in self._taken:
            self._taken.add(job.id)
            self._held.put_nowait(job)
        elif job.state.final and job.id in self._ends:
            _resolve(self._ends[job.id])

    def _is_held(self, job: Job) -> bool:
        waits = job.state is JobState.PENDING and job.attempt == 0
        return waits and job.not_before > self.clock.now()

    async def run(self) -> None:
        """Serve until cancelled. Starts with what an earlier run left behind."""
        async with TaskGroup() as tasks:
            left = await self.deliveries.unacknowledged(OWNER)
            for question in left:
                tasks.create_task(self._guarded(self._resume(question), question))
            # After a crash, a call that was not confirmed to its chat is delivered again.
            taken_up = {question.parent for question in left}
            while True:
                image = await self._held.get()
                if image.id not in taken_up:
                    tasks.create_task(self._guarded(self._enhance(image), image))

    async def _guarded(self, steps: Coroutine[None, None, None], job: Job) -> None:
        """Contain a bug: the delay of the image ends anyway."""
        try:
            await steps
        except StoreError as error:
            log.warning("job %d: gave up improving its prompt: %s", job.id, error)
        except Exception:
            log.exception("job %d: improving its prompt failed", job.id)
        finally:
            self._taken.discard(job.id)

    async def _resume(self, question: Job) -> None:
        """Resume a question of an earlier run, whatever has become of its image."""
        image = await self.jobs.get(question.parent or 0)
        if image is None or image.state is not JobState.PENDING or image.attempt:
            await self._end(question)
        else:
            await self._see_through(image, question)

    async def _enhance(self, image: Job) -> None:
        asked = await self.admission.ask_for_prompt(image)
        if isinstance(asked, Job):
            await self._see_through(image, asked)
        elif asked is not None:
            log.info("job %d: its prompt is not improved: %s", image.id, asked)
            await self.submitter.replace_request(image.id, image.request)

    async def _see_through(self, image: Job, asked: Job) -> None:
        """Wait for the answer as long as the image may be delayed, then release the image."""
        await self._ended(image, asked)
        current = await self.jobs.get(asked.id) or asked
        request = image.request
        if current.state is JobState.COMPLETED and isinstance(request, Made):
            output = await self.jobs.output(current)
            request = self._acceptable(image, improved(request, output.text if output else ""))
        amended = await self.submitter.replace_request(image.id, request)
        if amended is not None and request != image.request:
            log.info("job %d: its prompt was improved by job %d", image.id, asked.id)
        await self._end(current)

    def _acceptable(self, image: Job, better: Made) -> Request:
        """Return the improved request, or the original if the chat or a rule would refuse it."""
        try:
            origin = Origin.model_validate_json(image.reply_to)
        except ValidationError:
            return better
        try:
            require_loras(self.admission.of_job(image).rule, better)
        except Declined:
            return image.request
        words = self.chat_settings.of(origin.platform, origin.places).words
        return better if unwanted_word(words, said_in(better)) is None else image.request

    async def _ended(self, image: Job, asked: Job) -> None:
        """Wait until the question or the image has ended, or the delay is over."""
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends[image.id] = self._ends[asked.id] = end
        try:
            async with timeout(max(0.0, image.not_before - self.clock.now())):
                for job_id in (image.id, asked.id):  # it may have ended before `end` was registered
                    current = await self.jobs.get(job_id)
                    if current is None or current.state.final:
                        return
                await end
        except TimeoutError:
            log.info("job %d: no better prompt in time", image.id)
        finally:
            del self._ends[image.id], self._ends[asked.id]

    async def _end(self, asked: Job) -> None:
        """End a question that is no longer needed. If its image was deleted, delete it too."""
        ended = await self.submitter.cancel(asked.id)
        await self.deliveries.acknowledge(ended or asked)
        if await self.jobs.get(asked.parent or 0) is None:
            await self.erasure.forget(OWNER, frozenset({asked.id}))


def _resolve(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)
