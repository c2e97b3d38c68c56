"""Transcripts as servers return them, and answers of any other shape."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.openai.audio.transcription import SpeechTranscript
from backends.openai.audio.transcription import heard as read
from queueing.core.errors import BackendError, UnreadableAnswer
from tests.fakes.servers.speech_script import segment
from tests.samples import examples


def heard(answer: Any) -> SpeechTranscript:
    """Read an answer of any shape."""
    return read(answer)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = ("text", "start", "end", "tokens", "avg_logprob", "no_speech_prob")
SEGMENTS = st.lists(st.dictionaries(st.sampled_from(FIELDS), ANYTHING) | ANYTHING, max_size=3)
ANSWERS = st.fixed_dictionaries(
    {"text": st.text(max_size=20) | ANYTHING},
    optional={"segments": SEGMENTS | ANYTHING, "duration": ANYTHING, "language": ANYTHING},
)


@examples(100, quick=25)
@given(ANSWERS | ANYTHING)
def test_any_answer_is_read_or_a_failure(answer: Any) -> None:
    """A server could end a job with an unexpected exception instead of a failure."""
    with suppress(BackendError):
        told = heard(answer)
        verbose = told.verbose(translated=False)
        assert not verbose or json.loads(verbose)["text"] == told.text
        for each in told.segments or ():
            assert isinstance(each["start"], float)
            assert isinstance(each["end"], float)


def test_a_segment_is_silent_by_its_numbers(subtests: pytest.Subtests) -> None:
    """Short words in a long silence would be lost, or "Thank you." would be kept."""
    cases: list[tuple[object, object, bool]] = [
        (0.1, -3.0, True),
        (0.65, -0.4, True),
        (0.65, -1.5, False),
        (0.85, -0.1, False),
        ("0.85", "-0.1", False),
        (None, None, True),
    ]
    for silence, sure, kept in cases:
        with subtests.test(kept=kept):
            odd = segment(1, " Thank you.", no_speech_prob=silence, avg_logprob=sure)
            told = heard({"text": " Hello. Thank you.", "segments": [segment(0, " Hello."), odd]})
            assert told.text == ("Hello. Thank you." if kept else "Hello.")
            assert len(told.segments or ()) == 1 + kept


def test_a_sign_of_silence_is_no_text(subtests: pytest.Subtests) -> None:
    """A model would be asked about "[BLANK_AUDIO]"."""
    for blank in ["[BLANK_AUDIO]", " [BLANK_AUDIO]\n", "[silence]", ""]:
        with subtests.test(blank=blank):
            assert heard({"text": blank}).text == ""
            told = heard(
                {"text": f"{blank} Hello.", "segments": [segment(0, blank), segment(1, " Hello.")]}
            )
            assert told.text == "Hello."


def test_reasoning_is_no_transcript() -> None:
    """Models of llama.cpp leave their reasoning in the text."""
    assert heard({"text": "<think>a voice?</think>\nHello."}).text == "Hello."


def test_an_answer_without_a_text_is_a_failure(subtests: pytest.Subtests) -> None:
    """A person would get an empty transcript."""
    answers: list[object] = [None, [], "text", {}, {"text": 5}, {"text": None}]
    for answer in answers:
        with subtests.test(answer=answer), pytest.raises(UnreadableAnswer):
            heard(answer)


def test_nanoseconds_and_texts_are_numbers_of_seconds() -> None:
    """A program would see subtitles at 60 years."""
    nano = {"text": "Hi.", "segments": [{"text": "Hi.", "start": 0, "end": 1_500_000_000}]}
    (told,) = heard(nano).segments or ()
    assert (told["start"], told["end"]) == (0.0, 1.5)
    assert heard({"text": "Hi.", "duration": "12.5"}).seconds == 12.5
    assert heard({"text": "Hi.", "duration": 12_500_000_000}).seconds == 12.5
