"""What messages say about recordings and voices: who listens, what was heard, who reads. Pure."""

from bot.core.content import Body, Content
from bot.core.origin import Origin
from bot.texts import results
from bot.texts.catalogue import join, say, word
from bot.texts.status import running, shortened, waiting
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Progress
from queueing.core.status import Standing

HEARD_SHOWN = 600  # characters of a transcript above its answer


def listening(
    question: Job, standing: Standing | None, progress: Progress | None, language: str
) -> Content:
    """Return the message of a question whose recording is being written down.

    `standing` is that of the job that does so, None before it is accepted.
    """
    body = say(language, "recording.first", model=question.model)
    if standing is not None:
        body += ("\n", *_stands(standing, progress, language))
    return Content(body=join(body), buttons=results.while_open(question, language))


def reading(standing: Standing, language: str) -> Body:
    """Return what an answer's message says while it is read aloud."""
    return join((*say(language, "aloud.reading"), " ", *_stands(standing, None, language)))


def _stands(standing: Standing, progress: Progress | None, language: str) -> Body:
    if standing.job.state is JobState.PROCESSING:
        return running(standing, progress, language, previews=False).body
    return waiting(standing, language)


def quoted(heard: str, language: str) -> str:
    """Return what was heard as a quotation, for the beginning of its answer."""
    return word(language, "recording.heard", text=shortened(heard, HEARD_SHOWN))


def cut(origin: Origin, language: str) -> Body:
    """Return the sentence about what only the beginning of was asked about."""
    recording = (word(language, "recording.itself"),) if origin.cut_recording else ()
    names = (*origin.cut, *recording)
    return say(language, "result.cut", names=", ".join(names)) if names else ()
