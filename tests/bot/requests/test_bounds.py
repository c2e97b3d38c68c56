"""How large a request to a model may be, and which too large requests are remembered."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.limits import Bounds
from queueing.core.errors import ProblemKind, problem
from queueing.core.events import JobChanged
from queueing.core.jobs import Job, JobEvent
from queueing.core.requests import Request, TextToAudio, TextToImage, TextToVideo
from queueing.core.specs import ModelSpec
from tests.simulation.installation import image_model

SPEC = image_model("flux")
USUAL = {"width": 512.0, "height": 512.0, "steps": 20.0}
VIDEO = {"width": 640.0, "height": 360.0, "seconds": 5.0, "fps": 16.0}


def beyond(request: Request, usual: Mapping[str, float], **most: float) -> Any:
    """Return what of a request exceeds a model's limits, or None."""
    refusal = refused(Bounds(), replace(SPEC, most=most), request, usual or {})
    return None if refusal is None else (refusal.kind, refusal.values["most"])


def refused(
    bounds: Bounds, spec: ModelSpec, request: Request, usual: Mapping[str, float]
) -> Refusal | None:
    try:
        bounds.require(spec, request, usual)
    except Declined as declined:
        return declined.refusal
    return None


def drawing(**fields: Any) -> TextToImage:
    return TextToImage(prompt="a", **fields)


@pytest.mark.parametrize(
    ("request_", "usual", "most", "expected"),
    [
        (drawing(), USUAL, {}, None),
        (drawing(width=1024, height=1024), USUAL, {}, None),
        (drawing(width=8192, height=8192), USUAL, {}, (RefusalKind.BEYOND_PIXELS, 1.05)),
        (drawing(width=8192), USUAL, {}, (RefusalKind.BEYOND_PIXELS, 1.05)),
        (drawing(width=2048, height=2048), {}, {}, None),
        (drawing(width=2112, height=2048), {}, {}, (RefusalKind.BEYOND_PIXELS, 4.19)),
        (drawing(width=8192, height=8192), USUAL, {"pixels": 8192 * 8192}, None),
        (
            drawing(width=512, height=512),
            USUAL,
            {"pixels": 512 * 511},
            (RefusalKind.BEYOND_PIXELS, 0.2616),
        ),
        (drawing(steps=81), USUAL, {}, (RefusalKind.BEYOND_STEPS, 80)),
        (drawing(steps=200), {}, {}, None),
        (drawing(count=3), USUAL, {"count": 2}, (RefusalKind.BEYOND_COUNT, 2)),
        (TextToVideo(prompt="a", seconds=21), VIDEO, {}, (RefusalKind.BEYOND_SECONDS, 20)),
        (
            TextToVideo(prompt="a", seconds=15, fps=30),
            VIDEO,
            {},
            (RefusalKind.BEYOND_FRAMES, 320),
        ),
        (TextToVideo(prompt="a", fps=120), VIDEO, {}, (RefusalKind.BEYOND_FRAMES, 320)),
        (
            TextToVideo(prompt="a", width=4096, height=4096),
            {},
            {},
            (RefusalKind.BEYOND_PIXELS, 1.6),
        ),
        (
            TextToAudio(prompt="a", seconds=241),
            {"seconds": 60.0},
            {},
            (RefusalKind.BEYOND_SECONDS, 240),
        ),
    ],
)
def test_a_request_far_above_the_models_defaults_is_refused(
    request_: Request, usual: dict[str, float], most: dict[str, float], expected: object
) -> None:
    """One member's size would unload everybody's models, again and again."""
    assert beyond(request_, usual, **most) == expected


def failed(request: Request, what: ProblemKind = ProblemKind.MEMORY) -> JobChanged:
    job = Job.__new__(Job)
    known = {"model": "flux", "request": request, "error": problem(what).code()}
    for name, value in known.items():
        object.__setattr__(job, name, value)
    return JobChanged(job=job, event=JobEvent.FAIL)


def test_what_ran_out_of_memory_is_not_tried_again() -> None:
    """The next such request would empty the GPU again."""
    bounds, large = Bounds(), drawing(width=960, height=1024)
    for harmless in (failed(large, ProblemKind.CRASHED), failed(drawing(width=512, height=512))):
        bounds.on_event(harmless, {"flux": USUAL})
    bounds.require(SPEC, large, USUAL)
    bounds.on_event(failed(large), {"flux": USUAL})
    for as_large in (large, drawing(width=512, height=512, count=4)):
        refusal = refused(bounds, SPEC, as_large, USUAL)
        assert refusal is not None
        assert refusal.kind is RefusalKind.BEYOND_MEMORY
    bounds.require(SPEC, drawing(width=896, height=1024), USUAL)
    bounds.require(replace(SPEC, name="sdxl"), large, USUAL)
