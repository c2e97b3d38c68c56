"""Recognises texts of JSON that are alike but for one string: the pieces of a streamed answer. Pure.

A server sends hundreds of pieces a second that differ in one word. If a text begins and ends like an
examined one, and the part between is plain text inside the same string, it means the same but for
that string, so that it need not be parsed.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

PROBE = "usher probe 5f1c"
"""Stands for the string while a form is examined."""
TRIES = 8

_SAID = re.compile(r'"(?:content|text|reasoning_content|reasoning)"\s*:\s*"((?:[^"\\]|\\.)*)"')


Kept = TypeVar("Kept")


class JsonTemplate(Generic[Kept]):
    """The form of the last text that was examined, and what a reader made of it.

    `examine` gets a text of that form which says `PROBE`, and returns what is to be kept; None if
    such texts have to be read whole. After a few texts in a row that were not alike, no more are examined.
    """

    def __init__(self, examine: Callable[[str], Kept | None]) -> None:
        self._examine = examine
        self._head = self._tail = ""
        self._kept: Kept | None = None
        self._tries = TRIES
        self._first = True

    def read(self, text: str) -> tuple[Kept, str] | None:
        """Return what was kept, and what this text says; None if it has another form."""
        kept, head, tail = self._kept, self._head, self._tail
        if kept is None or not (text.startswith(head) and text.endswith(tail)):
            return None
        said = text[len(head) : len(text) - len(tail)]
        if not said or '"' in said or "\\" in said or not said.isprintable():
            return None
        self._tries = TRIES
        return kept, said

    def learn(self, text: str) -> None:
        """Examine the form of a valid text, if it has a single string of an answer."""
        if self._first:
            self._first = (
                False  # a short answer has no further text, and the first is often another
            )
            return
        places = list(islice(_SAID.finditer(text), 2))
        if self._tries <= 0 or len(places) != 1:
            return
        start, end = places[0].span(1)
        head, tail = text[:start], text[end:]
        if PROBE in head or PROBE in tail:
            return
        if self._kept is not None and (head, tail) == (self._head, self._tail):
            return  # its string needs to be parsed
        self._tries -= 1
        self._head, self._tail = head, tail
        self._kept = self._examine(head + PROBE + tail)
