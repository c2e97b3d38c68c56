"""A misspelt model in front of a prompt: nothing is refused or lost, and the person is told."""

from dataclasses import replace

from queueing.core.requests import Capability
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import bot, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

TALKS = frozenset({Capability.TEXT_TO_TEXT})
HINT = "There's no model “{}”, so the word became part of the prompt. Did you mean {}?"


def shown_of(*lines: str) -> list[list[str]]:
    """Return what the message of each line's job showed, one message after the other."""
    models = [
        image_model("sdxl", vram_mb=7000),
        image_model("flux", vram_mb=9000, aliases=("flux-schnell",)),
        replace(image_model("llama", vram_mb=4000, aliases=("chat",)), capabilities=TALKS),
    ]

    async def play() -> list[list[str]]:
        async with bot(Installation.of(models, [host("gpu-1", "comfy")]), FakeChat()) as running:
            for line in lines:
                await running.dispatcher.call(running.chat.call(line))
                await quiet(running)
            return [message.texts for message in running.chat.messages.values()]

    return run(play())


def test_a_misspelt_model_stays_in_the_prompt_and_is_said() -> None:
    """People would get an image of "flx" from another model, and not know why."""
    cases: list[tuple[str, str, str]] = [
        ("/image flx cat", "flx", "flux"),
        ("/image fluxx cat", "fluxx", "flux"),
        ("/image Fulx cat", "Fulx", "flux"),
        ("/image flux-schnel\na cat", "flux-schnel", "flux"),
        ("/ask lama why?", "lama", "llama"),
    ]
    for typed, word, meant in cases:
        ((first, *_, last),) = shown_of(typed)
        assert HINT.format(word, meant) in first, typed
        if typed.startswith("/image"):
            assert last.startswith(word), typed
            assert HINT.format(word, meant) in last, typed


def test_ordinary_words_are_taken_as_they_are() -> None:
    """No one would read a hint that appears under every other image."""
    cases: list[str] = [
        "/image flux cat",
        "/image cat on a fence",
        "/image fl cat",
        "/image lama in a field",  # no model that draws
        "/ask llamas or alpacas?",
        "/image --model flux flx cat",
        "/image " + "flux" * 20,
        "/ask what is a fox?",  # the text model's alias is "chat"
    ]
    for typed in cases:
        ((*texts,),) = shown_of(typed)
        assert not any("Did you mean" in text for text in texts), typed


def test_a_word_that_is_used_again_is_meant() -> None:
    """A person who likes to draw flax would be asked each time whether they meant flux."""
    told, again = shown_of("/image flax in bloom", "/image flax at night")
    assert "Did you mean flux?" in told[-1]
    assert not any("Did you mean" in text for text in again)
