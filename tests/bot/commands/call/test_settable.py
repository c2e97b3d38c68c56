"""Everything that a model accepts can be set in chats and by programs."""

import pytest

from bot.api.jobs.records import ImageJob, MediaJob, MusicJob, TimedJob, VideoJob
from bot.api.openai.images import ImageEdit
from bot.commands.call.options import OPTIONS
from bot.core.refusals import Declined, RefusalKind
from bot.requests.creation import Creation, DrawingOptions, Made, drawn, require_taken
from bot.requests.options import Style
from queueing.core.requests import TextToAudio, TextToImage, TextToVideo

JOBS: dict[type[Made], type[TimedJob | MediaJob]] = {
    TextToImage: ImageJob,
    TextToVideo: VideoJob,
    TextToAudio: MusicJob,
}
OURS = {"kind", "prompt", "original", "source", "upscale", "edit", "mask"}
"""The fields that a command or the bot itself sets."""


@pytest.mark.parametrize("kind", JOBS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_request_has_an_option_and_a_field(kind: type[Made]) -> None:
    """Templates and styles could set something that nobody can ask for."""
    fields = kind.model_fields.keys() - OURS
    options = {param.name for param in OPTIONS[kind]}
    if "size" in options:
        options = options - {"size"} | {"width", "height"}
    assert fields == options
    assert fields <= JOBS[kind].model_fields.keys()


def test_guidance_reaches_the_request_or_is_refused() -> None:
    """An image would silently be drawn with another guidance."""
    drawing = Creation(prompt="cat", options=DrawingOptions(guidance=3.5))
    made = drawn(drawing, Style(options={"guidance": 7.0}), None, {"guidance"})
    assert made.guidance == 3.5
    with pytest.raises(Declined) as declined:
        require_taken(drawing.options.given, TextToImage, "flux", {"steps"})
    assert declined.value.refusal.kind is RefusalKind.OPTION_NOT_TAKEN
    assert ImageEdit(prompt="cat", guidance=3.5).options.guidance == 3.5
    assert ImageJob(prompt="cat", guidance=3.5).options.guidance == 3.5
