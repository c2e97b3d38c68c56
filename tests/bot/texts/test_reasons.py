"""The sentence that says why a job waits."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from bot.core.content import Moment
from bot.texts.catalogue import CATALOGUES, DEFAULT_LANGUAGE
from bot.texts.reasons import DETAILS, because, sentence
from queueing.core.snapshot import Reason, WaitCause

KNOWN = {"host": "gpu-1", "backend": "comfy", "other": "sdxl", "since": 1.0, "until": 2.0}
SUBSETS = [names for count in range(len(DETAILS) + 1) for names in combinations(DETAILS, count)]
FRAGMENTS = {"on", "its_host", "another"}


def said(reason: Reason, language: str = "en") -> str:
    """Return the sentence with its times in seconds."""
    return sentence(reason, language, str)


@pytest.mark.parametrize("language", CATALOGUES)
def test_every_reason_has_a_sentence_whatever_is_known(language: str) -> None:
    """A waiting person would be told nothing, or shown internals of the program."""
    for why, names in product(WaitCause, SUBSETS):
        known = {name: KNOWN[name] for name in names}
        text = said(replace(Reason(why=why, model="flux"), **known), language)  # type: ignore[arg-type]
        assert len(text) > 5, why
        assert "None" not in text, why
        assert not text.endswith("."), why
        assert "\n" not in text, why


def test_every_text_of_a_reason_belongs_to_a_cause_and_its_details() -> None:
    """A misspelt key would never be shown, and people would read the shorter sentence."""
    causes = [why.replace("-", "_") for why in WaitCause]
    possible = {"_".join((cause, *names)) for cause, names in product(causes, SUBSETS)}
    tables = (key.partition(".") for key in CATALOGUES[DEFAULT_LANGUAGE])
    assert {name for table, _, name in tables if table == "reason"} - FRAGMENTS <= possible


def test_sentences_name_what_a_person_can_understand() -> None:
    """The reasons listed in the design would read differently in chat and list."""
    loading = Reason(why=WaitCause.LOADING, model="flux", host="gpu-1")
    assert because(loading, "en") == ("loading flux on gpu-1",)
    busy = Reason(why=WaitCause.ROOM_BUSY, model="flux", host="gpu-1", other="sdxl")
    assert said(busy) == "waiting for sdxl to finish on gpu-1"
    assert said(Reason(why=WaitCause.PAUSED, model="flux")) == "paused by an admin"
    pinned = replace(busy, why=WaitCause.PINNED)
    assert said(pinned) == "sdxl stays in memory on gpu-1 until an admin unloads it"
    kept = (
        "sdxl stays in memory on gpu-1, because its server can't unload it on request: the operator"
        " can stop that server, or set a smaller vram for sdxl if it needs less"
    )
    assert said(replace(pinned, why=WaitCause.KEPT)) == kept
    alone = "its server crashed last time, so one job runs alone first"
    assert said(replace(busy, why=WaitCause.SUSPECT, other="flux")) == alone


def test_sentences_name_what_is_away_and_since_when() -> None:
    """People would read that a machine is offline which serves others."""
    offline = Reason(why=WaitCause.OFFLINE, model="flux", host="gpu-2", since=7.0)
    assert said(offline) == "gpu-2 has been offline since 7.0, and no other host has flux"
    server = replace(offline, backend="ollama")
    told = "ollama on gpu-2 has been offline since 7.0, and no other server has flux"
    assert said(server) == told
    assert said(replace(offline, since=0.0)) == "gpu-2 is offline, and no other host has flux"


def test_sentences_keep_their_moments_in_every_language() -> None:
    """A platform could not show a time in the reader's own format."""
    busy = Reason(why=WaitCause.QUIET, model="flux", host="gpu-1", until=2.0)
    ends = Moment(2.0, clock=True)
    assert because(busy, "en") == ("gpu-1 has quiet hours until ", ends)
    assert because(busy, "de") == ("gpu-1 hat Ruhezeit bis ", ends)
    begins = Moment(1.0, clock=True)
    soon = replace(busy, why=WaitCause.QUIET_SOON, since=1.0)
    game = Reason(why=WaitCause.YIELDING, model="flux", host="gpu-1", since=1.0)
    for language in CATALOGUES:
        assert {begins, ends} <= set(because(soon, language))
        assert begins in because(game, language)
