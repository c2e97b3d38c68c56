"""Transcribes recordings and asks their questions with the transcript.

Owns the jobs made for questions with recordings, from acceptance to end. Interrupted work is
resumed at the next start: the questions that are still held show what remains to be done.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from bot.core.live_settings import ChatSettingsTable
from bot.core.origin import origin_in
from bot.core.queue import Deliveries, JobEraser, JobReader, JobSubmitter
from bot.core.refusals import RefusalKind
from bot.people.people import People
from bot.requests import recordings
from bot.requests.admission import AdmissionService
from bot.requests.word_filter import unwanted_word
from queueing.core.concurrency import TaskGroup, came
from queueing.core.errors import (
    Problem,
    ProblemKind,
    StoreError,
    problem,
)
from queueing.core.events import Event, Forgotten, JobChanged
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, SpeechToText

log = logging.getLogger(__name__)

_NO_ROOM = {RefusalKind.TOO_MANY_OPEN, RefusalKind.NOT_ACCEPTING, RefusalKind.FULL_DISK}

AGAIN_S = 5.0  # until a retry after a full queue or a database failure


class Unheard(Exception):
    """A recording cannot be transcribed; `problem` is the reason."""

    def __init__(self, why: Problem) -> None:
        super().__init__(str(why))
        self.problem = why


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Transcriber:
    """Submits transcriptions, releases the questions that wait for them, and cleans up."""

    submitter: JobSubmitter
    jobs: JobReader
    deliveries: Deliveries
    erasure: JobEraser
    admission: AdmissionService
    people: People
    chat_settings: ChatSettingsTable
    # questions to serve
    _news: asyncio.Queue[int] = field(default_factory=asyncio.Queue, init=False)
    # questions being served, and whether to serve them again
    _again: dict[int, bool] = field(default_factory=dict, init=False)
    # questions that wait for a recording
    _wakes: dict[int, asyncio.Event] = field(default_factory=dict, init=False)
    # open jobs made for questions, with their question
    _made: dict[int, int] = field(default_factory=dict, init=False)

    def on_event(self, event: Event) -> None:
        """Handle new questions, and the ends of all jobs that belong to one. Never blocks."""
        match event:
            case Forgotten(job_ids=job_ids):
                for question in job_ids & {*self._wakes, *self._made.values()}:
                    self._take(question)
            case JobChanged(job=job) if job.owner == recordings.OWNER:
                self._note(job)
            case JobChanged(job=job) if job.id in self._wakes or recordings.unheard(job):
                self._take(job.id)

    def _note(self, made: Job) -> None:
        """Record a job made for a question, so that its end wakes the question."""
        if not made.state.final and made.parent is not None:
            self._made[made.id] = made.parent
        elif (question := self._made.pop(made.id, None)) is not None:
            self._take(question)

    def _take(self, question: int) -> None:
        if question in self._wakes:
            self._wakes[question].set()
        if question in self._again:
            self._again[question] = True
        else:
            self._again[question] = False
            self._news.put_nowait(question)

    async def run(self) -> None:
        """Serve until cancelled. Starts with what an earlier run left behind."""
        async with TaskGroup() as tasks:
            tasks.create_task(self._begin())
            while True:
                tasks.create_task(self._serve_until_done(await self._news.get()))

    async def _begin(self) -> None:
        while True:
            try:
                left = await self.deliveries.unacknowledged(recordings.OWNER)
                held = await self.jobs.held_jobs()
            except StoreError as error:
                log.warning("cannot read the recordings of an earlier run: %s", error)
                await asyncio.sleep(AGAIN_S)
                continue
            for made in left:
                self._made[made.id] = made.parent or 0
            for question in {made.parent or 0 for made in left} | {
                job.id for job in held if recordings.unheard(job)
            }:
                self._take(question)
            return

    async def _serve_until_done(self, question: int) -> None:
        """Serve a question until nothing remains to be done. A bug affects only this question."""
        more = True
        while more:
            self._again[question] = False
            try:
                await self._serve(question)
                more = self._again[question]
            except StoreError as error:
                log.warning("job %d: retrying its recordings: %s", question, error)
                await asyncio.sleep(AGAIN_S)
            except Exception:
                log.exception("job %d: transcribing its recordings failed", question)
                more = False
        del self._again[question]

    async def _serve(self, number: int) -> None:
        question = await self.jobs.get(number)
        if question is not None and recordings.unheard(question):
            wake = self._wakes[number] = asyncio.Event()
            try:
                await self._write_down(question, wake)
            except Unheard as why:
                log.info("job %d: %s", number, why)
                await self.submitter.give_up(number, why.problem)
            finally:
                del self._wakes[number]
        await self._clear_up(number)

    # ------------------------------------------------------------ writing down

    async def _write_down(self, question: Job, wake: asyncio.Event) -> None:
        """Transcribe a question's recordings and release it, unless it ends first.

        Raises `Unheard`.
        """
        current: Job | None = question
        while current is not None and (places := recordings.unheard(current)):
            heard = []
            for place in places:
                text = await self._transcript_of(current, place, wake)
                if text is None:
                    return
                heard.append(text)
            await self._release(current, heard)
            current = await self.jobs.get(question.id)  # a late part may have arrived

    async def _transcript_of(self, question: Job, place: int, wake: asyncio.Event) -> str | None:
        """Return a recording's transcript; None if its question ends first. Raises `Unheard`."""
        while True:
            wake.clear()
            current = await self.jobs.get(question.id)
            if current is None or not current.held:
                return None
            made = await self.jobs.find(recordings.writing_key(question.id, place))
            if made is None:
                made = await self._accepted(question, place)
            if made is not None and made.state.final:
                return await self._text(made)
            await came(wake, None if made is not None else AGAIN_S)

    async def _accepted(self, question: Job, place: int) -> Job | None:
        """Submit the transcription of a recording; None if there is no space for it.

        Raises `Unheard`.
        """
        sound = (await self.jobs.inputs(question) or ())[place]
        person = await self.people.get(question.owner)
        outcome = await self.admission.of_job(question).write_down(person, question, place, sound)
        if isinstance(outcome, Job):
            self._note(outcome)
            return outcome
        log.info("job %d: its transcription was refused: %s", question.id, outcome)
        if outcome.kind in _NO_ROOM:
            return None
        by_rule = outcome.kind is RefusalKind.KIND_NOT_ALLOWED
        raise Unheard(problem(ProblemKind.NOT_HEARD_HERE if by_rule else ProblemKind.NO_LISTENER))

    async def _text(self, made: Job) -> str:
        """Return the transcript a job produced. Raises `Unheard`."""
        if made.state is JobState.FAILED:
            raise Unheard(
                problem(ProblemKind.UNHEARD, cause=made.error or problem(ProblemKind.UNABLE).code())
            )
        output = await self.jobs.output(made) if made.state is JobState.COMPLETED else None
        if output is None:
            raise Unheard(problem(ProblemKind.UNHEARD, cause=problem(ProblemKind.STOPPED).code()))
        return recordings.words_of(output.text)

    async def _release(self, question: Job, heard: list[str]) -> None:
        """Ask a question with its transcript, unless it has changed. Raises `Unheard`."""
        request = question.request
        if not isinstance(request, Chat):
            return
        if not any(heard):
            raise Unheard(problem(ProblemKind.NOTHING_SAID))
        origin, reply_to = origin_in(question.reply_to), None
        if origin is not None:
            words = self.chat_settings.of(origin.platform, origin.places).words
            if (unwanted := unwanted_word(words, heard)) is not None:
                raise Unheard(problem(ProblemKind.UNWANTED, word=unwanted))
            if recordings.is_cut(heard):
                reply_to = origin.model_copy(update={"cut_recording": True}).model_dump_json()
        asked = recordings.asked(request, heard)
        await self.submitter.replace_request(
            question.id, asked, reply_to=reply_to, version=question.version
        )

    # ------------------------------------------------------------ clearing up

    async def _clear_up(self, number: int) -> None:
        """End the jobs that a question no longer needs.

        If the question was deleted, delete them too.
        """
        question = await self.jobs.get(number)
        for made in await self.deliveries.unacknowledged(recordings.OWNER):
            if made.parent != number:
                continue
            if not made.state.final and _needed(made, question):
                self._made[made.id] = number
                continue
            ended = await self.submitter.cancel(made.id)
            await self.deliveries.acknowledge(ended or made)
            if await self.jobs.get(number) is None:
                await self.erasure.forget(recordings.OWNER, frozenset({made.id}))


def _needed(made: Job, question: Job | None) -> bool:
    """Return whether a question still waits for a job made for it."""
    if question is None:
        return False
    if isinstance(made.request, SpeechToText):
        return bool(recordings.unheard(question))
    return question.state is JobState.COMPLETED
