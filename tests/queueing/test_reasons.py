"""The sentence that says why a job waits."""

import pytest

from queueing.reasons import sentence
from queueing.world import Blocked, Reason


@pytest.mark.parametrize("why", list(Blocked))
def test_every_reason_has_a_sentence_with_or_without_details(why: Blocked) -> None:
    """A waiting person would be told nothing, or shown the inside of the program."""
    bare = sentence(Reason(why=why, model="flux"))
    full = sentence(
        Reason(
            why=why,
            model="flux",
            host="gpu-1",
            other="sdxl",
            about_s=40.0,
            since=1_790_000_000.0,
            until=1_790_000_060.0,
        )
    )
    for text in (bare, full):
        assert text
        assert "None" not in text
        assert not text.endswith(".")
        assert "\n" not in text


def test_sentences_name_what_a_person_can_understand() -> None:
    """The reasons of the design would read differently in chat, log and list."""
    loading = Reason(why=Blocked.LOADING, model="flux", host="gpu-1", about_s=40.2)
    assert sentence(loading) == "loading flux on gpu-1, about 40 s"
    busy = Reason(why=Blocked.ROOM_BUSY, model="flux", host="gpu-1", other="sdxl")
    assert sentence(busy) == "sdxl is busy on gpu-1 until its running job ends"
    offline = Reason(why=Blocked.OFFLINE, model="flux", host="gpu-2", since=1_790_000_000.0)
    assert sentence(offline) == "gpu-2 is offline since 14:13 UTC, no other host has flux"
    assert sentence(Reason(why=Blocked.PAUSED, model="flux")) == "paused by an admin"
