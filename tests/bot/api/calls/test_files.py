"""Images of jobs: in a form, uploaded before, or the result of an earlier job."""

import io
import json
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from PIL import Image

from bot.api.calls import uploads as uploads_module
from bot.api.calls.uploads import KEPT_S
from bot.people.people import People
from queueing.core.ports import SystemClock
from queueing.core.requests import TextToImage
from tests.bot.api.calls.test_keys import CLOSED, bearer, new_key, page_of
from tests.bot.api.jobs.test_jobs import CHAT, DRAW, done
from tests.bot.api.routes.test_image_edits import png
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running

ABLE = CONFIG.replace("[text-to-image]", "[text-to-image, image-to-image]")
CLOSED_ABLE = CLOSED.replace("[text-to-image]", "[text-to-image, image-to-image]")


def form(**fields: str | bytes) -> aiohttp.FormData:
    data = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        if isinstance(value, bytes):
            data.add_field(name, value, filename="cat.png")
        else:
            data.add_field(name, value)
    return data


async def sent(
    api: Api, path: str, data: aiohttp.FormData, *, status: int = 200, headers: Any = None
) -> Any:
    async with api.session.post(f"{api.url}{path}", data=data, headers=headers) as answer:
        read = await answer.json()
        assert answer.status == status, read
        return read


async def images_of(api: Api, job: Any) -> tuple[bytes, ...]:
    """Return the images that a job was accepted with."""
    stored = await api.parts.queue.jobs.get(job["id"])
    assert stored is not None
    return tuple(file.data for file in (await api.parts.queue.jobs.inputs(stored) or ()))


async def test_a_form_brings_its_image(tmp_path: Path) -> None:
    """A program would have to write images as base64."""
    async with running(tmp_path, ABLE) as api:
        plain = form(prompt="make it red", model="flux", steps="5", raw="true", images=png())
        whole = form(request=json.dumps({"prompt": "make it red", "steps": 5}), image=png())
        for data in (plain, whole):
            job = await sent(api, "/jobs", data, status=202)
            (image,) = await images_of(api, job)
            assert Image.open(io.BytesIO(image)).size == (64, 64)
            stored = await api.parts.queue.jobs.get(job["id"])
            assert stored is not None
            assert isinstance(stored.request, TextToImage)
            assert stored.request.steps == 5
            assert (await done(api, job))["state"] == "completed"


BAD_FORMS: tuple[dict[str, str | bytes], ...] = (
    {"images": png()},
    {"prompt": "x", "images": b"no image"},
    {"prompt": "x", "image": png(), "file": png()},
    {"prompt": "x", "steps": "many"},
    {"prompt": "x", "surprise": "1"},
    {"request": "{", "images": png()},
    {"request": '{"prompt": "x"}', "prompt": "y"},
    {"request": json.dumps(CHAT), "images": png()},
    {"prompt": "x", "images": "as text"},
)


async def test_a_bad_form_makes_no_job(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    async with running(tmp_path, ABLE) as api:
        for fields in BAD_FORMS:
            with subtests.test(str(fields)[:80]):
                await sent(api, "/jobs", form(**fields), status=400)
                assert not await api.open_jobs()


async def test_a_result_goes_into_the_next_job(tmp_path: Path) -> None:
    """A program would have to fetch each image to send it back."""
    async with running(tmp_path, ABLE) as api:
        first = await done(api, await api.post("/jobs", DRAW, status=202))
        (file,) = first["files"]
        assert file["id"] == f"job-{first['id']}/1"
        for more in ({"images": [file["id"]]}, {"file_id": file["id"]}):
            second = await api.post("/jobs", {**DRAW, **more}, status=202)
            assert len(await images_of(api, second)) == 1
            assert (await done(api, second))["state"] == "completed"


async def test_an_image_sent_ahead_is_used_in_jobs(tmp_path: Path) -> None:
    """An image for many jobs would be sent with each of them."""
    async with (
        running(tmp_path, ABLE) as api,
        openai.AsyncOpenAI(base_url=api.url, api_key="none", timeout=WAIT_S) as client,
    ):
        file = await client.files.create(file=("cat.png", png()), purpose="vision")
        assert file.bytes > 0
        assert file.expires_at is not None
        assert (await client.files.retrieve(file.id)).id == file.id
        assert [each.id async for each in client.files.list()] == [file.id]
        content = await client.files.content(file.id)
        assert Image.open(io.BytesIO(content.content)).size == (64, 64)
        for _ in range(2):
            job = await api.post("/jobs", {**DRAW, "images": [file.id]}, status=202)
            assert await images_of(api, job) == (content.content,)
        look = {"type": "image_url", "image_url": {"url": file.id}}
        chat = {**CHAT, "messages": [{"role": "user", "content": [look]}]}
        assert await images_of(api, await api.post("/jobs", chat, status=202))
        assert (await client.files.delete(file.id)).deleted
        await api.post("/jobs", {**DRAW, "images": [file.id]}, status=404)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)


