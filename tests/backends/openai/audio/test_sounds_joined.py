"""Several sounds are joined into one without encoding them again."""

import io
import wave
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.openai.audio.recordings import bare_mp3, is_plain, joined, sound_of
from tests.fakes.servers.speech_script import RATE, SOUNDS, mp3, wav


def test_a_sound_is_what_its_first_bytes_say(subtests: pytest.Subtests) -> None:
    """Servers call Ogg files "audio/opus", and send WAV where MP3 was asked for."""
    cases: list[tuple[str, str]] = [
        ("mp3", "audio/mpeg"),
        ("wav", "audio/wav"),
        ("opus", "audio/ogg"),
        ("flac", "audio/flac"),
        ("aac", "audio/aac"),
        ("pcm", ""),
    ]
    for name, mime in cases:
        with subtests.test(name=name, mime=mime):
            assert sound_of(SOUNDS[name]) == mime


def test_wav_files_become_one_of_the_true_length(subtests: pytest.Subtests) -> None:
    """Players would stop after the first part, or wait for the hours a streamed header states."""
    for told in [True, False]:
        with subtests.test(told=told):
            whole = joined([wav(0.5, told=told), wav(0.25, told=told)])
            with wave.open(io.BytesIO(whole)) as read:
                assert read.getnframes() == RATE * 3 // 4
                assert read.getframerate() == RATE
            assert int.from_bytes(whole[4:8], "little") == len(whole) - 8


def test_a_streamed_wav_file_alone_gets_its_length() -> None:
    """A player would show a length of hours."""
    with wave.open(io.BytesIO(joined([wav(0.5, told=False)]))) as read:
        assert read.getnframes() == RATE // 2


def test_wav_files_of_different_rates_are_not_joined() -> None:
    """The second part would be played too fast."""
    with pytest.raises(ValueError, match="differ"):
        joined([wav(), wav(rate=24_000)])


def test_mp3_files_become_frames_in_a_row() -> None:
    """The second part's tag would be played as noise, and its length would be that of the first."""
    whole = joined([mp3(3, tagged=True, counted=True), mp3(2, tagged=True, counted=True)])
    assert whole == mp3(5)


def test_an_mp3_file_alone_keeps_its_count_and_loses_its_tag() -> None:
    """Players would guess its length, or show what a server wrote into it."""
    assert joined([mp3(3, tagged=True, counted=True)]) == mp3(3, counted=True)
    assert bare_mp3(mp3(2) + b"TAG" + bytes(125)) == mp3(2)


def test_parts_of_different_kinds_are_not_joined() -> None:
    """A sound would break off where another format begins."""
    with pytest.raises(ValueError, match="types"):
        joined([mp3(), wav()])
    with pytest.raises(ValueError, match="cannot be joined"):
        joined([SOUNDS["flac"], SOUNDS["flac"]])


def test_a_broken_wav_file_is_none(subtests: pytest.Subtests) -> None:
    """A person would get a file that plays nothing."""
    for broken in [b"RIFF\0\0\0\0WAVE", wav()[:30], wav()[:44]]:
        with subtests.test(broken=broken):
            with pytest.raises(ValueError, match="WAV"):
                joined([broken])
            assert not is_plain(broken)


def test_the_form_that_speech_is_read_best_in_is_known() -> None:
    """A recording would be converted twice."""
    assert is_plain(wav())
    assert not is_plain(wav(rate=24_000))
    assert not is_plain(wav(channels=2))
    assert not is_plain(mp3())


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_no_bytes_are_more_than_refused(sounds: list[bytes]) -> None:
    """A server could end a job with an unexpected exception instead of a failure."""
    for head in (
        b"",
        b"RIFF\0\0\0\0WAVE",
        b"ID3\x04\0\x10\0\0\0\x01",
        b"\xff\xf3\x84\xc4",
        b"\xff\xf1",
    ):
        with suppress(ValueError):
            assert isinstance(joined([head + sound for sound in sounds]), bytes)
        is_plain(head + sounds[0])
