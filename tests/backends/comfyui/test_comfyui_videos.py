"""Files of a ComfyUI server that are no images: videos, sounds and unreadable files."""

import io
import struct
from itertools import product

import pytest
from PIL import Image

from backends.comfyui.answers import ServerFile, read_ended
from backends.comfyui.backend import ComfyUI
from backends.comfyui.files import FILES_MOST, KEPT_BACK, collected
from backends.common.file_types import is_video, mime_of, moves
from backends.media import result_files, videos
from queueing.core.errors import Problem, Rejected, UnreadableAnswer
from queueing.core.requests import Output
from tests.backends.media.planted import PLANTED, SECRET, words_of

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.recorded_videos import tags_of, video

pytestmark = pytest.mark.usefixtures("helper_here")
MODEL_3D = b"glTF" + struct.pack("<II", 2, 40) + b"\xff" * 28
DRAWING = f"<svg><metadata>{SECRET}</metadata><path d='M0 0'/></svg>".encode()


async def given(comfy: ComfyUI, *made: bytes, keep: bool = False) -> Output:
    """Return what people get of the files that a server made."""
    files = {f"{number}.bin": data for number, data in enumerate(made)}

    async def download(file: ServerFile) -> tuple[bytes, str]:
        return files[file.filename], "application/octet-stream"

    comfy._server.download = download  # type: ignore[method-assign]
    told = [ServerFile(filename=name) for name in files]
    return await collected(comfy._server, told, "wan", keep_metadata=keep)


async def test_a_video_comes_without_its_workflow(comfy: ComfyUI) -> None:
    """Prompts and paths would be published with every video."""
    (made,) = (await given(comfy, video("mp4"))).files
    assert made.mime == "video/mp4"
    assert SECRET not in tags_of(made.data)


