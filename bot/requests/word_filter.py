"""Finds unwanted words in requests. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from queueing.core.requests import (
    Chat,
    Embed,
    Generation,
    PassedOn,
    Request,
    SpeechToText,
    TextToAudio,
    TextToSpeech,
)


def unwanted_word(words: Iterable[str], texts: Iterable[str | None]) -> str | None:
    """Return the first of the words that appears in one of the texts, or None.

    Whole words are compared, ignoring case and full-width forms.
    """
    said = " ".join(_plain(text) for text in texts if text)
    padded = f" {said} "
    return next((word for word in words if f" {_plain(word)} " in padded), None)


def said_in(request: Request, *, continues: bool = False) -> tuple[str | None, ...]:
    """Return the texts a person wrote in a request.

    With `continues`, earlier turns of the conversation are left out, because they were checked
    before. Embeddings are not checked: a whole document would fail over one word.
    """
    match request:
        case Generation():
            lyrics = request.lyrics if isinstance(request, TextToAudio) else None
            return request.prompt, request.negative, lyrics
        case TextToSpeech():
            return request.text, request.instructions
        case SpeechToText():
            return (request.prompt,)
        case Chat(passed_on=PassedOn(body=body)):
            return tuple(_texts(body))
        case Chat():
            said = request.messages[-1:] if continues else request.messages
            return tuple(message.text for message in said if message.role != "assistant")
        case Embed():
            return ()


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield every text of a program's request except an assistant's words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict) and value.get("role") != "assistant":
        for each in value.values():
            yield from _texts(each)


def _plain(text: str) -> str:
    """Return a text's words, normalised and separated by single spaces.

    Invisible characters do not split words.
    """
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", seen).casefold()
    return " ".join(re.findall(r"\w+", folded))
