"""Videos, sounds and edits on a real ComfyUI process, by nodes that need no model.

`USHER_COMFYUI_PYTHON` and `USHER_COMFYUI_FOLDER` as in `test_comfyui_real`.
"""

import io
import json
from pathlib import Path
from uuid import uuid4

import pytest
from PIL import Image

from backends.comfyui.backend import ComfyUI
from backends.comfyui.files import stand_in
from backends.media import videos
from queueing.core.errors import BadModel
from queueing.core.requests import (
    Capability,
    File,
    Generation,
    Output,
    Progress,
    TextToAudio,
    TextToImage,
    TextToVideo,
    Work,
)
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.test_comfyui_real import connect, pytestmark, served
from tests.backends.comfyui.test_comfyui_uploads import half, image
from tests.backends.comfyui.workflow.graphs import Nodes, node
from tests.fakes.ports import free_port

__all__ = ["pytestmark"]

SAVED = {"filename_prefix": "x"}


def video(**more: dict[str, object]) -> Nodes:
    """Return a video whose frames are all one image, or change from a first image to a last."""
    return {
        "told": node("PreviewAny", source="{{prompt}}"),
        "start": node("LoadImage", image="{{image}}"),
        "end": node("LoadImage", image="{{last_image}}"),
        "both": node(
            "BatchImagesNode", **{"images.image0": ["start", 0], "images.image1": ["end", 0]}
        ),
        "sized": node(
            "ImageScale",
            image=["both", 0],
            upscale_method="lanczos",
            width="{{width:128}}",
            height="{{height:96}}",
            crop="center",
        ),
        "frames": node("RepeatImageBatch", image=["sized", 0], amount="{{frames:8}}"),
        "sound": node("LoadAudio", audio="{{audio}}"),
        "video": node("CreateVideo", images=["frames", 0], fps="{{fps:8}}", audio=["sound", 0]),
        "still": node("SaveImage", images=["sized", 0], **SAVED),
        "save": node("SaveVideo", video=["video", 0], format="auto", codec="auto", **SAVED),
        **more,
    }


def music() -> Nodes:
    return {
        "told": node("PreviewAny", source="{{prompt}}{{lyrics}}"),
        "sound": node("EmptyAudio", duration="{{seconds:2}}", sample_rate=44100, channels=2),
        "save": node(
            "SaveAudioAdvanced",
            audio=["sound", 0],
            format="mp3",
            **{"format.quality": "128k"},
            **SAVED,
        ),
    }


def edit() -> Nodes:
    """Return an edit that paints a second image over the first where a mask says so."""
    return {
        "told": node("PreviewAny", source="{{prompt}}"),
        "one": node("LoadImage", image="{{image}}"),
        "two": node("LoadImage", image="{{image2}}"),
        "mask": node("LoadImage", image="{{mask}}"),
        "over": node(
            "ImageCompositeMasked",
            destination=["one", 0],
            source=["two", 0],
            x=0,
            y=0,
            resize_source=True,
            mask=["mask", 1],
        ),
        "save": node("SaveImage", images=["over", 0], **SAVED),
    }


def model(folder: Path, nodes: Nodes, able: Capability) -> ModelSpec:
    template = folder / f"{uuid4().hex}.json"
    template.write_text(json.dumps(nodes))
    options = {"workflow": str(template)}
    return ModelSpec(
        name="own", backends=("comfy",), capabilities=frozenset({able}), options=options
    )


async def made(comfy: ComfyUI, own: ModelSpec, request: Generation, *files: File) -> Output:
    reports: list[Progress] = []
    assert isinstance(request, TextToImage | TextToVideo | TextToAudio)
    work = Work(key=str(uuid4()), request=request, files=files)
    await comfy.verify(own)
    output = await (await comfy.run(own, work, reports.append))()
    assert reports
    resumed = await comfy.resume(own, work, reports.append)
    assert resumed is not None
    assert await resumed() == output
    return output


