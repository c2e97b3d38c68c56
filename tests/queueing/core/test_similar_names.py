"""Names that are nearly a word, for every place that says what was perhaps meant."""

import re
from pathlib import Path

from queueing.core.catalog import near

ROOT = Path(__file__).parents[3]


def test_a_name_is_found_whatever_its_case_and_told_as_it_is_written() -> None:
    """A person would be told a name that the next call does not find, or none for a capital."""
    words = ("Pixel-Atr", "pixel-art", "OIL", "zebra", "")
    found = [near(word, ["Pixel-Art", "oil", "ink"]) for word in words]
    assert found == [["Pixel-Art"], ["Pixel-Art"], ["oil"], [], []]


def test_the_nearest_comes_first() -> None:
    """The one that was meant would stand behind others."""
    assert near("flux-fats", ["flux", "flux-fast", "sdxl"], most=3)[0] == "flux-fast"


def test_names_are_compared_in_one_place() -> None:
    """The same slip would be understood by one command and not by the next."""
    found = {
        str(path.relative_to(ROOT))
        for package in ("bot", "backends", "queueing")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"get_close_matches|SequenceMatcher", path.read_text("utf-8"))
    }
    assert found == {"queueing/core/catalog.py"}
