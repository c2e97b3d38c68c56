"""Sounds are converted to what servers and chats ask for."""

import array
import io
import math
import wave

import pytest

from backends.common.file_types import mime_of
from backends.media import sounds, videos
from backends.media.sounds import SoundError, SoundFault, as_music, as_voice, as_wav
from queueing.core.requests import File

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

import av

from tests.backends.media.planted import SECRET
from tests.backends.media.recorded_videos import KINDS, tags_of, video

pytestmark = pytest.mark.usefixtures("helper_here")
HEARD = [kind for kind, how in KINDS.items() if how.sound]


def file(data: bytes, name: str = "message.bin") -> File:
    return File(name=name, mime=mime_of(data), data=data)


def spoken(seconds: float, *, hz: int = 44_100, quiet_until: float = 0.0) -> bytes:
    """Return a WAV file with a tone after some silence."""
    out = io.BytesIO()
    with wave.open(out, "wb") as made:
        made.setnchannels(2)
        made.setsampwidth(2)
        made.setframerate(hz)
        loud = (
            0 if at / hz < quiet_until else round(20_000 * math.sin(at * 0.06))
            for at in range(int(seconds * hz))
        )
        made.writeframes(array.array("h", [each for wave in loud for each in (wave, wave)]))
    return out.getvalue()


async def test_any_sound_becomes_what_servers_read(subtests: pytest.Subtests) -> None:
    """A server that transcribes accepts neither Telegram's Opus nor its round videos."""
    for kind in HEARD:
        with subtests.test(kind=kind):
            made = await as_wav(file(video(kind), "voice.bin"))
            assert (made.name, made.mime) == ("voice.wav", "audio/wav")
            with wave.open(io.BytesIO(made.data)) as heard:
                assert (heard.getframerate(), heard.getnchannels(), heard.getsampwidth()) == (
                    16_000,
                    1,
                    2,
                )
                samples = array.array("h", heard.readframes(heard.getnframes()))
                assert heard.getnframes() / 16_000 == pytest.approx(30 * 1024 / 48_000, abs=0.12)
            assert max(samples) > 4_000
            assert SECRET not in made.data.decode("latin-1")


async def test_any_sound_becomes_a_voice_message(subtests: pytest.Subtests) -> None:
    """A spoken answer would arrive as a file to download."""
    for kind in HEARD:
        with subtests.test(kind=kind):
            voice = await as_voice(file(video(kind), "speech.bin"))
            assert (voice.file.name, voice.file.mime) == ("speech.ogg", "audio/ogg")
            assert voice.file.data.startswith(b"OggS")
            assert voice.seconds == pytest.approx(30 * 1024 / 48_000, abs=0.12)
            assert SECRET not in tags_of(voice.file.data)
            with av.open(io.BytesIO(voice.file.data)) as heard:
                context = heard.streams.audio[0].codec_context
                assert (context.name, context.channels, context.sample_rate) == ("opus", 1, 48_000)


async def test_a_voice_message_is_small() -> None:
    """A long answer would be too large for a chat."""
    voice = await as_voice(file(spoken(4.0, quiet_until=2.0)))
    assert voice.seconds == pytest.approx(4.0, abs=0.1)
    assert len(voice.file.data) < 4 * 32_000 / 8 * 1.5


async def test_music_stays_as_it_is_where_players_take_it() -> None:
    """A song would be encoded twice, or arrive as a file to download."""
    for kind in ("mp3", "m4a"):
        song = file(video(kind), "song.bin")
        assert await as_music(song) is song
    for kind in ("flac", "wav", "ogg"):
        made = await as_music(file(video(kind), "song.bin"))
        assert (made.name, made.mime) == ("song.mp3", "audio/mpeg")
        assert SECRET not in tags_of(made.data)


async def test_what_cannot_be_heard_is_told() -> None:
    """People would be told that a silent video is broken."""

    async def fault_of(data: bytes, **how: float) -> SoundFault:
        with pytest.raises(SoundError) as raised:
            await as_wav(file(data), **how)
        return raised.value.fault

    assert await fault_of(video("mp4", silent=True)) is SoundFault.SILENT
    assert await fault_of(spoken(3.0), seconds=2.0) is SoundFault.TOO_LONG
    assert await fault_of(b"hello") is SoundFault.UNREADABLE
    assert await fault_of(video("ogg")[:60]) is SoundFault.UNREADABLE
    with pytest.raises(SoundError):
        await as_music(file(video("mp4")))


async def test_a_sound_is_looked_at() -> None:
    """A chat would show a song without a length."""
    for kind in HEARD:
        found = (await videos.looked_at(file(video(kind)))).looks
        assert found.seconds > 0.5, kind
        assert found.sound


async def test_without_the_library_a_sound_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """People would send a faultless sound again."""
    monkeypatch.setattr(videos, "available", lambda: False)
    for made in (as_wav, as_voice, as_music):
        with pytest.raises(SoundError) as raised:
            await made(file(video("ogg")))
        assert raised.value.fault is SoundFault.NO_LIBRARY
    assert sounds.SECONDS_MOST >= 600
