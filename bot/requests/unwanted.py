"""Words that are unwanted in requests; pure."""

import re
import unicodedata
from collections.abc import Iterable

from queueing.core.requests import Chat, TextToImage


def unwanted_word(words: Iterable[str], texts: Iterable[str | None]) -> str | None:
    """Return the first of the words that appears in one of the texts, or None.

    Whole words are compared, ignoring case and the width of letters.
    """
    said = " ".join(_plain(text) for text in texts if text)
    padded = f" {said} "
    return next((word for word in words if f" {_plain(word)} " in padded), None)


def said_in(request: TextToImage | Chat) -> tuple[str | None, ...]:
    """Return a person's new words; earlier turns of a conversation were checked before."""
    match request:
        case TextToImage():
            return request.prompt, request.negative
        case Chat():
            return (request.messages[-1].text,)


def _plain(text: str) -> str:
    """Return a text's words, normalised, one blank apart; invisible characters split no word."""
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", seen).casefold()
    return " ".join(re.findall(r"\w+", folded))
