"""A sentence that calls the bot by its name, as it reads without the name. Pure."""

import re

_BEFORE_WORDS = re.compile(r"\s*[,:;](?=\s|$)\s*|\s*")
_ENDS_A_PHRASE = re.compile(r"$|[,.;:!?…)\]](?!\w)")

_EMPTY_BRACKETS = {"()", "[]"}


def without_name(before: str, after: str) -> str:
    """Return a text without the name that stands between two parts of it.

    The punctuation that only set the name apart goes with it.
    """
    words = before.rstrip()
    if not words:
        return _BEFORE_WORDS.sub("", after, count=1)
    gap, rest = before[len(words) :], after.lstrip()
    if f"{words[-1]}{rest[:1]}" in _EMPTY_BRACKETS:
        return f"{words[:-1].rstrip()}{rest[1:]}"
    if not _ENDS_A_PHRASE.match(rest):
        return f"{words}{gap}{rest}"
    return f"{words.removesuffix(',')}{rest}"
