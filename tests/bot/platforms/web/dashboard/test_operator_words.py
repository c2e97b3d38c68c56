"""The words of the operator's page: each once, in both languages, with the same slots."""

import re
from typing import get_args

from bot.monitoring.live_state import Mode
from bot.platforms.web.assets import page_files

FILES = page_files("dashboard_page")
WORD = re.compile(r'^  "?([\w.-]+)"?: "(.*)",$', re.MULTILINE)


def words(language: str) -> list[tuple[str, str]]:
    """Return the words of a language by their keys, in their order."""
    return WORD.findall(FILES[f"words_{language}.js"][1].decode())


def test_no_word_is_defined_twice() -> None:
    """The later one would be shown for both."""
    for language in ("en", "de"):
        keys = [key for key, _ in words(language)]
        assert len(keys) > 100
        assert sorted(set(keys)) == sorted(keys)


def test_both_languages_say_the_same_with_the_same_slots() -> None:
    """A reader of one language would read a key, or a sentence without its number."""
    english, german = dict(words("en")), dict(words("de"))
    assert english.keys() == german.keys()
    for key, text in english.items():
        slots = re.findall(r"{(\w+)}", text)
        assert sorted(slots) == sorted(re.findall(r"{(\w+)}", german[key])), key


def test_every_mode_of_a_host_has_words() -> None:
    """An operator would read a code on a GPU."""
    assert set(get_args(Mode)) <= dict(words("en")).keys()
