"""Changing images over HTTP, with forms and JSON, with the `openai` package unchanged."""

import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from PIL import Image, PngImagePlugin

from queueing.core.requests import TextToImage
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running

DRAWS = CONFIG.replace("[text-to-image]", "[text-to-image, image-to-image]")
EDITS = DRAWS.replace(
    "chats: {}",
    """  kontext:
    backends: [studio]
    capabilities: [image-edit]
    vram: 9GB
    load_s: 0.01
    service_s: 0.1
chats: {}""",
)
RED = {"model": "flux", "prompt": "make it red"}


def png(side: int = 64, **texts: str) -> bytes:
    """Return an image that contains texts beside its pixels."""
    out, beside = io.BytesIO(), PngImagePlugin.PngInfo()
    for name, text in texts.items():
        beside.add_text(name, text)
    Image.new("RGB", (side, side), "blue").save(out, "PNG", pnginfo=beside)
    return out.getvalue()


def marking(side: int = 64) -> bytes:
    """Return a mask that is transparent on its left."""
    out, mask = io.BytesIO(), Image.new("RGBA", (side, side), "black")
    mask.paste((0, 0, 0, 0), (0, 0, side // 2, side))
    mask.save(out, "PNG")
    return out.getvalue()


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def shown(answer: Any) -> Any:
    return Image.open(io.BytesIO(base64.b64decode(answer.data[0].b64_json)))


@asynccontextmanager
async def editing(tmp_path: Path, config: str = DRAWS) -> AsyncIterator[tuple[Api, Any]]:
    async with (
        running(tmp_path, config) as api,
        openai.AsyncOpenAI(base_url=api.url, api_key="none", timeout=WAIT_S) as client,
    ):
        yield api, client


async def test_the_package_sends_an_image_in_every_form(tmp_path: Path) -> None:
    """Callers have files, bytes or streams, and the package chooses their names."""
    cases: list[Any] = [
        ("upload", png(), "application/octet-stream"),
        ("kitten.gif", png(), "image/gif"),
        [("a.png", png(), "image/png")],
        png(),
        io.BytesIO(png()),
        [io.BytesIO(png())],
    ]
    async with editing(tmp_path) as (api, client):
        for image in cases:
            answer = await client.images.edit(**RED, image=image, size="96x64", n=1)
            assert shown(answer).size == (96, 64), image
            job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
            assert isinstance(job.request, TextToImage), image
            assert len(await api.parts.queue.jobs.inputs(job) or ()) == 1, image


async def test_a_file_of_a_path_is_sent(tmp_path: Path) -> None:
    """Every example sends a file this way."""
    path = tmp_path / "cat.png"
    path.write_bytes(png())
    async with editing(tmp_path) as (_, client):
        with path.open("rb") as image:
            assert shown(await client.images.edit(**RED, image=image)).format == "PNG"


async def test_words_of_openais_clients_are_ignored(tmp_path: Path) -> None:
    """Clients made for other models would be refused for what they always send."""
    async with editing(tmp_path) as (_, client):
        answer = await client.images.edit(
            **RED,
            image=png(),
            background="auto",
            quality="high",
            input_fidelity="high",
            output_format="png",
            user="x",
        )
    assert shown(answer).format == "PNG"


async def test_an_image_grows_before_it_is_done(tmp_path: Path) -> None:
    """A person would see nothing for minutes."""
    async with editing(tmp_path) as (_, client):
        stream = await client.images.edit(**RED, image=png(), stream=True, partial_images=2)
        *partial, last = [event async for event in stream]
    assert {event.type for event in partial} <= {"image_edit.partial_image"}
    assert last.type == "image_edit.completed"
    assert last.usage is not None


async def test_several_images_are_combined(tmp_path: Path) -> None:
    """A person would send four images, and only one would be used."""
    async with editing(tmp_path, EDITS) as (api, client):
        for model in ({"model": "kontext"}, {"model": openai.NOT_GIVEN}):
            images = [png(40 + 10 * n) for n in range(4)]
            answer = await client.images.edit(prompt="all in one", image=images, **model)
            assert shown(answer).format == "PNG"
            job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
            assert isinstance(job.request, TextToImage)
            assert (job.model, job.request.edit, job.request.mask) == ("kontext", True, False)
            assert len(await api.parts.queue.jobs.inputs(job) or ()) == 4
        with pytest.raises(openai.BadRequestError, match="at most 4 images; you sent 5"):
            await client.images.edit(**RED, image=[png()] * 5)


async def test_a_mask_is_the_last_file_of_an_edit(tmp_path: Path) -> None:
    """The whole image would be changed, and the person would not know why."""
    async with editing(tmp_path, EDITS) as (api, client):
        image, mask = png(64), marking(66)
        await client.images.edit(model="kontext", prompt="a hat", image=image, mask=mask)
        in_json = {
            "images": [{"image_url": data_url(image)}],
            "mask": {"image_url": data_url(mask)},
        }
        await api.post("/images/edits", {"model": "kontext", "prompt": "a hat", **in_json})
        for job in await api.parts.queue.jobs.history("api:local", limit=2):
            assert isinstance(job.request, TextToImage)
            assert (job.request.edit, job.request.mask) == (True, True)
            sides = [
                Image.open(io.BytesIO(each.data)).width
                for each in (await api.parts.queue.jobs.inputs(job) or ())
            ]
            assert sides == [64, 64]
        for bare in (png(), b"\x89PNG"):
            with pytest.raises(openai.BadRequestError) as error:
                await client.images.edit(model="kontext", prompt="x", image=image, mask=bare)
            assert error.value.param == "mask"


async def test_a_model_that_only_starts_from_an_image_is_not_given_more(tmp_path: Path) -> None:
    """All images but one, or the mask, would silently be left out."""
    async with editing(tmp_path) as (api, client):
        with pytest.raises(openai.BadRequestError) as error:
            await client.images.edit(**RED, image=[png(), png()])
        assert error.value.param == "model"
        with pytest.raises(openai.BadRequestError):
            await client.images.edit(**RED, image=png(), mask=png())
        answer = await api.post("/images/variations", {}, status=404)
        assert "/v1/images/edits" in answer["error"]["message"]
        assert not await api.open_jobs()


async def test_what_a_camera_wrote_beside_the_pixels_is_not_kept(tmp_path: Path) -> None:
    """The location where a photo was taken would be stored in the database and on the server."""
    async with editing(tmp_path) as (api, client):
        await client.images.edit(**RED, image=png(Comment="at home"))
        job = (await api.parts.queue.jobs.history("api:local", limit=1))[0]
        (stored,) = await api.parts.queue.jobs.inputs(job) or ()
    assert b"at home" not in stored.data
    assert stored.name == "image.png"


async def test_images_come_as_json(tmp_path: Path) -> None:
    """OpenAI's own document prefers this newer form."""
    async with editing(tmp_path) as (api, _):
        body = {**RED, "images": [{"image_url": data_url(png())}], "strength": 0.5, "size": None}
        answer = await api.post("/images/edits", body)
        assert answer["data"][0]["b64_json"]


async def test_an_image_is_named_that_was_sent_ahead(tmp_path: Path) -> None:
    """A program that edits one image ten times would send it ten times."""
    async with editing(tmp_path) as (api, client):
        sent = await client.files.create(file=("a.png", png()), purpose="vision")
        body = {**RED, "images": [{"file_id": sent.id}]}
        assert (await api.post("/images/edits", body))["data"][0]["b64_json"]
        body = {**RED, "images": [{"file_id": "file-1"}]}
        answer = await api.post("/images/edits", body, status=404)
        assert answer["error"]["param"] == "images.0.file_id"


IMAGES = [{"image_url": data_url(png())}]


BAD: tuple[dict[str, Any], ...] = (
    {"images": []},
    {},
    {"images": IMAGES * 2},
    {"images": IMAGES * 17},
    {"images": [{"file_id": "file-1", "image_url": data_url(png())}]},
    {"images": [{}]},
    {"images": ["x"]},
    {"images": IMAGES, "mask": IMAGES[0]},
    {"images": [{"image_url": "https://example.com/a.png"}]},
    {"images": [{"image_url": "no image"}]},
    {"images": [{"image_url": data_url(b"GIF89a")}]},
    {"images": IMAGES, "strength": 2},
    {"images": IMAGES, "n": 10**30},
    {"images": IMAGES, "model": "llama"},
)


async def test_a_bad_request_draws_nothing(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    async with editing(tmp_path) as (api, _):
        for body in BAD:
            with subtests.test(str(body)[:80]):
                answer = await api.post("/images/edits", {**RED, **body}, status=400)
                assert answer["error"]["message"]
                assert not await api.open_jobs()


async def form(api: Api, *parts: tuple[str, Any], status: int = 400) -> Any:
    sent = aiohttp.FormData(default_to_multipart=True)
    for name, value in parts:
        named = {"filename": "x"} if isinstance(value, bytes) else {}
        sent.add_field(name, io.BytesIO(value) if named else value, **named)
    async with api.session.post(f"{api.url}/images/edits", data=sent) as answer:
        body = await answer.json()
        assert answer.status == status, body
        return body


async def test_a_bad_form_draws_nothing(tmp_path: Path) -> None:
    """The error must name the field at fault, as it does for JSON."""
    prompt, image, model = ("prompt", "red"), ("image", png()), ("model", "flux")
    async with editing(tmp_path) as (api, _):
        for parts, param in (
            ([image, model], "prompt"),
            ([prompt, model], "image"),
            ([("prompt", ""), image, model], "prompt"),
            ([prompt, image, model, ("n", "many")], "n"),
            ([prompt, image, model, ("n", "99")], "n"),
            ([prompt, image, model, ("size", "1x1")], "size"),
            ([prompt, ("image[]", b""), model], "image[]"),
            ([prompt, ("image", b"no image"), model], "image"),
            ([prompt, ("image", bytes(21_000_000)), model], "image"),
            ([prompt, image, ("model", "llama")], "model"),
        ):
            assert (await form(api, *parts))["error"]["param"] == param
        assert not await api.open_jobs()
        await form(api, prompt, image, ("model", "dall-e-2"), status=404)
        whole = [prompt, image, model, ("n", "2"), ("size", ""), ("stream", "false")]
        assert len((await form(api, *whole, status=200))["data"]) == 2
