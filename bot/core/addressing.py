"""Removes the bot's name from a question that addresses it. Pure."""

import re

_COMMA = r",\u060c\u3001\uff0c"  # also in Arabic, Chinese and Japanese
_END = r".;:!?…)\]\u061b\u061f\u3002\uff01\uff1a\uff1b\uff1f"
_BEFORE_WORDS = re.compile(
    rf"\s*(?:[{_COMMA};:!\u061b\uff1a\uff1b]+(?=\s|\w|$)|[—–-]+(?=\s|$))\s*|\s*"
)
_ENDS_A_PHRASE = re.compile(rf"$|[{_COMMA}{_END}](?!\w)")
_BEGINS_A_PHRASE = re.compile(rf"[^\w{_COMMA}]$")
_COMMAND = re.compile(r"/\S+")
_GLUED = re.compile(r"['\u2019-]\w")
_ONLY_SIGNS = re.compile(rf"[\s{_COMMA}{_END}]*")
_COMMAS = frozenset(",\u060c\u3001\uff0c")
_EMPHASIS = frozenset("*_~|`")
_EMPTY_BRACKETS = {"()", "[]"}


def without_name(before: str, after: str, name: str) -> str:
    """Join the text before and after the bot's name, without the name.

    Also removes punctuation and emphasis that only set the name apart. `name` stays within a
    phrase, because the phrase may be about the bot.
    """
    while before[-1:] in _EMPHASIS and before[-1:] == after[:1]:
        before, after = before[:-1], after[1:]
    lead = before.rstrip()
    gap, rest = before[len(lead) :], after.lstrip()
    if f"{lead[-1:]}{rest[:1]}" in _EMPTY_BRACKETS:
        return f"{lead[:-1].rstrip()}{rest[1:]}"
    if _GLUED.match(after):
        return f"{before}{name}{after}"
    if not lead or "\n" in gap or _BEGINS_A_PHRASE.search(lead) or _COMMAND.fullmatch(lead):
        rest = _BEFORE_WORDS.sub("", after, count=1)
        return lead if lead and _ONLY_SIGNS.fullmatch(rest) else f"{lead}{gap}{rest}"
    if lead[-1] in _COMMAS:
        return f"{lead[:-1]}{rest}" if _ENDS_A_PHRASE.match(rest) else f"{lead}{gap}{rest}"
    return f"{before}{name}{after}"


def asks_nothing(text: str) -> bool:
    """Return whether a text has no words, only punctuation, as in "@usher?"."""
    return _ONLY_SIGNS.fullmatch(text) is not None