async def a_video_is_made_of_images_and_a_sound(comfy: ComfyUI, tmp_path: Path) -> None:
    """Check a video, alone and with a last image and a sound."""
    own = model(tmp_path, video(), Capability.IMAGE_TO_VIDEO)
    await comfy.load(own)
    request = TextToVideo(prompt="stand still", seconds=2, fps=10)
    alone = await made(comfy, own, request, image(size=(90, 60)))
    assert [file.name for file in alone.files] == ["own-1.mp4", "own-2.png"]
    looks = (await videos.looked_at(alone.files[0])).looks
    assert (looks.width % 16, looks.height % 16) == (0, 0)
    assert b"stand still" not in alone.files[0].data
    voice = File(name="v", mime="audio/wav", data=silence())
    both = await made(comfy, own, request, image(), image(colour="blue"), voice)
    assert len(both.files) == 3  # the video, and a still of each image
    assert both.files[0].mime == "video/mp4"


def silence() -> bytes:
    return stand_in("audio").data


async def every_node_that_saves_a_video_is_understood(comfy: ComfyUI, tmp_path: Path) -> None:
    """Check the nodes that save videos in other formats."""
    for kind, inputs, ending in (
        ("SaveWEBM", {"codec": "vp9", "crf": 32.0}, "webm"),
        ("SaveAnimatedWEBP", {"lossless": False, "quality": 80, "method": "default"}, "webp"),
        ("SaveAnimatedPNG", {"compress_level": 4}, "png"),
    ):
        save = node(kind, images=["frames", 0], fps="{{fps:8}}", **inputs, **SAVED)
        own = model(tmp_path, video(save=save), Capability.IMAGE_TO_VIDEO)
        request = TextToVideo(prompt=f"still {kind}", seconds=1)
        output = await made(comfy, own, request, image(), image(colour="blue"))
        assert output.files[0].name == f"own-1.{ending}"
        assert kind.encode() not in b"".join(file.data for file in output.files)


async def music_has_its_length(comfy: ComfyUI, tmp_path: Path) -> None:
    """Check music and its length."""
    own = model(tmp_path, music(), Capability.TEXT_TO_AUDIO)
    await comfy.load(own)
    output = await made(comfy, own, TextToAudio(prompt="silence", lyrics="la", seconds=3))
    assert [file.mime for file in output.files] == ["audio/mpeg"]
    assert 2.9 < ((await videos.looked_at(output.files[0])).looks.seconds or 0) < 3.2


async def an_edit_paints_where_the_mask_is_transparent(comfy: ComfyUI, tmp_path: Path) -> None:
    """Check which half is painted and which is kept."""
    own = model(tmp_path, edit(), Capability.IMAGE_EDIT)
    mask = half("RGBA", (0, 0, 0, 0), (0, 0, 0, 255))
    request = TextToImage(prompt="paint", edit=True, mask=True)
    output = await made(comfy, own, request, image(), image(colour="blue"), mask)
    drawn = Image.open(io.BytesIO(output.files[0].data))
    assert drawn.getpixel((0, 30)) == (0, 0, 255)
    assert drawn.getpixel((89, 30)) == (255, 0, 0)


async def wrong_choices_are_found_before_anything_runs(comfy: ComfyUI, tmp_path: Path) -> None:
    """Check what the server refuses only after the sampling, or silently ignores."""
    for nodes in (
        video(save=node("SaveVideo", video=["video", 0], format="mp5", codec="auto", **SAVED)),
        video(save=node("SaveVideo", video=["video", 0], format="mp4", codec="h266", **SAVED)),
        video(video=node("CreateVideo", images=["frames", 0], fps=500)),
    ):
        with pytest.raises(BadModel, match=r"the server does not have|is more than"):
            await comfy.verify(model(tmp_path, nodes, Capability.IMAGE_TO_VIDEO))


async def test_videos_sounds_and_edits_are_made(tmp_path: Path) -> None:
    """Videos, sounds and edits would only work on the fake server."""
    port = free_port()
    (tmp_path / "custom_nodes").mkdir()
    async with served(port, "--base-directory", str(tmp_path)):
        comfy = connect(port)
        for check in (
            a_video_is_made_of_images_and_a_sound,
            every_node_that_saves_a_video_is_understood,
            music_has_its_length,
            an_edit_paints_where_the_mask_is_transparent,
            wrong_choices_are_found_before_anything_runs,
        ):
            await check(comfy, tmp_path)
        await comfy.aclose()
