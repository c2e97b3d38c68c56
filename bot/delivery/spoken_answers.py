"""Reads answers aloud, with a separate job for each answer, accepted at most once.

The voice is part of the delivery. A result stays undelivered until its voice is ready or has
failed, so a restart at any point resumes it.
"""

from dataclasses import dataclass

from bot.core.content import Body
from bot.core.origin import Origin
from bot.core.queue import JobReader
from bot.core.refusals import Refusal
from bot.people.people import People
from bot.requests import recordings
from bot.requests.admission import AdmissionService
from bot.texts.catalogue import join, say
from bot.texts.refusals import sentence, told
from queueing.core.errors import Problem
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, File


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenAnswer:
    """The spoken form of an answer: its voice, or a note about it."""

    sound: tuple[File, ...] = ()
    note: Body = ()
    goes_on: Job | None = None  # the open job that makes the voice


@dataclass(eq=False, repr=False)
class SpokenAnswers:
    """Creates and tracks the jobs that read answers aloud."""

    admission: AdmissionService
    people: People
    jobs: JobReader

    async def of(self, job: Job, origin: Origin) -> SpokenAnswer:
        """Return the state of an ended job's spoken answer. The first call requests it."""
        asked = origin.aloud and isinstance(job.request, Chat)
        if not asked or job.state is not JobState.COMPLETED:
            return SpokenAnswer()
        made = await self.jobs.find(recordings.speech_key(job.id))
        if made is None:
            output = await self.jobs.output(job)
            words = recordings.read_of(output.text) if output is not None else ""
            if not words:
                return SpokenAnswer()
            person = await self.people.get(job.owner)
            outcome = await self.admission.of_job(job).read_aloud(person, job, words)
            if not isinstance(outcome, Job):
                return SpokenAnswer(note=_refused(outcome, origin.language))
            made = outcome
        return await self._as_it_is(made, origin.language)

    async def _as_it_is(self, made: Job, language: str) -> SpokenAnswer:
        match made.state:
            case JobState.COMPLETED:
                output = await self.jobs.output(made)
                return SpokenAnswer(sound=output.files if output is not None else ())
            case JobState.FAILED:
                reason = told(Problem.read(made.error or ""), language)
                return SpokenAnswer(note=say(language, "aloud.failed", reason=reason))
            case JobState.CANCELLED:
                return SpokenAnswer(note=say(language, "aloud.stopped"))
            case _:
                return SpokenAnswer(goes_on=made)


def _refused(refusal: Refusal, language: str) -> Body:
    return join((*say(language, "aloud.failed", reason=""), *sentence(refusal, language)))
