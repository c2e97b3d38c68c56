"""Checks the sound and video people send and converts them in a separate process."""

from backends.common.file_types import is_sound, mime_of
from backends.media import videos
from backends.media.sounds import SoundError, SoundFault, as_voice
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.files.documents import too_large
from queueing.core.requests import File

SOUND_MB = 20  # the most Telegram lets a bot download; used everywhere
SOUND_S = 1800.0
_ENDINGS = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}


def require_sound_weight(name: str, size: int) -> None:
    """Refuse a file that is too large for a recording. Raises `Declined`."""
    if size > SOUND_MB * 1_000_000:
        raise too_large(name, size, SOUND_MB)


async def checked_sound(name: str, data: bytes) -> File:
    """Return untrusted bytes as a recording: compressed, without images and metadata.

    Without the library for videos and sounds, a sound stays as it is. Raises `Declined`.
    """
    require_sound_weight(name, len(data))
    mime = mime_of(data)
    kept = File(name=f"recording.{_ENDINGS.get(mime, mime[6:])}", mime=mime, data=data)
    try:
        return (await as_voice(kept, seconds=SOUND_S)).file
    except SoundError as error:
        if error.fault is SoundFault.NO_LIBRARY and is_sound(mime):
            return kept
        raise Declined(_unread(name, error.fault)) from error


def _unread(name: str, fault: SoundFault) -> Refusal:
    match fault:
        case SoundFault.TOO_LONG:
            minutes = int(SOUND_S // 60)
            return Refusal(RefusalKind.RECORDING_TOO_LONG, name=name, minutes=minutes)
        case SoundFault.SILENT:
            return Refusal(RefusalKind.RECORDING_SILENT, name=name)
        case SoundFault.NO_LIBRARY:
            return Refusal(RefusalKind.RECORDING_NO_LIBRARY, name=name)
        case SoundFault.UNREADABLE:
            return Refusal(RefusalKind.RECORDING_UNREADABLE, name=name)


VIDEO_MB = 20  # the most Telegram lets a bot download; used everywhere
_READ_S = 30.0


def require_video_weight(name: str, size: int) -> None:
    """Refuse a video that is too large. Raises `Declined`."""
    if size > VIDEO_MB * 1_000_000:
        raise too_large(name, size, VIDEO_MB)


async def seen(name: str, data: bytes, most: int) -> tuple[File, ...]:
    """Return at most `most` still images of an untrusted video, in order.

    Raises `Declined`.
    """
    require_video_weight(name, len(data))
    try:
        made = await videos.frames(File(name="video", mime="", data=data), most, wall_s=_READ_S)
    except videos.VideoError:
        made = []
    if not made:
        raise Declined(Refusal(RefusalKind.NOT_A_VIDEO, name=name))
    return tuple(made[:most])
