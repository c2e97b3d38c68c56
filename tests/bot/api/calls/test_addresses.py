"""Addresses of images in requests, where they are fetched and where they are not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.api.calls.fetcher import Fetcher
from bot.people.people import People
from tests.bot.api.calls.test_hostile_images import edit, job, response
from tests.bot.api.routes.test_image_edits import DRAWS, png
from tests.bot.api.whole_api import Api, running
from tests.fakes.images_example import HOST, FakeNames, ImagesExample, trusting

EMBEDS = "{backends: [studio], capabilities: [image-embedding], vram: 1GB, load_s: 0.01}"
MUTE = "{backends: [studio], capabilities: [embedding], vram: 1GB, load_s: 0.01}"
MODELS = f"  hashing: {EMBEDS}\n  mute: {MUTE}\n"
FETCHES_NOT = DRAWS.replace("chats: {}", MODELS + "chats: {}")
FETCHES = FETCHES_NOT + "  fetch: true\n"
URL = f"https://{HOST}/a.png"


def chat(url: str) -> tuple[str, dict[str, Any]]:
    image = {"type": "image_url", "image_url": {"url": url}}
    content = [{"type": "text", "text": "What is this?"}, image]
    return "/chat/completions", {
        "model": "llama",
        "messages": [{"role": "user", "content": content}],
    }


def embedding(url: str) -> tuple[str, dict[str, Any]]:
    return "/embeddings", {"model": "hashing", "input": [{"image": url}]}


WAYS = (edit, chat, response, job, embedding)


def accepted(path: str) -> int:
    """Return the status of a call that is accepted."""
    return 202 if path == "/jobs" else 200


@asynccontextmanager
async def fetching(folder: Path, body: bytes) -> AsyncIterator[tuple[Api, ImagesExample]]:
    """Run the bot beside pictures.example, which answers with these bytes and a false type."""

    async def answer(writer: Any) -> None:
        about = f"Content-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{about}".encode() + body)
        await writer.drain()

    server = ImagesExample(answer)

    def make_fetcher(**_: object) -> Fetcher:
        return Fetcher(
            lookup=FakeNames(["127.0.0.1"]),
            allows=lambda address: address == "127.0.0.1",
            tls=trusting(),
            port=server.port,
        )

    async with (
        server.serving(folder),
        running(folder, FETCHES, make_fetcher=make_fetcher) as api,
    ):
        yield api, server


async def test_an_address_is_fetched_where_that_is_allowed(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Clients that send addresses would need another program in between."""
    async with fetching(tmp_path, png(Comment="at home")) as (api, server):
        for count, (path, body) in enumerate((way(URL) for way in WAYS), start=1):
            with subtests.test(path, count=count):
                await api.post(path, body, status=accepted(path))
                made = await api.parts.queue.jobs.history("api:local", limit=9, made_for_jobs=True)
                assert len(made) == len(server.asked) == count
                (stored,) = await api.parts.queue.jobs.inputs(made[0]) or ()
                assert stored.mime == "image/png"
                assert b"at home" not in stored.data


async def test_what_is_fetched_is_known_by_its_bytes(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A web page would be stored in the database as an image."""
    async with fetching(tmp_path, b"<html>a secret of the network</html>") as (api, _):
        for way in WAYS:
            with subtests.test(way.__name__):
                path, body = way(URL)
                answer = await api.post(path, body, status=400)
                assert "secret" not in str(answer)
                path, body = way("https://127.0.0.1/a.png")
                answer = await api.post(path, body, status=400)
                assert "host name" in answer["error"]["message"]
                assert answer["error"]["param"]
        assert not await api.parts.queue.jobs.history("api:local", limit=1, made_for_jobs=True)


async def test_no_address_is_fetched_unless_the_operator_allows_it(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A default that fetches would make every installation a door to its network."""

    def never(**_: object) -> Fetcher:
        raise AssertionError("a fetcher was made")

    async with running(tmp_path, FETCHES_NOT, make_fetcher=never) as api:
        for path, body in (way(URL) for way in WAYS):
            with subtests.test(path):
                answer = await api.post(path, body, status=400)
                assert "does not fetch other URLs" in answer["error"]["message"]
        assert not await api.open_jobs()


async def test_nothing_is_fetched_for_a_banned_person(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A banned person could still make this machine fetch and decode files of their choice."""
    async with fetching(tmp_path, png()) as (api, server):
        await People(api.parts.database).change("api:local", banned_at=1.0)
        for path, body in (way(URL) for way in WAYS):
            with subtests.test(path):
                answer = await api.post(path, body, status=403)
                assert answer["error"]["code"] == "banned"
    assert not server.asked


async def test_nothing_is_fetched_for_a_model_that_cannot_take_it(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A misspelt name would cost a fetch and a decoder, and make the caller wait for seconds."""
    async with fetching(tmp_path, png()) as (api, server):
        for count, way in enumerate(WAYS, start=1):
            path, body = way(URL)
            for model, status in (("lama", 404), ("mute", 400)):
                with subtests.test(way.__name__, model=model):
                    error = (await api.post(path, {**body, "model": model}, status=status))["error"]
                    assert error["param"] == "model"
            await api.post(path, body, status=accepted(path))
            assert len(server.asked) == count
