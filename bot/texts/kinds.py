"""The words for each kind of request: what runs, what is ready, the facts of a result; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.core.content import Body
from bot.texts.catalogue import join, say, word
from queueing.core.jobs import Job
from queueing.core.requests import (
    AnyRequest,
    Chat,
    Embed,
    Generation,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """What a result's first file is: its pixels if it has any, its seconds if it plays."""

    size: tuple[int, int] | None = None
    seconds: float = 0.0


UNKNOWN = Measures()

_AT_WORK: Mapping[type[AnyRequest], str] = {
    TextToImage: "status.drawing",
    TextToVideo: "status.filming",
    TextToAudio: "status.composing",
    TextToSpeech: "status.speaking",
    SpeechToText: "status.transcribing",
    Chat: "status.writing",
    Embed: "status.embedding",
}
_READY: Mapping[type[AnyRequest], str] = {
    TextToImage: "ping.image",
    TextToVideo: "ping.film",
    TextToAudio: "ping.sound",
    TextToSpeech: "ping.speech",
    SpeechToText: "ping.transcript",
    Chat: "ping.chat",
    Embed: "ping.chat",
}


def at_work(request: Request) -> str:
    """Return the key of the words for a model that is at work on a request."""
    match request:
        case TextToImage(upscale=True):
            return "status.upscaling"
        case TextToImage(edit=True):
            return "status.editing"
    return _AT_WORK[type(request)]


def ready(request: Request) -> str:
    """Return the key of the words that follow a long wait."""
    return _READY[type(request)]


def no_words(request: Request) -> str:
    """Return the key of what stands for a request without words in a list."""
    return "history.no_words" if isinstance(request, SpeechToText) else "history.no_prompt"


def facts(job: Job, language: str, took: str, measures: Measures) -> Body:
    """Return the line of facts under a result: where it came from, model, form, seed, time."""
    request = job.request
    parts = [job.model, *_form(request, language, measures), *_choices(request, language), took]
    if isinstance(request, TextToImage) and request.upscale and measures.size:
        size = _pixels(measures.size)
        parts = [job.model, word(language, "fact.upscaled", size=size), took]
    return join((*_came_from(request, language), " · ".join(parts)))


def _came_from(request: Request, language: str) -> Body:
    source = getattr(request, "source", None)
    if source is None:
        return ()
    varied = isinstance(request, TextToImage) and not (request.upscale or request.edit)
    return say(language, "result.variation_of" if varied else "result.from", job=source)


def _form(request: Request, language: str, measures: Measures) -> Sequence[str]:
    """Return how long and how large a result is, as far as that is known."""
    plays = length(measures.seconds)
    pixels = _pixels(measures.size) if measures.size else ""
    fps = request.fps if isinstance(request, TextToVideo) else None
    rate = word(language, "fact.fps", fps=fps) if fps else ""
    return [each for each in (plays, pixels, rate) if each]


def _choices(request: Request, language: str) -> Sequence[str]:
    """Return what makes the same result again."""
    match request:
        case Generation(seed=seed):
            return [word(language, "fact.seed", seed=seed)]
        case TextToSpeech(voice=str(voice)):
            return [word(language, "fact.voice", voice=voice)]
        case _:
            return []


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"


def length(seconds: float) -> str:
    """Return how long something plays as players show it, such as "1:05"; "" where unknown."""
    if seconds <= 0:
        return ""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    return f"{minutes}:{rest:02d}"
