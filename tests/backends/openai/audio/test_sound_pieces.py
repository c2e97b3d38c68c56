"""Long recordings, divided at their pauses."""

import array
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.openai.audio import transcription
from backends.openai.audio.recordings import is_plain, plain_samples, plain_wav
from backends.openai.audio.transcription import (
    PAUSE_S,
    PIECE_S,
    RATE,
    SoundPiece,
    SpeechTranscript,
    pieces_of,
    together,
)
from tests.fakes.servers.speech_script import mp3, segment, wav


def speaking(seconds: float, pauses: tuple[float, ...] = ()) -> bytes:
    """Return a tone with silences of half a second."""
    tone = array.array("h", (int(8000 * math.sin(at / 9)) for at in range(RATE)))
    samples = tone * int(seconds)
    for at in pauses:
        begin = int(at * RATE)
        samples[begin : begin + RATE // 2] = array.array("h", bytes(RATE))
    return plain_wav(memoryview(samples))


def samples_of(sound: bytes) -> bytes:
    samples = plain_samples(sound)
    assert samples is not None
    return samples.tobytes()


def test_a_short_recording_is_one_piece() -> None:
    """Most voice messages would need two calls."""
    sound = speaking(PIECE_S)
    assert pieces_of(sound) == [SoundPiece(whole=sound)]
    assert pieces_of(mp3()) == [SoundPiece(whole=mp3())]


def test_a_long_recording_is_divided_in_its_pauses() -> None:
    """A word would be cut in two."""
    parts = pieces_of(speaking(300, pauses=(50, 110, 220)))
    assert [part.begins for part in parts] == pytest.approx([0, 110, 220], abs=0.5)
    assert sum(part.seconds or 0 for part in parts) == pytest.approx(300)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40_000), st.integers(2_000, 9_000))
def test_pieces_are_the_whole_recording(count: int, rate: int) -> None:
    """Part of what was said would be left out, or transcribed twice."""
    samples = array.array("h", (at * 7919 % 65_536 - 32_768 for at in range(count)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcription, "RATE", rate)
        patch.setattr(transcription, "PIECE_S", 2.0)
        patch.setattr(transcription, "PAUSE_S", 1.0)
        parts = pieces_of(plain_wav(memoryview(samples)))
    assert all(is_plain(part.sound()) for part in parts) or not count
    if count:
        assert b"".join(samples_of(part.sound()) for part in parts) == samples.tobytes()
        assert all(len(samples_of(part.sound())) <= 2 * 2 * rate for part in parts)


def test_dividing_an_hour_takes_little() -> None:
    """Every long recording would keep a processor busy."""
    sound = plain_wav(memoryview(array.array("h", bytes(2 * RATE * 3600))))
    begun = time.process_time()
    assert len(pieces_of(sound)) >= 3600 / PIECE_S
    assert time.process_time() - begun < 5
    assert PAUSE_S < PIECE_S


def test_segments_are_told_by_the_time_of_the_recording() -> None:
    """The times of subtitles would start again from zero with each piece."""
    parts = [
        SoundPiece(whole=wav(), begin=int(begin * RATE), end=int(end * RATE))
        for begin, end in ((0, 110), (110, 210), (210, 215.5))
    ]
    told = [
        SpeechTranscript(text="Hello.", segments=(segment(0, " Hello."),), language="english"),  # type: ignore[arg-type]
        SpeechTranscript(text="", segments=None),
        SpeechTranscript(text="You.", segments=(segment(0, " You."),), language="german"),  # type: ignore[arg-type]
    ]
    whole = together(parts, told)
    assert whole.text == "Hello. You."
    assert [(each["id"], each["start"]) for each in whole.segments or ()] == [(0, 0.0), (1, 210.0)]
    assert whole.language == "english"
    assert whole.seconds == 215.5
    assert together(parts, [*told[:2], SpeechTranscript(text="You.")]).segments is None
