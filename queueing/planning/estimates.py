"""Learned times: how long loads and jobs usually take, and how often a model is requested.

Pure values and functions; the queue keeps them and the store persists them. Knows nothing of what
is running now: that is the forecast's part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log2
from statistics import median

from queueing.core.catalog import ModelSpec
from queueing.core.requests import (
    Chat,
    Embed,
    EmbedInput,
    PictureInput,
    Request,
    TextToImage,
)
from queueing.core.storage import Learned
from queueing.core.world import Flow

WINDOW = 25  # newest samples kept: enough to be steady, few enough to follow a change
RATE_TAU_S = 900.0
RUSH_TAU_S = 60.0  # arrivals within about this time come together
KEPT_SHARE = 0.98  # of what earlier arrivals say about that, at each one
LEAST_WATCHED_S = 60.0  # a rate is not judged on less: a single arrival is no stream
PRIOR_SPREAD = 0.3  # share by which a configured time may be off

USUAL_STEPS = 25
USUAL_PIXELS = 1024 * 1024
USUAL_ANSWER_TOKENS = 400
CHARS_PER_TOKEN = 4
USUAL_EMBEDDED_TOKENS = 250  # a passage of a thousand characters
CALL_TOKENS = 250  # what a call costs besides its tokens
PICTURE_TOKENS = 500
PROMPT_SHARE = 0.05  # reading a token costs about this share of writing one
USUAL_SIZE = ""  # the class of a request about which nothing is known: work 1

# ---------------------------------------------------------------- sizes


def size_class(request: Request) -> str:
    """Return the class of requests that take about as long as this one, such as "1.41".

    It names the work in units of a usual request of its kind, in steps of the square root of two:
    steps times pixels times count for pictures, prompt and answer length for texts, the tokens of a
    whole batch for embeddings. Options left open count as usual ones.
    """
    return f"{2 ** (round(2 * log2(_work(request))) / 2):.4g}"


def work_of(size: str) -> float:
    """Return the work a size class stands for; 1 for an unknown one."""
    try:
        return float(size) or 1.0
    except ValueError:
        return 1.0


def _work(request: Request) -> float:
    match request:
        case TextToImage():
            side = USUAL_PIXELS**0.5
            pixels = (request.width or side) * (request.height or side)
            steps = request.steps or USUAL_STEPS  # at any strength: servers run all of them
            return steps * pixels * request.count / (USUAL_STEPS * USUAL_PIXELS)
        case Chat():
            chars = sum(len(message.text) for message in request.messages)
            answer = request.max_tokens or USUAL_ANSWER_TOKENS
            return (answer + chars / CHARS_PER_TOKEN * PROMPT_SHARE) / USUAL_ANSWER_TOKENS
        case Embed():
            tokens = sum(map(_tokens, request.inputs))
            return (CALL_TOKENS + tokens) / (CALL_TOKENS + USUAL_EMBEDDED_TOKENS)


def _tokens(given: EmbedInput) -> float:
    match given:
        case str():
            return len(given) / CHARS_PER_TOKEN
        case PictureInput():
            return PICTURE_TOKENS + len(given.text) / CHARS_PER_TOKEN
    return len(given)


# ---------------------------------------------------------------- durations


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How long something usually takes, in seconds; `samples` is 0 for a prior alone.

    The median is what a person sees of one job; the mean is what sums over many jobs need.
    """

    samples: int
    median_s: float
    mean_s: float
    spread_s: float  # mean distance from the median

    def scaled(self, factor: float) -> "Usual":
        """Return the same for a request with that many times the work."""
        return Usual(
            samples=self.samples,
            median_s=self.median_s * factor,
            mean_s=self.mean_s * factor,
            spread_s=self.spread_s * factor,
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """The newest durations of one kind, model, host and size; older ones count in `samples`."""

    recent: tuple[float, ...]
    samples: int

    def usual(self) -> Usual:
        middle = median(self.recent)
        return Usual(
            samples=self.samples,
            median_s=middle,
            mean_s=sum(self.recent) / len(self.recent),
            spread_s=sum(abs(value - middle) for value in self.recent) / len(self.recent),
        )


_Key = tuple[str, str, str, str]  # kind, model, host, size


class Durations:
    """Learned service and load times, by model, host and size class of the request.

    Unknown times are derived, in this order: from another size on the same host, the same model on
    another host, the prior of the configuration. Owned by one task; never blocks.
    """

    def __init__(self, learned: Iterable[Learned] = ()) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._usual: dict[_Key, Usual] = {}
        self._known: dict[tuple[str, str], list[_Key]] = {}  # the keys by kind and model
        for row in learned:
            self._put((row.kind, row.model, row.host, row.size), _restored(row))

    def observe_service(self, model: str, host: str, size: str, seconds: float) -> Learned:
        """Learn how long a job took on its backend; return the row to store."""
        return self._observe(("service", model, host, size), seconds)

    def observe_load(self, model: str, host: str, seconds: float) -> Learned:
        """Learn how long a load took; return the row to store."""
        return self._observe(("load", model, host, ""), seconds)

    def service(self, model: ModelSpec, host: str, size: str = USUAL_SIZE) -> Usual:
        """Return how long a job of that size takes there; host "" asks for any host."""
        return self._find("service", model.name, host, size) or _prior(model.service_s).scaled(
            work_of(size)
        )

    def load(self, model: ModelSpec, host: str) -> Usual:
        """Return how long a load takes there; host "" asks for any host."""
        return self._find("load", model.name, host, "") or _prior(model.load_s)

    def typical_service(self, model: ModelSpec, host: str) -> Usual:
        """Return how long a job of any size takes there, with the sizes seen so far."""
        keys = [key for key in self._keys("service", model.name) if host in (key[2], "")]
        if not keys:
            return self.service(model, host)
        return _mixed([self._usual[key] for key in keys])

    def _observe(self, key: _Key, seconds: float) -> Learned:
        known = self._seen.get(key)
        recent = (*(known.recent if known else ()), max(0.0, seconds))[-WINDOW:]
        usual = self._put(key, _Seen(recent, (known.samples if known else 0) + 1))
        kind, model, host, size = key
        return Learned(
            kind=kind,
            model=model,
            host=host,
            size=size,
            samples=usual.samples,
            median_s=usual.median_s,
            spread_s=usual.spread_s,
        )

    def _put(self, key: _Key, seen: _Seen) -> Usual:
        if key not in self._seen:
            self._known.setdefault(key[:2], []).append(key)
        self._seen[key] = seen
        self._usual[key] = usual = seen.usual()
        return usual

    def _keys(self, kind: str, model: str) -> Sequence[_Key]:
        return self._known.get((kind, model), ())

    def _find(self, kind: str, model: str, host: str, size: str) -> Usual | None:
        """Return the nearest known one: this host before others, then the nearest size."""
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


def _prior(seconds: float) -> Usual:
    return Usual(samples=0, median_s=seconds, mean_s=seconds, spread_s=seconds * PRIOR_SPREAD)


def _restored(row: Learned) -> _Seen:
    """Return samples with the stored median and spread; few, so that new ones soon count more."""
    low, high = max(0.0, row.median_s - row.spread_s), row.median_s + row.spread_s
    return _Seen((low, row.median_s, high) if row.samples > 2 else (row.median_s,), row.samples)


def _mixed(parts: Sequence[Usual]) -> Usual:
    """Return the combined time of several sizes or hosts, weighted by their shares of samples."""
    total = sum(part.samples for part in parts)
    mean_s = sum(part.mean_s * part.samples for part in parts) / total
    middle = median(part.median_s for part in parts for _ in range(min(part.samples, WINDOW)))
    spread_s = (
        sum((part.spread_s + abs(part.median_s - middle)) * part.samples for part in parts) / total
    )
    return Usual(samples=total, median_s=middle, mean_s=mean_s, spread_s=spread_s)


# ---------------------------------------------------------------- arrivals


class _Stream:
    """The arrivals in one line, and how many of them come together.

    Of a rush of k, on average (k - 1)/2 others of the last minute count when one arrives, beyond
    those expected at the usual rate.
    """

    __slots__ = ("_at", "_lately", "_more", "_seen", "_weight")

    def __init__(self, now: float) -> None:
        self._at = now
        self._weight = self._lately = self._more = self._seen = 0.0

    def arrived(self, now: float, tau_s: float, seen: float) -> None:
        """Count an arrival, when that share of the window has been watched."""
        faded, lately = (
            exp((self._at - now) / tau_s),
            self._lately * exp((self._at - now) / RUSH_TAU_S),
        )
        usual = self._weight * faded / seen * RUSH_TAU_S
        self._more = self._more * KEPT_SHARE + (lately - usual)
        self._seen = self._seen * KEPT_SHARE + 1
        self._weight = self._weight * faded + 1 / tau_s
        self._lately, self._at = lately + 1, now

    def weight(self, now: float, tau_s: float) -> float:
        """Return the arrivals per second, as far as they were watched."""
        return self._weight * exp((self._at - now) / tau_s)

    @property
    def together(self) -> float:
        """How many usually come together; 1 if they come independently."""
        return 1 + max(0.0, 2 * self._more / self._seen) if self._seen else 1.0


class Rates:
    """Arrivals per second of each model, exponentially weighted: old ones fade within 15 minutes."""

    def __init__(self, tau_s: float = RATE_TAU_S) -> None:
        self._tau_s = tau_s
        self._streams: dict[str, dict[str, _Stream]] = {}  # by model and lane
        self._began_at: float | None = None

    def arrived(self, model: str, now: float, lane: str = "normal") -> None:
        """Count an arrival."""
        if self._began_at is None:
            self._began_at = now
        lanes = self._streams.setdefault(model, {})
        if lane not in lanes:
            lanes[lane] = _Stream(now)
        lanes[lane].arrived(now, self._tau_s, self._seen(now))

    def per_s(self, model: str, now: float) -> float:
        """Return the present rate; 0 for a model never requested."""
        return sum(flow.per_s for flow in self.by_lane(model, now).values())

    def by_lane(self, model: str, now: float) -> dict[str, Flow]:
        """Return the arrivals of each lane the model has been requested in.

        They are divided by the share of the window watched so far: otherwise everything would seem
        rarely requested during the first half hour.
        """
        if self._began_at is None or model not in self._streams:
            return {}
        seen = self._seen(now)
        return {
            lane: Flow(per_s=stream.weight(now, self._tau_s) / seen, together=stream.together)
            for lane, stream in self._streams[model].items()
        }

    def _seen(self, now: float) -> float:
        """Return the share of the window that has been watched."""
        return 1 - exp(-max(self.watched_s(now), LEAST_WATCHED_S) / self._tau_s)

    def watched_s(self, now: float) -> float:
        """Return how long arrivals have been counted."""
        return 0.0 if self._began_at is None else now - self._began_at
