"""Prompts of videos and music are improved as those of images are."""

from typing import get_args

from bot.requests.creation import Made
from bot.requests.enhancement import improved, instructions, question
from queueing.core.jobs import stand_in
from queueing.core.requests import Chat, TextToAudio, TextToVideo


def test_each_kind_is_asked_for_in_its_own_words() -> None:
    """A text model would describe the light and composition of a piece of music."""
    told = {instructions(kind(prompt="a cat")) for kind in get_args(Made)}
    assert len(told) == len(get_args(Made))
    assert "tempo" in instructions(TextToAudio(prompt="a waltz"))
    assert "camera movement" in instructions(TextToVideo(prompt="a cat"))


def test_an_improved_request_keeps_everything_else() -> None:
    """A video would lose its length, or become an image."""
    for kind in get_args(Made):
        request = kind(prompt="a cat", seed=7, steps=4)
        better = improved(request, '"A ginger cat leaps."')
        assert better == kind(prompt="A ginger cat leaps.", original="a cat", seed=7, steps=4), kind
        asked = question(stand_in(1, "wan", 0.0), request, "qwen").request
        assert isinstance(asked, Chat), kind
        assert [turn.text for turn in asked.messages] == [instructions(request), "a cat"], kind
