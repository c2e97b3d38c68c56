"""Images over HTTP, through the whole bot."""

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bot.api.openai.images import ImageStream
from bot.api.runs.runs import Run
from queueing.core.errors import OutOfMemory
from queueing.core.jobs import stand_in
from queueing.core.requests import File, Progress
from tests.bot.api.whole_api import CONFIG, Api, running

CAT = {"model": "flux", "prompt": "a red cat"}


def image(data: str) -> Any:
    return Image.open(io.BytesIO(base64.b64decode(data)))


async def test_an_image_comes_as_base64(api: Api) -> None:
    """Open WebUI reads no other form."""
    answer = await api.post("/images/generations", {**CAT, "n": 2, "size": "96x64"})
    assert [image(row["b64_json"]).size for row in answer["data"]] == [(96, 64), (96, 64)]
    assert isinstance(answer["created"], int)


async def test_an_address_is_given_where_it_is_asked_for(api: Api) -> None:
    """A client that shows addresses would show nothing."""
    answer = await api.post("/images/generations", {**CAT, "response_format": "url"})
    async with api.session.get(answer["data"][0]["url"]) as found:
        assert found.content_type == "image/png"


async def test_an_image_grows_before_it_is_done(api: Api) -> None:
    """A person would see nothing for minutes."""
    asked = {**CAT, "partial_images": 2}
    events, comments = await api.stream("/images/generations", asked)
    *partial, last = events
    assert {event["type"] for event in partial} <= {"image_generation.partial_image"}
    assert [event["partial_image_index"] for event in partial] == list(range(len(partial)))
    assert all(image(event["b64_json"]).format == "JPEG" for event in partial)
    assert last["type"] == "image_generation.completed"
    assert image(last["b64_json"]).format == "PNG"
    assert last["output_format"] == "png"
    assert comments


async def test_an_image_comes_in_the_form_that_was_asked_for(api: Api) -> None:
    """A program would write PNG into a file named .webp."""
    for form in ("png", "jpeg", "webp"):
        asked = {**CAT, "output_format": form}
        answer = await api.post("/images/generations", asked)
        assert image(answer["data"][0]["b64_json"]).format == form.upper()
        *_, last = (await api.stream("/images/generations", asked))[0]
        assert image(last["b64_json"]).format == form.upper()
        assert last["output_format"] == form
    for more, param in (({"background": "transparent"}, "background"), (
        {"output_format": "webp", "response_format": "url"}, None,
    )):  # fmt: skip
        error = await api.post("/images/generations", {**CAT, **more}, status=400)
        assert error["error"]["param"] == param


async def test_words_of_openais_clients_are_left_out(api: Api) -> None:
    """Clients made for other models would be refused for what they always send."""
    more = {"quality": "hd", "style": "vivid", "size": "auto", "user": "x", "background": "auto"}
    assert (await api.post("/images/generations", {**CAT, **more}))["data"]


def test_previews_come_evenly_and_no_oftener_than_asked_for() -> None:
    """All previews would come in the first second, or more than the client can show."""
    run = Run(stand_in(1, "flux", 0.0))
    stream = ImageStream(created=1, size="auto", previews=2)
    sent: list[int] = []
    for step in range(1, 13):
        preview = File(name="p.jpg", mime="image/jpeg", data=bytes([step]))
        run.progress(Progress(fraction=step / 12, preview=preview))
        if stream.news(run):
            sent.append(step)
    assert sent == [4, 8]


BAD: tuple[tuple[dict[str, Any], int], ...] = (
    ({"prompt": ""}, 400),
    ({"n": 9}, 400),
    ({"size": "9x9"}, 400),
    ({"size": "99999x1"}, 400),
    ({"size": "8192x8192"}, 400),
    ({"size": "x"}, 400),
    ({"model": "dall-e-3"}, 404),
    ({"model": "llama"}, 400),
    ({"partial_images": 9}, 400),
)


async def test_what_ran_out_of_memory_is_refused_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request would empty the GPU for everybody, again and again."""

    async def full(*_given: object) -> None:
        raise OutOfMemory("CUDA out of memory")

    text = CONFIG.replace("    parallel: 1\n", "    parallel: 1\n    max_attempts: 1\n")
    large = {**CAT, "size": "1536x1536"}
    async with running(tmp_path, text) as api:
        with monkeypatch.context() as patch:
            patch.setattr("backends.demo.backend.draw", full)
            await api.post("/images/generations", {**CAT, "size": "64x64"}, status=503)
            await api.post("/images/generations", large, status=503)
        answer = await api.post("/images/generations", large, status=400)
        assert answer["error"]["code"] == "beyond_model"
        await api.post("/images/generations", {**CAT, "size": "64x64"})


async def test_a_bad_request_draws_nothing(api: Api, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    for more, status in BAD:
        with subtests.test(str(more)):
            await api.post("/images/generations", {**CAT, **more}, status=status)
            assert not await api.open_jobs()
