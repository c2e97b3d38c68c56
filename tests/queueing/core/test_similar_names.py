"""Names that are almost a word, for every message that suggests what was meant."""

import re
from pathlib import Path

from queueing.core.catalog import near

ROOT = Path(__file__).parents[3]


def test_a_name_is_found_whatever_its_case_and_told_as_it_is_written() -> None:
    """A person would be given a name that the next call does not find, or none due to its case."""
    words = ("Pixel-Atr", "pixel-art", "OIL", "zebra", "")
    found = [near(word, ["Pixel-Art", "oil", "ink"]) for word in words]
    assert found == [["Pixel-Art"], ["Pixel-Art"], ["oil"], [], []]


def test_the_nearest_comes_first() -> None:
    """The intended name would come after others."""
    assert near("flux-fats", ["flux", "flux-fast", "sdxl"], most=3)[0] == "flux-fast"


def test_names_are_compared_in_one_place() -> None:
    """The same typing error would be understood by one command but not by the next."""
    found = {
        str(path.relative_to(ROOT))
        for package in ("bot", "backends", "queueing")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"get_close_matches|SequenceMatcher", path.read_text("utf-8"))
    }
    assert found == {"queueing/core/catalog.py"}
