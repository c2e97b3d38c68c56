"""Images as addresses: signed links that open without a key until they expire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from bot.people.people import People
from tests.bot.api.calls.test_keys import CLOSED, Page, bearer, new_key, page_of
from tests.bot.api.whole_api import WAIT_S, Api, running

CAT: dict[str, Any] = {"model": "flux", "prompt": "a cat", "response_format": "url"}


@asynccontextmanager
async def drawn(
    folder: Path, text: str = CLOSED, headers: dict[str, str] | None = None
) -> AsyncIterator[tuple[Api, Page, str, str]]:
    """Draw an image, and return its address and the key that asked for it."""
    async with running(folder, text) as api:
        page = await page_of(api)
        key = await new_key(page)
        sent = bearer(key) | (headers or {})
        answer = await api.post("/images/generations", CAT, headers=sent)
        (row,) = answer["data"]
        assert row.keys() == {"url"}
        yield api, page, row["url"], key


async def status(api: Api, url: str, **headers: str) -> int:
    async with api.session.get(url, headers=headers) as found:
        if found.status == 200:
            assert found.content_type == "image/png"
            assert (await found.read()).startswith(b"\x89PNG")
        return int(found.status)


async def test_a_link_opens_without_a_key_and_with_any(tmp_path: Path) -> None:
    """A browser sends no key, and Open WebUI sends the one it has."""
    async with drawn(tmp_path) as (api, _, url, key):
        assert url.startswith(f"{api.url}/originals/")
        assert key not in url
        assert await status(api, url) == 200
        assert await status(api, url, **bearer(key)) == 200
        assert await status(api, url, Authorization="Bearer ush_wrong") == 200
        async with api.session.get(url) as found:
            assert found.headers["Cache-Control"] == "private, no-store"
            assert found.headers["X-Content-Type-Options"] == "nosniff"
            assert found.headers["Referrer-Policy"] == "no-referrer"
            assert "sandbox" in found.headers["Content-Security-Policy"]
        async with api.session.head(url) as found:
            assert (found.status, found.content_type) == (200, "image/png")
        async with api.session.get(url, headers={"Range": "bytes=0-3"}) as found:
            assert (found.status, await found.read()) == (206, b"\x89PNG")


async def test_a_link_that_was_changed_brings_nothing(tmp_path: Path) -> None:
    """A guess or a changed number would open other people's images."""
    async with drawn(tmp_path) as (api, _, url, key):
        *_, job, number, until, seal = url.split("/")
        for changed in (
            f"{job}/{number}/{until}/{'A' * len(seal)}",
            f"{job}/{number}/{int(until) + 1}/{seal}",
            f"{job}/2/{until}/{seal}",
            f"{int(job) + 1}/{number}/{until}/{seal}",
            f"{job}/{number}/{'9' * 30}/{seal}",
            f"{job}/{number}/{until}/%ff%00",
        ):
            path = f"{api.url}/originals/{changed}"
            assert await status(api, path) == 404
            assert await status(api, path, **bearer(key)) == 404
        assert await status(api, url) == 200


@pytest.mark.parametrize("how", ["delete", "forget", "ban"])
async def test_a_link_ends_with_what_it_is_for(how: str, tmp_path: Path) -> None:
    """An image that was deleted, or whose person is banned, could still be fetched."""
    async with drawn(tmp_path) as (api, page, url, _):
        if how == "delete":
            await page.say("/delete 1")
        elif how == "forget":
            await page.say("/forget me --sure")
        else:
            await People(api.parts.database).change("web:local", banned_at=1.0)
        assert await status(api, url) == 404


async def test_a_link_begins_with_the_address_of_the_api(tmp_path: Path) -> None:
    """Programs on other machines would ask their own machine for the image."""
    text = CLOSED.replace("api:\n", "api:\n  url: https://usher.example/\n")
    async with drawn(tmp_path, text) as (api, _, url, _key):
        assert url.startswith("https://usher.example/v1/originals/")
        assert await status(api, url.replace("https://usher.example/v1", api.url)) == 200
        here = {"Host": "usher.example"}
        assert await status(api, url.replace("https://usher.example/v1", api.url), **here) == 200


async def test_the_package_gets_a_link_where_it_asks_for_one(tmp_path: Path) -> None:
    """Callers that use the package would find neither an image nor an address."""
    async with drawn(tmp_path) as (api, _, _url, key):
        client = openai.AsyncOpenAI(base_url=api.url, api_key=key, timeout=WAIT_S)
        linked = await client.images.generate(
            model="flux", prompt="a dog", n=2, response_format="url"
        )
        assert linked.data is not None
        assert len({row.url for row in linked.data}) == 2
        assert [row.b64_json for row in linked.data] == [None, None]
        for row in linked.data:
            assert await status(api, row.url or "") == 200
        plain = await client.images.generate(model="flux", prompt="a dog")
        assert plain.data is not None
        assert plain.data[0].b64_json
        assert plain.data[0].url is None
        await client.close()
