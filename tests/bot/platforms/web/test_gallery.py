"""The gallery's data: whose results it lists, what it finds, and what it marks."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from PIL import Image

from bot.platforms.web.routes import gallery_store
from bot.platforms.web.routes.sessions import COOKIE
from queueing.core.errors import StoreError
from tests.bot.people.test_links import Installation, installation

MINE, STRANGER = "web:local", "fake:1"
SIGNED_IN = {"Cookie": f"{COOKIE}={'x' * 20}"}


@dataclass
class Visitor:
    """A person's requests to the gallery."""

    usher: Installation

    async def draws(self, text: str, user: str = MINE) -> None:
        shown = len(self.usher.chat.messages)
        await self.usher.says(f"/image flux {text} --size 512x512", user=user)
        await self.usher.until(
            lambda: len(self.usher.chat.messages) > shown and "Original" in self.usher.last()
        )

    async def asks(self, query: str = "") -> dict[str, Any]:
        status, data, _ = await self.usher.get(f"/gallery{query}", **SIGNED_IN)
        assert status == 200, query
        answer: dict[str, Any] = json.loads(data)
        return answer

    async def finds(self, query: str = "") -> list[tuple[int, int]]:
        return [(item["job"], item["number"]) for item in (await self.asks(query))["items"]]

    async def marks(self, path: str, method: str = "PUT", *, ours: bool = True) -> int:
        url = self.usher.web.url
        origin = {"Origin": url.rstrip("/") if ours else "https://evil.example"}
        async with (
            aiohttp.ClientSession(headers=SIGNED_IN | origin) as session,
            session.request(method, f"{url}gallery/{path}/favourite") as answer,
        ):
            return answer.status


@pytest_asyncio.fixture
async def visitor(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with installation(tmp_path) as usher:
        yield Visitor(usher)


async def test_a_person_sees_their_own_results_and_nobody_elses(visitor: Visitor) -> None:
    """A stranger's images would be shown, or a person's own be missing."""
    await visitor.draws("a cat --count 2")
    await visitor.draws("a fox", user=STRANGER)
    answer = await visitor.asks()
    assert [(item["job"], item["number"]) for item in answer["items"]] == [(1, 1), (1, 2)]
    assert (answer["models"], answer["next"], answer["hidden"]) == (["flux"], None, False)
    first = answer["items"][0]
    assert (first["prompt"], first["kind"], first["actions"]) == (
        "a cat",
        "image",
        ["again", "delete"],
    )
    status, data, headers = await visitor.usher.get("/gallery/1/2?small=1", **SIGNED_IN)
    assert (status, headers["Cache-Control"]) == (200, "private, no-cache")
    with Image.open(BytesIO(data)) as shown:
        assert max(shown.size) == 320
    for path in ("/gallery/2", "/gallery/2/1", "/gallery/1/3", "/gallery/x/1", "/gallery/²"):
        assert (await visitor.usher.get(path, **SIGNED_IN))[0] == 404, path
    assert await visitor.marks("2/1") == 404
    for path in ("/gallery", "/gallery/1", "/gallery/1/1"):
        assert (await visitor.usher.get(path))[0] == 401, path


async def test_results_are_found_by_words_model_kind_and_mark(visitor: Visitor) -> None:
    """A result of last week could not be found among hundreds."""
    await visitor.draws("a Cat in the snow")
    await visitor.draws("a fox in the snow")
    assert await visitor.finds("?text=SNOW%20cat") == [(1, 1)]
    assert await visitor.finds("?kind=image&model=flux") == [(2, 1), (1, 1)]
    assert await visitor.finds("?kind=video") == await visitor.finds("?model=sdxl") == []
    assert await visitor.marks("1/1", ours=False) == 403
    assert await visitor.finds("?favourite=1") == []
    assert [await visitor.marks("1/1") for _ in range(2)] == [204, 204]
    assert await visitor.finds("?favourite=1") == [(1, 1)]
    assert [item["favourite"] for item in (await visitor.asks())["items"]] == [False, True]
    assert await visitor.marks("1/1", "DELETE") == 204
    assert await visitor.finds("?favourite=1") == []
    for bad in ("before=0", "before=x", "kind=text", "model=" + "x" * 201, "other=1"):
        assert (await visitor.usher.get(f"/gallery?{bad}", **SIGNED_IN))[0] == 400, bad


@pytest.mark.parametrize("how", ["/delete 1", "/forget me --sure"])
async def test_a_deleted_result_leaves_the_gallery_with_its_mark(
    visitor: Visitor, how: str
) -> None:
    """The page would keep showing what its owner had deleted."""
    await visitor.draws("a cat")
    assert await visitor.marks("1/1") == 204
    await visitor.usher.says(how, user=MINE)
    assert await visitor.finds() == await visitor.finds("?favourite=1") == []
    for path in ("/gallery/1", "/gallery/1/1?small=1"):
        assert (await visitor.usher.get(path, **SIGNED_IN))[0] == 404, path


async def test_a_database_that_fails_is_told_without_a_traceback(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each open gallery would fill the log, and the page not know why nothing is there."""

    async def fails(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(gallery_store.GalleryStore, "_read", fails)
    for path in ("/gallery", "/gallery/1"):
        assert (await visitor.usher.get(path, **SIGNED_IN))[0] == 503, path
    assert caplog.text == ""
