"""How large a request of a model may be: as its operator says, otherwise four times its defaults.

One request far above what a model is made for takes a GPU from everybody. What failed for memory is
remembered until the bot restarts.
"""

from collections.abc import Mapping

from bot.core.refusals import BeyondModel, Declined
from queueing.core.catalog import ModelSpec
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobEvent
from queueing.core.problems import Problem, What
from queueing.core.requests import Request, TextToImage, TextToVideo
from queueing.core.specs import is_far_above, pixels, usual_pixels, work

TIMES = 4  # the default bound, in units of the model's own defaults

Numbers = Mapping[str, float]


class Bounds:
    """Refuses requests beyond their model's bounds. Events tell what ran out of memory."""

    def __init__(self) -> None:
        self._failed: dict[str, float] = {}  # by model: the least work that ran out of memory

    def on_event(self, event: Event, usual: Mapping[str, Numbers]) -> None:
        """Remember a request far above its model's defaults that failed for memory."""
        if not isinstance(event, JobChanged) or event.event is not JobEvent.FAIL:
            return
        job = event.job
        if job.error is None or Problem.read(job.error).what is not What.MEMORY:
            return
        own = usual.get(job.model, {})
        if is_far_above(job.request, own):
            least = work(job.request, own)
            self._failed[job.model] = min(least, self._failed.get(job.model, least))

    def require(self, spec: ModelSpec, request: Request, usual: Numbers) -> None:
        """Raise `Declined` for a request beyond the model's bounds."""
        most = {**_defaults(request, usual), **spec.most}
        for what, asked in _extent(request, usual).items():
            if what in most and asked > most[what]:
                raise Declined(
                    BeyondModel(model=spec.name, what=what, asked=asked, most=most[what])
                )
        failed = self._failed.get(spec.name)
        asked = work(request, usual)
        if failed is not None and asked >= failed:
            raise Declined(BeyondModel(model=spec.name, what="memory", asked=asked, most=failed))


def _extent(request: Request, usual: Numbers) -> dict[str, float]:
    """Return what a request asks for explicitly, by what is bounded."""
    named = {
        name: value
        for name in ("steps", "count", "seconds")
        if (value := getattr(request, name, None)) is not None
    }
    if isinstance(request, TextToImage | TextToVideo) and (request.width or request.height):
        named["pixels"] = pixels(request, usual)
    if isinstance(request, TextToVideo) and (request.seconds or request.fps):
        frames = _frames(request.seconds or usual.get("seconds"), request.fps or usual.get("fps"))
        named |= {} if frames is None else {"frames": frames}
    return named


def _defaults(request: Request, usual: Numbers) -> dict[str, float]:
    """Return the bounds that follow from what the model does where a request says nothing."""
    found = {name: TIMES * usual[name] for name in ("steps", "seconds") if name in usual}
    if isinstance(request, TextToImage | TextToVideo):
        found["pixels"] = TIMES * usual_pixels(request, usual)
    if (frames := _frames(usual.get("seconds"), usual.get("fps"))) is not None:
        found["frames"] = TIMES * frames
    return found


def _frames(seconds: float | None, fps: float | None) -> float | None:
    return None if seconds is None or fps is None else seconds * fps
