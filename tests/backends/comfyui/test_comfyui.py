"""ComfyUI over real sockets: it draws what was asked for, and nothing else."""

import io
import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from PIL import Image
from pydantic import JsonValue

from backends.comfyui.backend import ComfyUI
from backends.comfyui.model_templates import read_templates
from backends.comfyui.server import ComfyUIServer
from backends.comfyui.workflow.graph.node_types import inputs_of
from queueing.core.errors import Rejected
from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    File,
    LoraWeight,
    Progress,
    TextToImage,
    Work,
)
from queueing.core.specs import BackendSpec
from tests.backends.comfyui.drawing import SDXL, SMALL, connect, drawn, ignore, work
from tests.backends.comfyui.workflow.graphs import song
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.told import words

# ---------------------------------------------------------------- the usual way


async def test_progress_steps_and_previews_are_reported(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """People would wait without seeing anything happen."""
    reports: list[Progress] = []
    await comfy.run(SDXL, work(), reports.append)
    assert [report.step for report in reports if report.step and not report.preview] == [
        (step, 4) for step in range(1, 5)
    ]
    previews = [report for report in reports if report.preview]
    assert len(previews) >= 3  # the first may come before the request for previews arrives
    assert all(report.fraction for report in previews)


async def test_several_images_come_in_order_without_metadata(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """An album would be incomplete, or publish the workflow."""
    files = await drawn(comfy, attempt=work(SMALL.model_copy(update={"count": 3})))
    assert [file.name for file in files] == ["sdxl-1.png", "sdxl-2.png", "sdxl-3.png"]
    assert all(file.mime == "image/png" for file in files)
    assert not any(b"a cat" in file.data for file in files)
    with Image.open(io.BytesIO(files[0].data)) as image:
        assert image.size == (64, 64)


async def test_metadata_stays_where_the_operator_wants_it(fake: FakeComfyUI) -> None:
    """The option would do nothing."""
    backend = connect(fake, keep_metadata=True)
    assert b"a cat" in (await drawn(backend))[0].data
    await backend.aclose()


async def test_each_attempt_writes_under_its_own_name(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """An identical request would be answered with an older file's name."""
    first, second = work(), work()
    await drawn(comfy, attempt=first)
    await drawn(comfy, attempt=second)
    names = {name for _, subfolder, name in fake.files if subfolder == "usher"}
    assert names == {f"{attempt.key}_00001_.png" for attempt in (first, second)}


async def test_a_token_is_sent_on_every_way(fake: FakeComfyUI) -> None:
    """A server behind a proxy could not be used."""
    backend = connect(fake, token="s3cret")
    await drawn(backend)
    assert {headers.get("Authorization") for headers in fake.headers_seen} == {"Bearer s3cret"}
    await backend.aclose()


async def test_credentials_in_the_address_are_sent_on_every_way(fake: FakeComfyUI) -> None:
    """With a password, requests would reach a server, but its messages would never be received."""
    url = fake.url.replace("http://", "http://me:s3cret@")
    backend = ComfyUI(BackendSpec(name="comfy", kind="comfyui", url=url))
    await drawn(backend)
    sent = {headers.get("Authorization", "none")[:6] for headers in fake.headers_seen}
    assert sent == {"Basic "}
    await backend.aclose()


async def test_a_text_request_is_refused_in_a_sentence(comfy: ComfyUI) -> None:
    """A chat request sent to an image model would crash."""
    chat = Chat(messages=(ChatMessage(role="user", text="hi"),))
    with pytest.raises(Rejected, match="chat") as caught:
        await comfy.run(SDXL, Work(key=str(uuid4()), request=chat), ignore)
    assert words(caught.value)


# ---------------------------------------------------------------- images to start from


def photo(size: tuple[int, int] = (300, 200), kind: str = "JPEG") -> File:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return File(name="../../x.jpg", mime="image/jpeg", data=buffer.getvalue())


async def test_an_image_is_uploaded_once_and_keeps_its_shape(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """Photos would be stretched, or the same file would pile up on the server."""
    request = TextToImage(prompt="a", steps=1, strength=0.5)
    for _ in range(2):
        await drawn(comfy, attempt=work(request, photo()))
    uploads = [name for place, _, name in fake.files if place == "input"]
    assert len(uploads) == 1
    assert ".." not in uploads[0]
    graph = fake.posts[-1]["prompt"]
    assert graph["image"]["inputs"]["image"] == f"usher/{uploads[0]}"
    assert (graph["scale"]["inputs"]["width"], graph["scale"]["inputs"]["height"]) == (1248, 832)
    assert graph["sampler"]["inputs"]["denoise"] == 0.5


async def test_what_is_no_image_never_reaches_the_server(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """A text file would only fail on the GPU, with the server's own error message."""
    bad = File(name="x.png", mime="image/png", data=b"no image at all")
    with pytest.raises(Rejected) as caught:
        await drawn(comfy, attempt=work(SMALL, bad))
    assert "image" in words(caught.value)
    assert fake.posts == []


# ---------------------------------------------------------------- larger images, LoRAs


async def test_an_image_is_made_larger_by_the_template_for_that(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """The button that enlarges an image would draw another one, or fail."""
    spec = replace(
        SDXL,
        name="lens",
        capabilities=frozenset({Capability.UPSCALE}),
        options={"workflow": "upscale-model.json", "values": {"scale": 1}},
    )
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    image = File(name="a.png", mime="image/png", data=buffer.getvalue())
    attempt = work(TextToImage(prompt="a cat", upscale=True), image)
    comfy.check(spec)
    await comfy.verify(spec)
    fetch = await comfy.run(spec, attempt, ignore)
    assert (await fetch()).files
    graph = fake.posts[-1]["prompt"]
    assert graph["scale"]["inputs"]["scale_by"] == 1
    buffer = io.BytesIO()
    Image.new("RGBA", (64, 64), (0, 0, 0, 0)).save(buffer, "PNG")
    clear = File(name="a.png", mime="image/png", data=buffer.getvalue())
    made = (
        await (await comfy.run(spec, replace(attempt, key=str(uuid4()), files=(clear,)), ignore))()
    ).files
    with Image.open(io.BytesIO(made[0].data)) as larger:
        assert larger.getchannel("A").getextrema() == (0, 0)


async def test_loras_are_listed_and_found_by_their_names(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """People could not know what --lora takes, or would type a path."""
    assert await comfy.loras(SDXL) == ("ink",)
    attempt = work(SMALL.model_copy(update={"lora": (LoraWeight(name="Ink"),)}))
    await drawn(comfy, attempt=attempt)
    assert fake.posts[-1]["prompt"]["lora"]["inputs"]["lora_name"] == "sub/ink.safetensors"
    with pytest.raises(Rejected, match="no LoRA"):
        await drawn(
            comfy, attempt=work(SMALL.model_copy(update={"lora": (LoraWeight(name="oil"),)}))
        )


async def test_a_load_while_limits_are_read_is_no_bug(
    comfy: ComfyUI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt would fail with a `KeyError`, as a load forgets the descriptions of all nodes."""
    read = ComfyUIServer.node_type

    async def forgotten(server: ComfyUIServer, class_type: str) -> JsonValue:
        comfy._described.clear()
        return await read(server, class_type)

    monkeypatch.setattr(ComfyUIServer, "node_type", forgotten)
    options: dict[str, JsonValue] = {"workflow": str(tmp_path / "song.json")}
    (tmp_path / "song.json").write_text(json.dumps(song()))
    workflow = read_templates(replace(SDXL, capabilities=frozenset(), options=options)).all[0]
    assert len(list(inputs_of(workflow.nodes, "seed"))) > 1
    assert await comfy._limits(workflow, "seed")
