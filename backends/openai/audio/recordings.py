"""Detects the type of a speech server's audio from its bytes, and joins parts of audio. Pure.

Parts are joined without encoding them again: WAV samples under one header, MP3 and AAC frames one
after another, Ogg files as a chained stream.
"""

from collections.abc import Sequence
from itertools import pairwise

from backends.common.file_types import is_sound, mime_of

ENDINGS = {
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/flac": "flac",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/pcm": "pcm",
}
PLAIN = b"\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0"  # WAV format: 16 kHz, mono, 16 bits
JOINED = frozenset({"audio/mpeg", "audio/ogg", "audio/wav", "audio/aac"})

_HEADER = 12  # bytes of a RIFF file before its chunks
_CHUNK = 8  # bytes of a chunk before its data
_ID3 = 10  # bytes of an ID3v2 tag's header; its footer is as long
_OLD_TAG = 128  # bytes of an ID3v1 tag at the end of a file
_BITRATES = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def sound_of(data: bytes) -> str:
    """Return the media type of audio by its first bytes; "" for anything else."""
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0:
        return "audio/aac"  # ADTS
    mime = mime_of(data)
    return mime if is_sound(mime) else ""


def joined(sounds: Sequence[bytes]) -> bytes:
    """Return parts of one type as one sound. Raises `ValueError` if they cannot be joined."""
    kinds = {sound_of(sound) for sound in sounds}
    if len(kinds) != 1:
        raise ValueError("the parts have different types")
    (kind,) = kinds
    if kind == "audio/wav":
        return _wav(sounds)
    if len(sounds) == 1:
        return bare_mp3(sounds[0]) if kind == "audio/mpeg" else sounds[0]
    if kind not in JOINED:
        raise ValueError(f"parts of {kind or 'an unknown type'} cannot be joined")
    if kind == "audio/mpeg":
        return b"".join(_without_count(bare_mp3(sound)) for sound in sounds)
    return b"".join(sounds)


def is_plain(sound: bytes) -> bool:
    """Return whether a sound is 16 kHz mono WAV with 16 bits, the best form for transcription."""
    return plain_samples(sound) is not None


def plain_samples(sound: bytes) -> memoryview | None:
    """Return the samples of a plain WAV as numbers, without copying; None for anything else."""
    if sound_of(sound) != "audio/wav":
        return None
    try:
        form, samples = _chunks(sound)
    except ValueError:
        return None
    return samples[: len(samples) // 2 * 2].cast("h") if form[:16] == PLAIN else None


def plain_wav(samples: memoryview) -> bytes:
    """Return samples as a plain WAV."""
    return _riff(PLAIN, samples.tobytes())


# ---------------------------------------------------------------- WAV


def _wav(sounds: Sequence[bytes]) -> bytes:
    """Join the samples of all files under one header with the true length.

    A streaming server does not know the length in advance and writes 0 or the maximum.
    """
    forms, samples = zip(*map(_chunks, sounds), strict=True)
    if any(one != other for one, other in pairwise(forms)):
        raise ValueError("the parts differ in rate or format")
    return _riff(forms[0], b"".join(samples))


def _riff(form: bytes, data: bytes) -> bytes:
    chunks = _chunk(b"fmt ", form) + _chunk(b"data", data)
    return b"RIFF" + _four(4 + len(chunks)) + b"WAVE" + chunks


def _chunks(whole: bytes) -> tuple[bytes, memoryview]:
    """Return a WAV file's format and its samples, without copying."""
    form, at, sound = b"", _HEADER, memoryview(whole)
    while at + _CHUNK <= len(sound):
        name, size = (
            bytes(sound[at : at + 4]),
            int.from_bytes(sound[at + 4 : at + _CHUNK], "little"),
        )
        at += _CHUNK
        if name == b"fmt ":
            form = bytes(sound[at : at + size])
        if name == b"data":
            unknown = size == 0 or at + size > len(sound)
            data = sound[at:] if unknown else sound[at : at + size]
            if not form or not data:
                raise ValueError("a WAV file without a format or without samples")
            return form, data
        at += size + size % 2
    raise ValueError("a WAV file without samples")


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + _four(len(data)) + data + b"\0" * (len(data) % 2)


def _four(number: int) -> bytes:
    return min(number, 2**32 - 1).to_bytes(4, "little")


# ---------------------------------------------------------------- MP3


def bare_mp3(sound: bytes) -> bytes:
    """Return an MP3 file without the tags before and after its frames."""
    while sound.startswith(b"ID3") and len(sound) > _ID3:
        size = 0
        for byte in sound[6:_ID3]:
            size = size << 7 | byte & 0x7F
        footer = _ID3 if sound[5] & 0x10 else 0
        sound = sound[_ID3 + size + footer :]
    return sound[:-_OLD_TAG] if sound[-_OLD_TAG:].startswith(b"TAG") else sound


def _without_count(sound: bytes) -> bytes:
    """Drop the frame that states the number of frames, at which players would stop."""
    length = _frame(sound[:4])
    head = sound[:length]
    return sound[length:] if any(mark in head for mark in (b"Xing", b"Info", b"VBRI")) else sound


def _frame(head: bytes) -> int:
    """Return the length of an MP3 frame; 0 if there is none."""
    if sound_of(head) != "audio/mpeg":
        return 0
    version, rate = head[1] >> 3 & 3, head[2] >> 2 & 3
    newest = version == 3
    bits = _BITRATES[newest][head[2] >> 4] * 1000
    return (144 if newest else 72) * bits // _RATES[version][rate] + (head[2] >> 1 & 1)
