"""Strangers' documents, videos and sounds: each ends within limits, and the next one is read."""

import asyncio
import random
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.common.file_types import mime_of
from backends.media import sounds, videos
from backends.media.documents import DocumentError, Fault, read_document
from backends.media.helper import office, process
from backends.media.helper.protocol import Faulty, MediaTask, Order
from backends.media.sounds import SoundError
from queueing.core.requests import File
from tests.backends.media.papers import docx, open_document, paragraph, pdf, pptx, scanned_pdf, xlsx
from tests.fuzz.hostile_input import EXAMPLES, bounded, damaged
from tests.fuzz.hostile_papers import OFFICE, PDFS

KINDS_OF_VIDEO = [
    "mp4",
    "mov",
    "webm",
    "webm-vorbis",
    "mkv",
    "avi",
    "m4a",
    "flac",
    "mp3",
    "ogg",
    "ogg-vorbis",
    "wav",
]
GOOD_PAPERS: Mapping[str, bytes] = {
    "docx": docx(paragraph("hello") * 9),
    "pptx": pptx(["one", "two"], "notes"),
    "xlsx": xlsx('<row><c t="s"><v>0</v></c><c s="1"><v>45992</v></c></row>', ["hello"]),
    "odt": open_document("text", "<text:p>hello<text:s/></text:p>"),
    "ods": open_document("spreadsheet", "<table:table><table:table-row/></table:table>"),
    "pdf": pdf(["hello", "world"]),
    "scan": scanned_pdf(2),
}
Doing = Callable[[File], Awaitable[Any]]
BAD_CALL = "exited with -31"  # SIGSYS: a call that only harms
EVERY_USE: Mapping[str, Doing] = {
    "clean": lambda file: videos.cleaned(file.data),
    "look": videos.looked_at,
    "frames": lambda file: videos.frames(file, 4),
    "fit": lambda file: videos.fitted(file, 50_000),
    "silence": videos.with_silence,
    "wav": lambda file: sounds.as_wav(file, seconds=20),
    "voice": lambda file: sounds.as_voice(file, seconds=20),
}


@cache
def office_file(trick: str) -> bytes:
    """Return a hostile file; packing some takes a second, and two tests use them."""
    return OFFICE[trick]()


def file(data: bytes) -> File:
    return File(name="sent.bin", mime=mime_of(data), data=data)


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process little processor time, so that the longest file takes a test seconds."""
    less = (
        "from backends.media.helper import worker as w; w._NICE = 0;"
        "w._SOONER = {task: (w.MEMORY // 2, 2) for task in w.MediaTask}; w.main()"
    )
    monkeypatch.setattr(process, "PROGRAM", ("-P", "-c", less))


@contextmanager
def within(memory: int) -> Iterator[None]:
    """Fail if the bot itself takes that much memory."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()


async def goes_on() -> None:
    """Fail if the next stranger's file is not read."""
    assert (await read_document(file(GOOD_PAPERS["docx"]))).text.startswith("hello")


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize("trick", OFFICE)
async def test_hostile_office_files(trick: str) -> None:
    """A file of a few kilobytes would take all memory, or crash the bot."""
    data = office_file(trick)
    with within(2 * len(data) + 20_000_000):
        with suppress(DocumentError):
            found = await read_document(file(data))
            assert len(found.text) <= 200_000
            assert "root:" not in found.text
        await goes_on()