async def test_the_workflow_stays_where_the_operator_wants_it(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option would do nothing for videos, or need libraries that are not installed."""
    monkeypatch.setattr(videos, "available", lambda: False)
    whole = video("mp4")
    output = await given(comfy, whole, MODEL_3D, keep=True)
    assert [file.data for file in output.files] == [whole, MODEL_3D]
    assert output.text == ""


async def test_without_the_libraries_a_video_is_kept_back_with_a_sentence(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Videos would be delivered with the workflow inside, or vanish silently."""
    monkeypatch.setattr(videos, "available", lambda: False)
    output = await given(comfy, video("mp4"), PLANTED["PNG"]())
    assert [file.mime for file in output.files] == ["image/png"]
    assert output.missing == KEPT_BACK.code()
    with pytest.raises(Rejected) as refused:
        await given(comfy, video("mp4"))
    assert refused.value.problem == KEPT_BACK


HIDING = (
    "<metadata>{}</metadata>",
    '<metadata id="a">\n<![CDATA[{{"text": "a </metadata> in a prompt", "seed": "{}"}}]]></metadata >',
    "<metadata><![CDATA[a]]>and<![CDATA[</metadata>{}]]></metadata>",
    "<svg:metadata><rdf:RDF>{}</rdf:RDF></svg:metadata>",
    "<desc>{}</desc>",
    "<metadata a='>'><metadata>x</metadata>{}</metadata>",
    "<!-- made by {} -->",
    '<metadata about="{}"/>',
)


async def test_a_drawing_says_nothing_of_its_making(
    comfy: ComfyUI, subtests: pytest.Subtests
) -> None:
    """A prompt with certain words would publish the workflow that is stored in the drawing."""
    for hidden in HIDING:
        with subtests.test(hidden):
            shape = "<path d='M0 0'/>"
            drawing = f"<svg>{hidden.format(SECRET)}{shape}</svg>".encode()
            (made,) = (await given(comfy, drawing)).files
            assert made.data == f"<svg>{shape}</svg>".encode()


def test_a_drawing_that_is_cut_off_is_damaged_and_takes_no_time(subtests: pytest.Subtests) -> None:
    """Half of a workflow would be published, or the file would block the bot for minutes."""
    for piece in ["<metadata>", "<metadata><![CDATA[x]]>", "<!--", "<a b='"]:
        with subtests.test(piece=piece), pytest.raises(ValueError, match="truncated"):
            result_files.clean(b"<svg>" + piece.encode() * 200_000)


def test_words_about_drawings_are_no_drawing() -> None:
    """An answer that only mentions SVG would count as damaged."""
    assert not result_files.is_drawing(b"begin with <svg and close it")
    assert result_files.is_drawing(b"\xef\xbb\xbf<?xml version='1.0'?>\n<s:svg xmlns:s='x'/>")


async def test_what_nobody_can_read_is_kept_back(comfy: ComfyUI) -> None:
    """A 3D model's file would show the prompt to everyone."""
    with pytest.raises(Rejected):
        await given(comfy, MODEL_3D)


def animated(kind: str) -> bytes:
    """Return an animated image of three frames."""
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue")]
    out = io.BytesIO()
    frames[0].save(out, kind, save_all=True, append_images=frames[1:], duration=40)
    return out.getvalue()


async def test_a_video_comes_before_its_still_and_its_sound(
    comfy: ComfyUI, subtests: pytest.Subtests
) -> None:
    """People would get the still image in place of the video."""
    for kind in ["mp4", "webm", "PNG", "WEBP", "GIF"]:
        with subtests.test(kind=kind):
            made = video(kind) if kind in {"mp4", "webm"} else animated(kind)
            output = await given(comfy, PLANTED["PNG"](), video("mp3"), made, b"a cat")
            kinds = [file.mime.partition("/")[0] for file in output.files[1:3]]
            assert kinds == ["audio", "image"]
            assert is_video(output.files[0].mime) or moves(output.files[0].data)
            assert [file.name for file in output.files] == [f"wan-{n}.bin" for n in range(1, 5)]


async def test_of_a_servers_file_name_only_a_plain_ending_is_kept(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """A server could put a path or hidden characters into the names of files that people get."""
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "PNG")

    async def download(_: ServerFile) -> tuple[bytes, str]:
        return image.getvalue(), "image/png"

    monkeypatch.setattr(comfy._server, "download", download)
    for told, name in {
        "a.PNG": "m-1.png",
        "../../etc/cron.d/x": "m-1.bin",
        "x.png/../../evil": "m-1.bin",
        "x.\u202egnp": "m-1.bin",
        'x.png"\r\nX: y': "m-1.bin",
        "x." + "p" * 5000: "m-1.bin",
        "": "m-1.bin",
    }.items():
        with subtests.test(told[:20]):
            file = ServerFile(filename=told)
            made = await collected(comfy._server, [file], "m", keep_metadata=False)
            assert [file.name for file in made.files] == [name]


async def test_the_video_is_there_though_every_frame_was_saved_as_well(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of frames would fill the memory and the chat, and hide the video."""
    frame = PLANTED["PNG"]()

    async def download(file: ServerFile) -> tuple[bytes, str]:
        return video("mp4") if file.filename.endswith("mp4") else frame, ""

    monkeypatch.setattr(comfy._server, "download", download)
    names = [*(f"{n}.png" for n in range(300)), "video.mp4"]
    told = [ServerFile(filename=name) for name in names]
    output = await collected(comfy._server, told, "wan", keep_metadata=False)
    assert output.files[0].mime == "video/mp4"
    assert len(output.files) == FILES_MOST
    assert Problem.read(output.missing).values == {"count": 301 - FILES_MOST}
    monkeypatch.setattr("backends.comfyui.files.BYTES_MOST", 10)
    few = await collected(comfy._server, told, "wan", keep_metadata=False)
    assert [file.mime for file in few.files] == ["video/mp4"]


def test_a_still_does_not_move(subtests: pytest.Subtests) -> None:
    """An image would be taken for a video."""
    for kind in ["PNG", "WEBP", "JPEG"]:
        with subtests.test(kind=kind):
            assert not moves(PLANTED[kind]())
            assert not moves(PLANTED[kind]()[:20])


def test_files_are_found_under_every_key_and_once() -> None:
    """The video of a custom node would be lost, or a file that a node lists twice be sent twice."""
    video = {"filename": "a.mp4", "subfolder": "usher", "type": "output"}
    outputs: dict[str, object] = {
        "1": {"images": [video], "animated": [True]},
        "2": {"gifs": [{**video, "workflow": "a.png", "frame_rate": 16, "fullpath": "/x/a.mp4"}]},
        "3": {"videos": [{**video, "filename": "b.webm"}], "unfinished_batch": [True]},
        "4": {"audio": [{**video, "filename": "c.flac"}], "text": ["words"]},
        "5": {"text": ["d"], "files": [{**video, "filename": "d.txt"}]},
        "6": {
            "images": [{**video, "filename": "e.png", "type": "temp"}],
            "result": ["x.glb", None],
        },
        "7": {"odd": [{"filename": None}, {"filename": ["a"]}, [video], 7, None]},
    }
    entry = {"prompt": [0, "k", {}], "outputs": outputs}
    ended = read_ended({"k": entry}, "k")  # type: ignore[dict-item]
    assert ended
    names = [file.filename for file in ended.files]
    assert names == ["a.mp4", "b.webm", "c.flac", "d.txt"]


async def test_words_stay_and_a_drawings_notes_go(comfy: ComfyUI) -> None:
    """A caption would be lost, or a drawing would contain the workflow."""
    output = await given(comfy, b"a cat on a mat", DRAWING, PLANTED["JPEG"]())
    image, words, drawing = (file.data for file in output.files)
    assert words == b"a cat on a mat"
    assert SECRET.encode() not in drawing
    assert b"<path" in drawing
    assert SECRET not in words_of(image)


async def test_an_avif_is_given_out_as_what_it_becomes(comfy: ComfyUI) -> None:
    """A WebP that is labelled as AVIF would appear as a broken image in a chat or a browser."""
    (made,) = (await given(comfy, PLANTED["AVIF"]())).files
    assert (made.name, made.mime, mime_of(made.data)) == ("wan-1.webp", *["image/webp"] * 2)
    whole = PLANTED["AVIF"]()
    (made,) = (await given(comfy, whole, keep=True)).files
    assert (made.mime, made.data) == ("image/avif", whole)


async def test_a_page_in_place_of_an_image_fails_the_attempt(
    comfy: ComfyUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy's error page would count as a completed job and appear as a broken image."""
    page = b"<!doctype html><p>502 Bad Gateway</p>"

    async def download(_: ServerFile) -> tuple[bytes, str]:
        return page, "image/png"

    monkeypatch.setattr(comfy._server, "download", download)
    for keep, ending in product((False, True), ("png", "jpg", "mp4", "wav")):
        with pytest.raises(UnreadableAnswer):
            await collected(
                comfy._server, [ServerFile(filename=f"a.{ending}")], "wan", keep_metadata=keep
            )
    (words,) = (
        await collected(comfy._server, [ServerFile(filename="a.txt")], "wan", keep_metadata=False)
    ).files
    assert words.mime == "application/octet-stream"
