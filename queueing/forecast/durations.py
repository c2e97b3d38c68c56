"""How long loads and jobs usually take, and how much work a request is. Pure.

The queue keeps the learned durations, and the store persists them. The durations of running jobs
are left to the forecast.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median

from queueing.core.requests import (
    Chat,
    Embed,
    EmbedInput,
    ImageInput,
    Request,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from queueing.core.specs import ModelSpec

USUAL_STEPS = 25
USUAL_PIXELS = 1024 * 1024
USUAL_VIDEO_PIXELS = 832 * 480
USUAL_VIDEO_S = 5.0
USUAL_FPS = 16.0
USUAL_MUSIC_S = 60.0
USUAL_SPEECH_CHARS = 400
USUAL_ANSWER_TOKENS = 400
CHARS_PER_TOKEN = 4
USUAL_EMBEDDED_TOKENS = 250  # a passage of a thousand characters
CALL_TOKENS = 250  # fixed cost of a call, in tokens
IMAGE_TOKENS = 500
PROMPT_SHARE = 0.05  # cost of reading a token, relative to writing one
USUAL_SIZE = ""  # a request about which nothing is known: work 1


def size_class(request: Request) -> str:
    """Return the size class of a request, such as "1.41"; requests of a class take about as long.

    It is the work relative to a usual request of the same kind, in steps of the square root of two.
    Options left open count as usual ones. The work is:

    - images: steps times pixels times count
    - videos: steps times pixels times frames
    - music: steps times seconds
    - speech: characters
    - texts: prompt and answer length
    - embeddings: the tokens of a whole batch
    - transcription: always usual, because a recording's length is not in its request
    """
    return f"{2 ** (round(2 * log2(_work(request))) / 2):.4g}"


def work_of(size: str) -> float:
    """Return the work of a size class; 1 for an unknown one."""
    try:
        return float(size) or 1.0
    except ValueError:
        return 1.0


def _work(request: Request) -> float:
    match request:
        case TextToImage() | TextToVideo() | TextToAudio():
            steps = request.steps or USUAL_STEPS  # at any strength: servers run all steps
            return steps / USUAL_STEPS * _extent(request)
        case TextToSpeech():
            return len(request.text) / USUAL_SPEECH_CHARS
        case SpeechToText():
            return 1.0
        case Chat():
            chars = sum(len(message.text) for message in request.messages)
            answer = request.max_tokens or USUAL_ANSWER_TOKENS
            return (answer + chars / CHARS_PER_TOKEN * PROMPT_SHARE) / USUAL_ANSWER_TOKENS
        case Embed():
            tokens = sum(map(_tokens, request.inputs))
            return (CALL_TOKENS + tokens) / (CALL_TOKENS + USUAL_EMBEDDED_TOKENS)


def _extent(request: TextToImage | TextToVideo | TextToAudio) -> float:
    """Return the pixels, frames or seconds a request generates, relative to the usual ones."""
    if isinstance(request, TextToAudio):
        return (request.seconds or USUAL_MUSIC_S) / USUAL_MUSIC_S
    usual = USUAL_PIXELS if isinstance(request, TextToImage) else USUAL_VIDEO_PIXELS
    side = usual**0.5
    pixels = (request.width or side) * (request.height or side) / usual
    if isinstance(request, TextToImage):
        return pixels * request.count
    frames = (request.seconds or USUAL_VIDEO_S) * (request.fps or USUAL_FPS)
    return pixels * frames / (USUAL_VIDEO_S * USUAL_FPS)


def _tokens(given: EmbedInput) -> float:
    match given:
        case str():
            return len(given) / CHARS_PER_TOKEN
        case ImageInput():
            return IMAGE_TOKENS + len(given.text) / CHARS_PER_TOKEN
    return len(given)


WINDOW = 25  # newest samples kept: enough for stability, few enough to follow changes
PRIOR_SPREAD = 0.3  # relative error of a configured time


@dataclass(frozen=True, kw_only=True, slots=True)
class DurationEstimate:
    """How long something usually takes, in seconds; `samples` is 0 for a prior.

    Use the median for a single job shown to a person, and the mean for sums over many jobs.
    """

    samples: int
    median_s: float
    mean_s: float
    spread_s: float  # mean distance from the median

    def scaled(self, factor: float) -> "DurationEstimate":
        """Return the estimate for a request with `factor` times the work."""
        return DurationEstimate(
            samples=self.samples,
            median_s=self.median_s * factor,
            mean_s=self.mean_s * factor,
            spread_s=self.spread_s * factor,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedDuration:
    """One row of learned durations: a running median and spread, in seconds."""

    kind: str  # "service" or "load"
    model: str
    host: str
    size: str  # size class of the requests; "" for loads
    samples: int
    median_s: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """The newest durations of one kind, model, host and size. `samples` also counts older ones."""

    recent: tuple[float, ...]
    samples: int

    def usual(self) -> DurationEstimate:
        middle = median(self.recent)
        return DurationEstimate(
            samples=self.samples,
            median_s=middle,
            mean_s=sum(self.recent) / len(self.recent),
            spread_s=sum(abs(value - middle) for value in self.recent) / len(self.recent),
        )


_Key = tuple[str, str, str, str]  # kind, model, host, size


class Durations:
    """Learned service and load times, by model, host and size class of the request.

    Unknown times are derived from another size on the same host, else from the same model on
    another host, else from the configured prior. Owned by one task; never blocks.
    """

    def __init__(self, learned: Iterable[LearnedDuration] = ()) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._usual: dict[_Key, DurationEstimate] = {}
        self._known: dict[tuple[str, str], list[_Key]] = {}  # keys by kind and model
        for row in learned:
            self._put((row.kind, row.model, row.host, row.size), _restored(row))

    def observe_service(self, model: str, host: str, size: str, seconds: float) -> LearnedDuration:
        """Record how long a job took on its backend. Returns the row to store."""
        return self._observe(("service", model, host, size), seconds)

    def observe_load(self, model: str, host: str, seconds: float) -> LearnedDuration:
        """Record how long a load took. Returns the row to store."""
        return self._observe(("load", model, host, ""), seconds)

    def observe_wake(self, host: str, seconds: float) -> LearnedDuration:
        """Record how long a machine took to wake, stored as a load without a model.

        Returns the row.
        """
        return self._observe(("load", "", host, ""), seconds)

    def wake(self, host: str, prior_s: float) -> DurationEstimate:
        """Return how long a machine takes to wake."""
        return self._usual.get(("load", "", host, "")) or _prior(prior_s)

    def service(self, model: ModelSpec, host: str, size: str = USUAL_SIZE) -> DurationEstimate:
        """Return how long a job of that size takes there; host "" stands for any host."""
        return self._find("service", model.name, host, size) or _prior(
            model.usual_service_s
        ).scaled(work_of(size))

    def load(self, model: ModelSpec, host: str) -> DurationEstimate:
        """Return how long a load takes there; host "" stands for any host."""
        return self._find("load", model.name, host, "") or _prior(model.usual_load_s)

    def has_run(self, model: ModelSpec, host: str) -> bool:
        """Return whether a job of any size has run there; host "" stands for any host."""
        return any(host in (key[2], "") for key in self._keys("service", model.name))

    def typical_service(self, model: ModelSpec, host: str) -> DurationEstimate:
        """Return how long a job takes there on average, over the sizes seen so far."""
        keys = [key for key in self._keys("service", model.name) if host in (key[2], "")]
        if not keys:
            return self.service(model, host)
        return _mixed([self._usual[key] for key in keys])

    def _observe(self, key: _Key, seconds: float) -> LearnedDuration:
        known = self._seen.get(key)
        recent = (*(known.recent if known else ()), max(0.0, seconds))[-WINDOW:]
        usual = self._put(key, _Seen(recent, (known.samples if known else 0) + 1))
        kind, model, host, size = key
        return LearnedDuration(
            kind=kind,
            model=model,
            host=host,
            size=size,
            samples=usual.samples,
            median_s=usual.median_s,
            spread_s=usual.spread_s,
        )

    def _put(self, key: _Key, seen: _Seen) -> DurationEstimate:
        if key not in self._seen:
            self._known.setdefault(key[:2], []).append(key)
        self._seen[key] = seen
        self._usual[key] = usual = seen.usual()
        return usual

    def _keys(self, kind: str, model: str) -> Sequence[_Key]:
        return self._known.get((kind, model), ())

    def _find(self, kind: str, model: str, host: str, size: str) -> DurationEstimate | None:
        """Return the nearest known duration: this host before others, then the nearest size."""
        exact = self._usual.get((kind, model, host, size))
        if exact is not None:
            return exact
        keys = self._keys(kind, model)
        if not keys:
            return None
        work = work_of(size)
        nearest = min(
            keys, key=lambda key: (key[2] != host, abs(log2(work_of(key[3]) / work)), key)
        )
        return self._usual[nearest].scaled(work / work_of(nearest[3]))


def _prior(seconds: float) -> DurationEstimate:
    return DurationEstimate(
        samples=0, median_s=seconds, mean_s=seconds, spread_s=seconds * PRIOR_SPREAD
    )


def _restored(row: LearnedDuration) -> _Seen:
    """Return samples with the stored median and spread, but few, so that new ones soon dominate."""
    low, high = max(0.0, row.median_s - row.spread_s), row.median_s + row.spread_s
    return _Seen((low, row.median_s, high) if row.samples > 2 else (row.median_s,), row.samples)


def _mixed(parts: Sequence[DurationEstimate]) -> DurationEstimate:
    """Return the combined duration of several sizes or hosts, weighted by their samples."""
    total = sum(part.samples for part in parts)
    mean_s = sum(part.mean_s * part.samples for part in parts) / total
    middle = median(part.median_s for part in parts for _ in range(min(part.samples, WINDOW)))
    spread_s = (
        sum((part.spread_s + abs(part.median_s - middle)) * part.samples for part in parts) / total
    )
    return DurationEstimate(samples=total, median_s=middle, mean_s=mean_s, spread_s=spread_s)