@pytest.mark.parametrize("trick", PDFS)
async def test_hostile_pdfs(trick: str) -> None:
    """A PDF of a few kilobytes would take all memory, block a processor, or crash the bot."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    data = PDFS[trick]()
    with within(2 * len(data) + 30_000_000):
        with suppress(DocumentError):
            found = await read_document(file(data))
            assert len(found.text) <= 200_000
            assert sum(len(each.data) for each in found.images) < 20_000_000
        await goes_on()


async def test_what_is_bounded_is_told_as_such() -> None:
    """The sender of a bomb would be told that it is damaged, and try to repair it."""
    for trick, fault in (
        ("blanks", Fault.TOO_LARGE),
        ("elements", Fault.TOO_LARGE),
        ("crowded", Fault.TOO_LARGE),
        ("laughs", Fault.UNREADABLE),
        ("foreign", Fault.UNREADABLE),
    ):
        with pytest.raises(DocumentError) as raised:
            await read_document(file(office_file(trick)))
        assert raised.value.fault is fault
    words = await read_document(file(office_file("words")))
    assert words.truncated
    assert len(words.text) == 200_000


OFFICE_FILES = tuple(GOOD_PAPERS[kind] for kind in ("docx", "pptx", "xlsx", "odt", "ods"))
markup = st.text(alphabet='<>/&;"=: atpcrvs\n0123', max_size=80)


def of_kind(kind: str, body: str) -> bytes:
    if kind == "docx":
        return docx(body)
    return xlsx(body) if kind == "xlsx" else open_document(kind, body)


def read_here(data: bytes) -> None:
    order = Order(task=MediaTask.READ, mime="application/zip", size=len(data), characters=5000)
    with suppress(Faulty):
        answer, made = office.read(order, data)
        assert sum(answer.parts) == len(made)
        assert len(made.decode()) <= 5000


@bounded
@given(damaged(OFFICE_FILES, "<I"))
def test_damaged_office_files(data: bytes) -> None:
    """A damaged file would end in an error that gives no reason."""
    read_here(data)


@bounded
@given(markup, st.sampled_from(["docx", "xlsx", "text", "spreadsheet"]))
def test_office_files_of_any_markup(inside: str, kind: str) -> None:
    """Elements in an order that no program writes would end in an error that gives no reason."""
    read_here(of_kind(kind, inside))


@bounded
@given(
    st.lists(
        st.sampled_from(
            [
                "p",
                "r",
                "t",
                "tc",
                "tr",
                "tbl",
                "row",
                "c",
                "v",
                "is",
                "si",
                "h",
                "s",
                "page",
                "table",
                "table-cell",
            ]
        )
    ),
    st.sampled_from(["docx", "xlsx", "text", "spreadsheet"]),
)
def test_office_files_of_any_elements(names: list[str], kind: str) -> None:
    """Cells outside rows and rows outside tables would end in an error that gives no reason."""
    body = "".join(f"<{name}>7" for name in names) + "".join(f"</{name}>" for name in names[::-1])
    read_here(of_kind(kind, body))


@bounded
@given(st.data())
def test_damaged_pdfs(data: st.DataObject) -> None:
    """A damaged PDF would crash the bot, or end in an error that gives no reason."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    if data.draw(st.integers(0, 7)) and EXAMPLES <= 50:
        return  # each takes a process: fewer in the normal run
    hostile = data.draw(damaged((GOOD_PAPERS["pdf"], GOOD_PAPERS["scan"]), "<I"))
    with suppress(DocumentError):
        asyncio.run(_read_fresh(hostile))


async def _read_fresh(data: bytes) -> None:
    found = await read_document(file(data))
    assert len(found.images) <= 8


# ---------------------------------------------------------------- videos and sounds


def made_video(kind: str, **how: Any) -> bytes:
    pytest.importorskip("av", reason="videos and sound need usher-bot[media]")
    from tests.backends.media.recorded_videos import video  # noqa: PLC0415  needs the library

    return video(kind, **how)


async def survived(data: bytes) -> None:
    """Fail if using a file ends in anything but a result or its own error."""
    for use in EVERY_USE.values():
        told = ""
        try:
            await use(file(data))
        except (videos.VideoError, SoundError) as error:
            told = f"{error} {error.__cause__}"
        assert BAD_CALL not in told


@pytest.mark.parametrize("kind", KINDS_OF_VIDEO)
async def test_videos_and_sounds_that_are_cut_off(kind: str) -> None:
    """A broken upload would crash the bot."""
    whole = made_video(kind, frames=4)
    shares = (0.02, 0.5, 0.97)
    one = KINDS_OF_VIDEO.index(kind) % len(shares)  # of each kind in the normal run
    for share in shares if EXAMPLES > 50 else shares[one : one + 1]:
        await survived(whole[: int(len(whole) * share)])


