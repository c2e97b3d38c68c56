"""Documents, videos and recordings that people send: read within limits, or refused."""

import pytest

from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.files.documents import opened, require_paper_weight
from bot.requests.files.media import checked_sound, require_video_weight, seen
from tests.backends.media import papers

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.planted import SECRET
from tests.backends.media.recorded_videos import video

pytestmark = pytest.mark.usefixtures("helper_here")


async def test_what_a_document_says_is_cut_to_the_room_there_is() -> None:
    """A long paper would be refused as a whole, or fill the question."""
    body = "".join(papers.paragraph(f"Line {number}.") for number in range(200))
    whole = await opened("a.docx", papers.docx(body), characters=9_000, images=0)
    assert whole.text.startswith("Line 0.")
    assert not whole.truncated
    cut = await opened("a.docx", papers.docx(body), characters=50, images=0)
    assert (len(cut.text) <= 50, cut.truncated) == (True, True)


async def test_a_document_that_cannot_be_read_is_refused_with_the_reason() -> None:
    """A question would be answered without the paper it is about."""
    cases: list[tuple[bytes, RefusalKind]] = [
        (b"no document at all", RefusalKind.DOCUMENT_UNREADABLE),
        (b"PK\x03\x04 torn", RefusalKind.DOCUMENT_UNREADABLE),
        (papers.locked_pdf(), RefusalKind.DOCUMENT_ENCRYPTED),
        (papers.pdf([""]), RefusalKind.DOCUMENT_SCANNED),
    ]
    for data, kind in cases:
        with pytest.raises(Declined) as declined:
            await opened("a.pdf", data, characters=100, images=0)
        assert declined.value.refusal == Refusal(kind, name="a.pdf"), kind


async def test_a_scan_is_shown_where_a_model_sees() -> None:
    """People could not ask about a scanned letter."""
    scan = await opened("a.pdf", papers.scanned_pdf(2), characters=100, images=4)
    assert [file.mime for file in scan.images] == ["image/jpeg"] * 2


async def test_a_video_is_shown_in_images_from_beginning_to_end() -> None:
    """A model that sees images would be shown nothing of a video."""
    frames = await seen("a.mp4", video("mp4"), 3)
    assert 1 < len(frames) <= 3
    assert all(file.mime == "image/jpeg" for file in frames)
    with pytest.raises(Declined) as declined:
        await seen("a.mp4", b"\x00\x00\x00\x18ftypisom torn", 3)
    assert declined.value.refusal == Refusal(RefusalKind.NOT_A_VIDEO, name="a.mp4")


async def test_a_recording_keeps_its_sound_and_nothing_else() -> None:
    """The place of a recording, and the images of a round video, would be in the database."""
    for kind in ("ogg", "mp3", "mp4"):
        sound = await checked_sound("a", video(kind))
        assert (sound.name, sound.mime) == ("recording.ogg", "audio/ogg"), kind
        assert SECRET.encode() not in sound.data, kind


async def test_a_recording_that_cannot_be_heard_is_refused_with_the_reason() -> None:
    """A question would wait for a recording that no model can transcribe."""
    torn, silent = RefusalKind.RECORDING_UNREADABLE, RefusalKind.RECORDING_SILENT
    for data, kind in ((b"OggS torn", torn), (video("mp4", silent=True), silent)):
        with pytest.raises(Declined) as declined:
            await checked_sound("a.ogg", data)
        assert declined.value.refusal == Refusal(kind, name="a.ogg")


def test_the_size_a_chat_tells_is_looked_at_first() -> None:
    """Gigabytes would be downloaded only to be refused."""
    for check in (require_paper_weight, require_video_weight):
        check("a", 20_000_000)
        with pytest.raises(Declined) as declined:
            check("a", 20_000_001)
        too_large = Refusal(RefusalKind.FILE_TOO_LARGE, name="a", size=21, limit=20)
        assert declined.value.refusal == too_large
