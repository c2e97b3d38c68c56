"""Files of strangers and of operators: images, workflow templates, configurations."""

import asyncio
import io
import json
import re
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from backends.comfyui.files import as_upload
from backends.comfyui.workflow.drafting import Chosen, drafted
from backends.comfyui.workflow.graph.nodes import as_json
from backends.comfyui.workflow.reading import parse_workflow, read_export
from backends.comfyui.workflow.rendering import fill
from backends.comfyui.workflow.template import prepare, saved_part
from backends.media.image_metadata import without_metadata
from backends.media.images import HUGE_IMAGE
from bot.config import loader as config
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.requests.files import images
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import File, TextToImage
from tests.backends.comfyui.workflow.described import recorded
from tests.fuzz.hostile_input import bounded, damaged, spoiled, texts

# ---------------------------------------------------------------- images


def _encoded(kind: str, mode: str, **how: Any) -> bytes:
    out = io.BytesIO()
    image = Image.effect_noise((24, 16), 60).convert(mode)
    image.save(out, kind, **how)
    return out.getvalue()


GOOD = (
    _encoded("PNG", "RGB"),
    _encoded("PNG", "P"),
    _encoded("PNG", "RGBA", save_all=True, append_images=[Image.new("RGBA", (24, 16))]),
    _encoded("JPEG", "RGB", progressive=True),
    _encoded("JPEG", "CMYK"),
    _encoded("WEBP", "RGBA", lossless=True),
    _encoded("WEBP", "RGB", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0", xmp=b"<x/>"),
    _encoded("GIF", "L"),
)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # of broken EXIF; the log may tell
@bounded
@given(damaged(GOOD, ">I") | st.binary(max_size=60))
@example(GOOD[0][: len(GOOD[0]) // 2])
@example(GOOD[3][: len(GOOD[3]) // 2])
def test_images(data: bytes) -> None:
    """A damaged image would crash the bot, or be sent to a server undecoded."""

    async def play() -> None:
        with suppress(Declined):
            good = await images.checked(data)
            assert good.mime in {"image/png", "image/jpeg", "image/webp"}
            assert good.name.startswith("image.")
            with Image.open(io.BytesIO(good.data)) as whole:
                whole.load()  # what is taken can be decoded to its end
        file = File(name="x.png", mime="image/png", data=data)
        size = await images.dimensions(file)
        assert size is None or min(size) > 0
        small = await images.fitted(file, 20)
        assert small is None or len(small.data) <= 20

    asyncio.run(play())
    with suppress(Rejected):
        sent = as_upload(File(name="x", mime="", data=data)).file
        assert sent.data.startswith(b"\x89PNG")
    with suppress(ValueError):
        without_metadata(data)


def _png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(bytes(99))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


HUGE = Refusal(RefusalKind.TOO_MANY_PIXELS, limit=40)


def _bomb(kind: bytes) -> tuple[bytes, bytes]:
    return kind, b"k\0\0" + zlib.compress(bytes(80_000_000))


@pytest.mark.parametrize(
    ("side", "bombs", "refusal"),
    [
        (50_000, (), HUGE),
        (2**31 - 1, (), HUGE),
        (8_000, (), HUGE),
        (10, (b"zTXt",), Refusal(RefusalKind.NOT_AN_IMAGE)),
    ],
    ids=["warned", "refused by Pillow", "above our own limit", "text"],
)
async def test_bombs(side: int, bombs: tuple[bytes, ...], refusal: Refusal) -> None:
    """An image of some kilobytes would take gigabytes of memory."""
    data = _png(side, side, *map(_bomb, bombs))
    with little_memory():
        with pytest.raises(Declined) as declined:
            await images.checked(data)
        assert declined.value.refusal == refusal
        file = File(name="x.png", mime="image/png", data=data)
        with pytest.raises(Rejected) as rejected:
            as_upload(file)
        if refusal == HUGE:  # by its header, not when its pixels have run out
            assert rejected.value.problem == HUGE_IMAGE
        assert await images.fitted(file, 10) is None
        await images.dimensions(file)


async def test_a_colour_profile_bomb_is_not_unpacked() -> None:
    """An image of some kilobytes would take gigabytes of memory by its colour profile."""
    data = _png(10, 3, _bomb(b"iCCP"))
    with little_memory():
        with suppress(Declined):
            await images.checked(data)
        with suppress(Rejected):
            as_upload(File(name="x.png", mime="image/png", data=data))


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if the block takes much more memory than a small image needs."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- workflow templates

SHIPPED = [
    json.loads(file.read_text(encoding="utf-8"))
    for file in (resources.files("backends") / "workflows").iterdir()
    if file.name.endswith(".json")
]
requests = st.builds(
    TextToImage,
    prompt=texts.filter(lambda text: text.isprintable()),
    negative=st.none() | texts.filter(lambda text: text.isprintable()),
    seed=st.integers(0, 2**64 - 1),
    width=st.none() | st.sampled_from([64, 1000, 4096]),
    steps=st.none() | st.integers(1, 150),
)


@bounded
@given(st.sampled_from(SHIPPED).flatmap(lambda good: spoiled(good) | st.just(good)), requests)
def test_workflow_templates(template: Any, request: TextToImage) -> None:
    """An odd template would stop the bot with a traceback, or a prompt change the template."""
    with suppress(BadModel, Rejected):
        nodes = parse_workflow(json.dumps(template), name="own.json")
        workflow = prepare(nodes, {"checkpoint": "a.ckpt", "unet": "b.sft"}, name="own.json")
        graph = as_json(fill(workflow, request, prefix="usher/x"))
        assert set(graph) <= set(nodes)
        for key, node in graph.items():
            assert node["class_type"] == nodes[key].class_type  # type: ignore[index, call-overload]


EXPORTS = [
    found["workflow"]
    for path in sorted((Path(__file__).parents[1] / "wild/workflows/added").glob("*.json"))
    if "workflow" in (found := json.loads(path.read_text(encoding="utf-8")))
]
NODES = recorded()["nodes"]


@bounded
@given(st.sampled_from(EXPORTS).flatmap(spoiled), st.sampled_from([{}, NODES]))
def test_exported_workflows(export: Any, offered: Any) -> None:
    """`usher workflow add` would end in a traceback at a file that a person has edited."""
    with suppress(BadModel):
        nodes = read_export(json.dumps(export), name="own.json")
        draft = drafted(nodes, offered, Chosen())
        prepare(saved_part(draft.nodes), {}, name="own.json")


@bounded
@given(st.text(max_size=80) | st.integers(1, 50_000).map(lambda depth: '{"1":' * depth))
def test_workflow_files(text: str) -> None:
    """A file that is no template would stop the bot with a traceback."""
    with suppress(BadModel):
        parse_workflow(text, name="own.json")
    with suppress(BadModel):
        read_export(text, name="own.json")


# ---------------------------------------------------------------- configurations

EXAMPLE = (Path(__file__).parents[2] / "config.example.yaml").read_text(encoding="utf-8")
CANARY = "canary-that-nobody-may-see"
LINES = EXAMPLE.splitlines()


@st.composite
def edited(draw: Any) -> str:
    """Return the example as a person in a hurry edits it."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, draw(st.sampled_from(LINES)))
            case 2:
                lines[at] = "  " + lines[at]
            case 3:
                name, colon, _ = lines[at].partition(":")
                lines[at] = f"{name}{colon} {draw(texts)}"
            case _:
                cut = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:cut] + draw(texts) + lines[at][cut:]
    return "\n".join(lines)


@bounded
@given(edited())
@example(re.sub(r"enhance: \w+", "enhance: {}", EXAMPLE))
def test_configurations(text: str) -> None:
    """A mistake in the file would end in a traceback, or show a token to anyone who helps."""
    environ = {"DISCORD_TOKEN": f"a.b.{CANARY}", "TELEGRAM_TOKEN": f"1:{CANARY}-{CANARY}"}
    try:
        config.parse(text, environ, folder=Path(__file__).parents[2]).catalog()
    except config.ConfigError as error:
        _require_told(error.problems)


def _require_told(problems: tuple[str, ...]) -> None:
    assert problems
    for problem in problems:
        assert CANARY not in problem
        assert "Traceback" not in problem