def crafted(whole: bytes, rng: random.Random) -> bytes:
    """Return a file with lengths, types and contents changed, most of them near its beginning."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 12)):
        at = int(len(data) * rng.random() ** rng.choice([1, 4]))
        some = slice(at, at + rng.choice([1, 2, 4, 8, 200]))
        data[some] = rng.choice(
            [rng.randbytes(4), b"\xff" * 4, bytes(4), b"\0\0\0\1", b"", bytes(data[some]) * 3]
        )
    return bytes(data)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS_OF_VIDEO)
async def test_crafted_videos_and_sounds(kind: str) -> None:
    """A crafted video would crash the bot, or ask the kernel for what a good one never needs."""
    for seed in range(4):
        data = crafted(made_video(kind, frames=4), random.Random(seed))
        with within(2 * len(data) + 30_000_000):
            await survived(data)
    await goes_on()


def stated(kind: str, mark: bytes, at: int, new: bytes) -> bytes:
    """Return a video with other bytes at some distance from a marker, which must be in it."""
    data = bytearray(made_video(kind, frames=4))
    found = data.index(mark)
    data[found + at : found + at + len(new)] = new
    return bytes(data)


LIES: Mapping[str, Callable[[], bytes]] = {
    "a video of a hundred years": lambda: stated("mp4", b"mvhd", 16, b"\0\0\0\1\xff\xff\xff\xf0"),
    "a track of a hundred years": lambda: stated("mp4", b"mdhd", 16, b"\0\0\0\1\xff\xff\xff\xf0"),
    "an image of billions of pixels": lambda: stated("mp4", b"avc1", 28, b"\xff\xff\xff\xff"),
    "frames of billions of pixels": lambda: stated(
        "webm-vorbis", b"\x9d\x01\x2a", 3, b"\xff\x3f\xff\x3f"
    ),
    "billions of frames": lambda: stated("mp4", b"stsz", 12, b"\x7f\xff\xff\xff"),
    "an endless box": lambda: stated("mp4", b"moov", -4, b"\xff\xff\xff\xf0"),
    "a sound of gigabytes": lambda: stated("wav", b"data", 4, b"\xff\xff\xff\xff"),
    "a sound of no bytes": lambda: stated("wav", b"data", 4, bytes(4)),
    "a rate of billions": lambda: stated("wav", b"fmt ", 12, b"\xff\xff\xff\x7f"),
    "thousands of channels": lambda: stated("wav", b"fmt ", 10, b"\xff\xff"),
    "a sound of billions of samples": lambda: stated("flac", b"fLaC", 21, b"\xff" * 5),
}


@pytest.mark.parametrize("lie", LIES)
async def test_videos_and_sounds_that_lie_about_themselves(lie: str) -> None:
    """A file that claims too much would take all memory, or be played forever."""
    data = LIES[lie]()
    with within(2 * len(data) + 30_000_000):
        await survived(data)
        await goes_on()


async def test_an_endless_sound_is_refused() -> None:
    """A day of silence in a small file would be a gigabyte for the server that reads it."""
    with pytest.raises(SoundError) as raised:
        await sounds.as_wav(file(made_video("ogg")), seconds=0.3)
    assert raised.value.fault is sounds.SoundFault.TOO_LONG


async def test_a_helper_that_answers_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that was taken over would fill the bot's memory."""
    for said in (b'{"looks": null, "parts": []}\n', b""):
        code = f"import sys\nsys.stdout.buffer.write({said!r})\nwhile 1: sys.stdout.buffer.write(bytes(10**6))"
        monkeypatch.setattr(process, "PROGRAM", ("-P", "-c", code))
        monkeypatch.setattr(process, "_ANSWER_MOST", 5_000_000)
        with within(20_000_000), pytest.raises(process.MediaError, match="bytes"):
            await videos.cleaned(b"\0\0\0\x18ftypmp42")