async def test_another_persons_file_is_none(tmp_path: Path) -> None:
    """Anyone could read anyone's images."""
    async with running(tmp_path, CLOSED_ABLE) as api:
        page = await page_of(api)
        mine, other = bearer(await new_key(page)), bearer(await new_key(page, "robot --service"))
        file = await sent(api, "/files", form(file=png()), headers=mine)
        drawn = await api.post("/jobs", DRAW, status=202, headers=mine)
        async with api.session.get(f"{api.url}/jobs/{drawn['id']}?wait=60", headers=mine) as got:
            result = (await got.json())["files"][0]["id"]
        for name in (file["id"], result, f"job-{drawn['id']}/0", "job-999/1", "file-x"):
            body = {**DRAW, "images": [name]}
            refused = await api.post("/jobs", body, status=404, headers=other)
            assert refused["error"]["param"] == "images.0"
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            url = f"{api.url}/files/{file['id']}{path}"
            async with api.session.request(method, url, headers=other) as answer:
                assert answer.status == 404, (method, path)
        async with api.session.get(f"{api.url}/files", headers=other) as answer:
            assert (await answer.json())["data"] == []
        await api.post("/jobs", {**DRAW, "images": [file["id"]]}, status=202, headers=mine)


async def test_only_images_are_stored(api: Api) -> None:
    """Anyone could use the database as a disk."""
    cases: list[bytes] = [b"", b"no image", b"<svg/>", b"\x89PNG\r\n\x1a\n"]
    for data in cases:
        answer = await sent(api, "/files", form(file=data), status=400)
        assert ("video" in answer["error"]["message"]) is not data.startswith(b"\x89PNG"), data
        await sent(api, "/files", form(purpose="vision"), status=400)
        assert (await api.get("/files"))["data"] == [], data


async def test_each_person_stores_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One person's program could fill the disk."""
    monkeypatch.setattr(uploads_module, "MOST_FILES", 2)
    async with running(tmp_path) as api:
        for _ in range(2):
            await sent(api, "/files", form(file=png()))
        refused = await sent(api, "/files", form(file=png()), status=429)
        assert refused["error"]["code"] == "files_full"
        monkeypatch.setattr(uploads_module, "MOST_FILES", 9)
        monkeypatch.setattr(uploads_module, "MOST_BYTES", 3)
        await sent(api, "/files", form(file=png()), status=429)
        monkeypatch.setattr(uploads_module, "MOST_BYTES", 10**9)
        monkeypatch.setattr(uploads_module, "ALL_BYTES", 3)
        await sent(api, "/files", form(file=png()), status=429)


async def test_files_expire_and_are_forgotten(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images would be kept forever, even after their person asked to be forgotten."""
    uploads = uploads_module.Uploads(api.parts.database)
    old = await sent(api, "/files", form(file=png()))
    later = SystemClock().now() + KEPT_S + 60
    assert await uploads.get("api:local", old["id"], later) is None
    assert await uploads.file("api:local", old["id"], later) is None
    await uploads.expire(later)
    await api.get(f"/files/{old['id']}", status=404)
    new = await sent(api, "/files", form(file=png()))
    await api.get(f"/files/{new['id']}")
    await People(api.parts.database).forget("api:local")
    await api.get(f"/files/{new['id']}", status=404)


PARTS = {
    None: (200, slice(None)),
    "bytes=0-9": (206, slice(0, 10)),
    "bytes=10-": (206, slice(10, None)),
    "bytes=-5": (206, slice(-5, None)),
    "bytes=0-99999999": (206, slice(None)),
    "bytes=99999999-": (416, None),
    "bytes=0-1,3-4": (200, slice(None)),
    "lines=0-1": (200, slice(None)),
    "bytes=5-2": (200, slice(None)),
}


async def test_a_part_of_a_file_is_sent(api: Api, subtests: pytest.Subtests) -> None:
    """A broken download would start from the beginning, and a player could not seek."""
    file = await sent(api, "/files", form(file=png()))
    url = f"{api.url}/files/{file['id']}/content"
    async with api.session.get(url) as answer:
        whole = await answer.read()
        assert answer.headers["Content-Type"] == "image/png"
        assert "filename" in answer.headers["Content-Disposition"]
    for asked, (status, part) in PARTS.items():
        headers = {} if asked is None else {"Range": asked}
        async with api.session.get(url, headers=headers) as answer:
            data = await answer.read()
        with subtests.test(asked):
            assert answer.status == status
            if part is None:
                assert answer.headers["Content-Range"] == f"bytes */{len(whole)}"
            else:
                assert data == whole[part]
    async with api.session.head(url) as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) == len(whole)
