"""Recognises JSON texts that differ in one string only: the chunks of a streamed answer. Pure.

A server sends hundreds of chunks a second that differ in one word. If a text has the same start and
end as an earlier one, and plain characters between them, it differs only in that string. It then
need not be parsed.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

PROBE = "usher probe 5f1c"
"""Placeholder for the string while a template is examined."""
TRIES = 8

_SAID = re.compile(r'"(?:content|text|reasoning_content|reasoning)"\s*:\s*"((?:[^"\\]|\\.)*)"')


Kept = TypeVar("Kept")


class JsonTemplate(Generic[Kept]):
    """The template of the last examined text, with the result that the reader keeps for it.

    `examine` receives the text with its string replaced by `PROBE`. It returns the result to keep,
    or None if such texts must be parsed each time. After `TRIES` examined texts without a match, no
    more are examined.
    """

    def __init__(self, examine: Callable[[str], Kept | None]) -> None:
        self._examine = examine
        self._head = self._tail = ""
        self._kept: Kept | None = None
        self._tries = TRIES
        self._first = True

    def read(self, text: str) -> tuple[Kept, str] | None:
        """Return the kept result and the string in this text; None if the text does not match."""
        kept, head, tail = self._kept, self._head, self._tail
        if kept is None or not (text.startswith(head) and text.endswith(tail)):
            return None
        said = text[len(head) : len(text) - len(tail)]
        if not said or '"' in said or "\\" in said or not said.isprintable():
            return None
        self._tries = TRIES
        return kept, said

    def learn(self, text: str) -> None:
        """Examine a valid text if it contains exactly one answer string."""
        if self._first:
            self._first = (
                False  # a short answer has no second text, and the first text often differs
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
            return  # the string contains escapes
        self._tries -= 1
        self._head, self._tail = head, tail
        self._kept = self._examine(head + PROBE + tail)
