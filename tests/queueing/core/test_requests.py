"""How requests are stored, and what they need of a model."""

from typing import get_args

from queueing.core.requests import (
    AnyRequest,
    Capability,
    Chat,
    ChatMessage,
    TextToImage,
    TextToVideo,
)
from queueing.forecast.durations import size_class


def test_every_kind_of_request_needs_something_of_its_model() -> None:
    """A new kind would fail when its first request is accepted."""
    every = {able for kind in get_args(AnyRequest) for able in kind.capabilities}
    assert every | {Capability.UPSCALE, Capability.IMAGE_EDIT} == set(Capability)


def test_an_edit_is_no_drawing_from_an_image() -> None:
    """A model that only redraws would get an instruction as its prompt."""
    assert TextToImage(prompt="a", edit=True).needs(has_files=True) is Capability.IMAGE_EDIT
    assert TextToImage(prompt="a").needs(has_files=True) is Capability.IMAGE_TO_IMAGE


def test_a_longer_video_of_more_pixels_is_more_work() -> None:
    """A minute in 720p would be promised in the time of five seconds."""
    short = TextToVideo(prompt="a", width=832, height=480, seconds=5, fps=16)
    assert size_class(short) == "1"
    assert size_class(short.model_copy(update={"seconds": 10})) == "2"
    assert float(size_class(short.model_copy(update={"width": 1664, "height": 960}))) == 4


def test_a_recording_asks_nothing_of_the_model_that_answers() -> None:
    """A voice message would only be sent to models that see images."""
    spoken = ChatMessage(role="user", text="", sounds=(0,))
    assert Chat(messages=(spoken,)).needs(has_files=True) is Capability.TEXT_TO_TEXT
    shown = spoken.model_copy(update={"images": (1,)})
    assert Chat(messages=(shown,)).needs(has_files=True) is Capability.VISION
    old = ChatMessage.model_validate({"role": "user", "text": "why?"})
    assert (old.sounds, old.heard) == ((), None)
