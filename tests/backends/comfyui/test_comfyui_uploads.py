"""What a ComfyUI server receives of people's images, masks and sounds."""

import io
import json
import wave
from pathlib import Path
from uuid import uuid4

import pytest
from PIL import Image

from backends.comfyui.backend import ComfyUI
from backends.comfyui.files import as_mask, prepare_uploads, stand_in
from queueing.core.errors import Rejected
from queueing.core.requests import Capability, File, TextToImage, TextToVideo, Work
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.drawing import connect, ignore
from tests.backends.comfyui.workflow.graphs import Nodes, masked, references, wan_from_images
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.told import words


def image(
    mode: str = "RGB", size: tuple[int, int] = (90, 60), colour: object = "red", kind: str = "PNG"
) -> File:
    out = io.BytesIO()
    Image.new(mode, size, colour).save(out, kind)  # type: ignore[arg-type]
    return File(name="../x", mime=f"image/{kind.lower()}", data=out.getvalue())


def half(mode: str, left: object, right: object) -> File:
    """Return a mask whose left half is unlike its right one."""
    image = Image.new(mode, (90, 60), right)  # type: ignore[arg-type]
    image.paste(left, (0, 0, 45, 60))  # type: ignore[arg-type]
    out = io.BytesIO()
    image.save(out, "PNG")
    return File(name="mask.png", mime="image/png", data=out.getvalue())


def ends(file: File) -> tuple[object, object]:
    """Return an image's pixels at its left and its right end."""
    image = Image.open(io.BytesIO(file.data))
    middle = image.height // 2
    return image.getpixel((0, middle)), image.getpixel((image.width - 1, middle))


PAINTED, KEPT = (255, 255, 255, 0), (0, 0, 0, 255)


@pytest.mark.parametrize(
    "mask",
    [
        half("RGBA", (10, 20, 30, 0), (10, 20, 30, 255)),
        half("LA", (9, 0), (9, 255)),
        half("RGB", "white", "black"),
        half("L", 255, 0),
        half("1", 1, 0),
    ],
    ids=["RGBA", "LA", "RGB", "L", "1"],
)
def test_a_mask_is_right_for_nodes_that_read_opacity_or_colour(mask: File) -> None:
    """The wrong half of an image would be painted."""
    assert ends(as_mask(mask, (90, 60)).file) == (PAINTED, KEPT)


def test_a_mask_gets_the_size_of_its_image() -> None:
    """A server refuses a mask of another size, after it has loaded the model."""
    mask = half("RGBA", (0, 0, 0, 0), (0, 0, 0, 255))
    files = {"mask": mask, "image": image(size=(5000, 625))}
    made = prepare_uploads(files)
    assert made["mask"].size == made["image"].size == (4096, 512)
    assert ends(made["mask"].file) == (PAINTED, KEPT)
    assert list(made) == ["image", "mask"]


def test_what_is_no_mask_is_refused() -> None:
    """A broken file would fail on the server, or fill the memory here."""
    for data in (b"", b"no image", image().data[:40]):
        with pytest.raises(Rejected):
            as_mask(File(name="m", mime="image/png", data=data), (8, 8))


def test_a_sound_keeps_its_bytes_and_gets_a_plain_name() -> None:
    """A person could write to the server's folders by a file's name."""
    sound = File(name="../../a.ogg", mime="audio/ogg", data=b"OggS")
    made = prepare_uploads({"audio": sound})["audio"].file
    assert made.data == sound.data
    assert made.name.endswith(".ogg")
    assert "/" not in made.name


def test_stand_ins_are_what_they_are_for() -> None:
    """A model whose template needs a sound or a mask could not be loaded ahead."""
    with wave.open(io.BytesIO(stand_in("audio").data)) as silence:
        assert silence.getnframes() == silence.getframerate()
    assert ends(stand_in("mask")) == (PAINTED, PAINTED)
    assert Image.open(io.BytesIO(stand_in("image3").data)).size == (64, 64)


def model(folder: Path, nodes: Nodes, able: Capability) -> ModelSpec:
    template = folder / "own.json"
    template.write_text(json.dumps(nodes))
    options = {"workflow": str(template)}
    return ModelSpec(name="own", backends=("b",), capabilities=frozenset({able}), options=options)


async def test_every_image_arrives_at_its_place(
    comfy: ComfyUI, fake: FakeComfyUI, tmp_path: Path
) -> None:
    """The second image would be used as the first, or be lost."""
    own = model(tmp_path, references(), Capability.IMAGE_EDIT)
    colours = ["red", "green", "blue"]
    files = tuple(image(colour=colour) for colour in colours)
    request = TextToImage(prompt="combine", edit=True)
    await comfy.run(own, Work(key=str(uuid4()), request=request, files=files), ignore)
    graph = fake.posts[-1]["prompt"]
    for word, colour in zip(("image", "image2", "image3"), colours, strict=True):
        folder, _, name = graph[word]["inputs"]["image"].rpartition("/")
        sent = Image.open(io.BytesIO(fake.files["input", folder, name]))
        assert sent.getpixel((0, 0)) == Image.new("RGB", (1, 1), colour).getpixel((0, 0))
    assert "image4" not in graph
    assert (graph["latent"]["inputs"]["width"], graph["latent"]["inputs"]["height"]) == (1248, 832)


async def test_a_video_follows_the_shape_of_its_first_image(
    comfy: ComfyUI, fake: FakeComfyUI, tmp_path: Path
) -> None:
    """A portrait would be squeezed into a wide video."""
    own = model(tmp_path, wan_from_images(), Capability.IMAGE_TO_VIDEO)
    files = (image(size=(60, 90)), image(size=(90, 60)))
    work = Work(key=str(uuid4()), request=TextToVideo(prompt="walk", seconds=1), files=files)
    fake.video = b"a video"
    await comfy.run(own, work, ignore)
    graph = fake.posts[-1]["prompt"]
    latent = graph["latent"]["inputs"]
    assert (latent["width"], latent["height"]) == (512, 768)
    assert graph["start"]["inputs"]["image"] != graph["end"]["inputs"]["image"]


async def test_files_without_a_place_are_refused_before_anything_is_sent(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """An image would be silently ignored."""
    cases: list[tuple[Nodes, TextToImage | TextToVideo, int, str]] = [
        (masked(), TextToImage(prompt="a", edit=True), 4, "limit is 3"),
        (references(), TextToImage(prompt="a", edit=True, mask=True), 2, "mask"),
        (wan_from_images(), TextToVideo(prompt="a"), 3, "limit is 2"),
        (wan_from_images(), TextToVideo(prompt="a"), 0, "needs an image"),
    ]
    for nodes, request_, count, says in cases:
        with subtests.test(count=count, says=says):
            able = (
                Capability.IMAGE_EDIT
                if isinstance(request_, TextToImage)
                else Capability.IMAGE_TO_VIDEO
            )
            work = Work(key=str(uuid4()), request=request_, files=(image(),) * count)
            async with FakeComfyUI() as fake:
                comfy = connect(fake)
                with pytest.raises(Rejected) as refused:
                    await comfy.run(model(tmp_path, nodes, able), work, ignore)
                await comfy.aclose()
                assert says in words(refused.value)
                assert not fake.posts
                assert not fake.files
