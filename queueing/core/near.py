"""Names that resemble a word: what a person may have meant. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.6  # the share of two words' letters that must agree


def near(word: str, known: Iterable[str], *, most: int = 1, alike: float = _ALIKE) -> list[str]:
    """Return the known names that resemble a word, ignoring case, the nearest first."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), names, n=most, cutoff=alike)
    return [names[each] for each in close]


def meant_or_all(word: str, names: Iterable[str], *, all_are: str = "there are") -> str:
    """Return "did you mean …?" with the likely name, or all names behind `all_are`."""
    known = sorted(names)
    meant = near(word, known)
    return f"did you mean {meant[0]}?" if meant else f"{all_are} {', '.join(known)}"
