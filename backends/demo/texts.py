"""Texts and vectors without a model: answers built from the question, and hashed words. Pure."""

import hashlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from textwrap import shorten

from PIL import Image

from backends.common.vectors import Vector
from queueing.core.requests import Chat, Embed, EmbedInput, ImageInput, PassedOn

OPENING = (
    "**This is Usher's stand-in: no language model was used.** It only shows how an answer "
    "arrives, word by word, in your own message."
)
CLOSING = (
    "With a real server behind it (LM Studio, Ollama, llama.cpp, vLLM …) the answer of a real "
    "model would stand here. Write on, or in a group reply to this message, to go on with the "
    "conversation."
)
LETTERS_OF_A_WORD_WORTH_NAMING = 4


def answer(chat: Chat, images: Sequence[tuple[int, int]] = ()) -> str:
    """Return a Markdown answer that says it is a stand-in and quotes the question.

    `images` are the sizes of the attached images in pixels.
    """
    question = chat.messages[-1].text.strip()
    facts = "\n".join(f"- {fact}" for fact in _facts(chat, question, images))
    return "\n\n".join((OPENING, _echo(question), facts, CLOSING))


def continuation(passed_on: PassedOn) -> str:
    """Return a prompt's continuation, or the text between it and its suffix."""
    prompt, suffix = passed_on.body.get("prompt"), passed_on.body.get("suffix")
    words = len(prompt) if isinstance(prompt, list) else len(str(prompt).split())
    after = f", and {_count(len(str(suffix).split()), 'word')} after the gap" if suffix else ""
    return (
        f"This is Usher's stand-in: no language model was used. Your prompt has "
        f"{_count(words, 'word')}{after}."
    )


def chunk(word: str, number: int, of: int) -> str:
    """Return one word of an answer as a chunk in OpenAI's form; the last has the finish reason."""
    delta = {"content": word if number == 1 else f" {word}"}
    end = "stop" if number == of else None
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})


def whole_answer(chat: Chat, words: Sequence[str]) -> str:
    """Return a whole answer in the form that servers send; words count as tokens."""
    asked = sum(len(message.text.split()) for message in chat.messages)
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": len(words),
        "total_tokens": asked + len(words),
    }
    message = {"content": " ".join(words), "refusal": None}
    return json.dumps({"message": message, "finish_reason": "stop", "usage": usage})


def _echo(question: str) -> str:
    if not question:
        return "You asked nothing in words."
    return f"You asked: “{shorten(question, 300, placeholder=' …')}”"


def _facts(chat: Chat, question: str, images: Sequence[tuple[int, int]]) -> list[str]:
    words = question.split()
    facts = [
        f"Your question has {_count(len(words), 'word')}, {_count(len(question), 'character')}."
    ]
    common = Counter(
        word.casefold().strip(".,;:!?\"'()")
        for word in words
        if len(word) > LETTERS_OF_A_WORD_WORTH_NAMING
    ).most_common(3)
    if common:
        facts.append("It is about: " + ", ".join(word for word, _ in common if word) + ".")
    earlier = sum(message.role == "user" for message in chat.messages) - 1
    if earlier > 0:
        facts.append(f"I have seen {_count(earlier, 'earlier question')} of this conversation.")
    facts += [f"You attached an image of {width} by {height} pixels." for width, height in images]
    return facts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


DIMENSIONS = 256
NOTE = "These vectors are hashes of words, made without a model."
_GRID = 8
_PLACES = 4  # of each feature in a vector, so that two features rarely share all of them
_LETTERS = 3
Features = Iterator[tuple[str, float]]


def hashed(request: Embed, images: Mapping[int, Image.Image]) -> list[Vector]:
    """Return a vector for each input of a request. `images` are the ones that it refers to."""
    dimensions = request.dimensions or DIMENSIONS
    return [_vector(_features(given, images), dimensions) for given in request.inputs]


def tokens_of(inputs: Sequence[EmbedInput]) -> int:
    """Return the number of words and tokens in the inputs."""
    return sum(len(given) if isinstance(given, tuple) else len(_words(given)) for given in inputs)


def _words(given: str | ImageInput) -> list[str]:
    text = given.text if isinstance(given, ImageInput) else given
    return re.findall(r"\w+", text.casefold())


def _features(given: EmbedInput, images: Mapping[int, Image.Image]) -> Features:
    if isinstance(given, tuple):
        yield from ((f"token {token}", 1.0) for token in given)
        return
    for word in _words(given):
        yield f"word {word}", 1.0
        for at in range(len(word) - _LETTERS + 1):
            yield f"letters {word[at : at + _LETTERS]}", 0.3
    if isinstance(given, ImageInput):
        yield from _brightness(images[given.image])


def _brightness(image: Image.Image) -> Features:
    small = image.convert("L").resize((_GRID, _GRID))
    values = small.tobytes()
    middle = sum(values) / len(values)
    for at, value in enumerate(values):
        yield f"part {at}", (value - middle) / 255


def _vector(features: Features, dimensions: int) -> Vector:
    values = [0.0] * dimensions
    for name, weight in features:
        digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=4 * _PLACES).digest()
        for at in range(0, len(digest), 4):
            number = int.from_bytes(digest[at : at + 4], "big")
            values[(number >> 1) % dimensions] += weight if number & 1 else -weight
    length = sqrt(sum(value * value for value in values))
    return array("f", (value / (length or 1.0) for value in values))
