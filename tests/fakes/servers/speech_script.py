"""The sounds and the transcript of the fake speech servers, as real ones return them."""

import io
import math
import struct
import wave

RATE = 16_000
SAID = " The cat sat on the mat."
INVENTED = " Thank you."  # what models write down of silence


def wav(seconds: float = 0.2, rate: int = RATE, *, channels: int = 1, told: bool = True) -> bytes:
    """Return a tone; without `told`, its header lacks the length, as in a stream."""
    count = int(seconds * rate) * channels
    samples = b"".join(struct.pack("<h", int(8000 * math.sin(at / 9))) for at in range(count))
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples)
    whole = buffer.getvalue()
    return whole if told else whole[:40] + b"\xff\xff\xff\xff" + whole[44:]


def mp3(frames: int = 3, *, tagged: bool = False, counted: bool = False) -> bytes:
    """Return frames of silence at 64 kbit/s and 24 kHz, as text-to-speech servers send them."""
    head = bytes((0xFF, 0xF3, 0x84, 0xC4))
    frame = head + bytes(72 * 64_000 // 24_000 - 4)
    count = head + bytes(9) + b"Info" + bytes(len(frame) - 17)
    tag = b"ID3\x04\0\0\0\0\0\x05abcde"
    return (tag if tagged else b"") + (count if counted else b"") + frame * frames


SOUNDS = {
    "mp3": mp3(tagged=True, counted=True),
    "wav": wav(told=False),
    "opus": b"OggS\0\x02" + bytes(40) + b"OpusHead",
    "flac": b"fLaC" + bytes(40),
    "aac": b"\xff\xf1" + bytes(40),
    "pcm": wav()[44:],
}


def segment(at: int, text: str, **more: object) -> dict[str, object]:
    """Return a segment of two seconds in OpenAI's shape."""
    usual = {"id": at, "seek": 0, "start": 2.0 * at, "end": 2.0 * at + 2, "text": text}
    told = {"tokens": [1, 2], "temperature": 0.0, "avg_logprob": -0.2, "no_speech_prob": 0.01}
    return usual | told | more
