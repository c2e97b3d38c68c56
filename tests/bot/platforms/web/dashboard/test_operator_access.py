"""The operator's page is for admins, and only as long as they are admins."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from bot.platforms.web.chat.page_connection import NOT_KNOWN, TOO_MANY_TABS
from bot.platforms.web.operator.dashboard import MAX_VIEWERS
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.dashboard.operator_client import ADAS, TOKEN, Example, operator_tab
from tests.bot.platforms.web.web_client import WAIT_S, running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat

ADDRESSES = (
    "operator",
    "operator/static/app.js",
    "operator/static/nothing.js",
    "operator/hours/day",
    "operator/hours/nothing",
    "operator/people/day",
    "operator/people/nothing",
    "operator/jobs/812",
    "operator/jobs/nothing",
    "operator/log",
    "operator/socket",
)


@pytest_asyncio.fixture
async def example() -> AsyncIterator[Example]:
    example = Example()
    async with running(example.web, ScriptedHandler()):
        yield example


async def _answer(web: Web, path: str, token: str | None, **headers: str) -> tuple[int, str]:
    cookies = {"usher": token} if token else {}
    async with (
        aiohttp.ClientSession(cookies=cookies) as session,
        session.get(web.url + path, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_nothing_is_told_to_anyone_who_is_no_admin(example: Example) -> None:
    """Each answer would reveal something about the bot to a stranger, or suggest a next try."""
    cases: list[str | None] = [None, "no-one-has-this-token", ADAS]
    for token in cases:
        origin = example.web.url.rstrip("/")
        answers = {await _answer(example.web, path, token, Origin=origin) for path in ADDRESSES}
        assert answers == {(403, "403: Forbidden")}, token
        assert example.records.reads == 0, token


async def test_an_admin_gets_the_page_its_files_and_the_history(example: Example) -> None:
    """An operator would see only a log and a list of commands."""
    status, page = await _answer(example.web, "operator", TOKEN)
    assert (status, '<section id="hours"' in page) == (200, True)
    for path in ("operator/static/app.js", "operator/static/operator.css", "operator/hours/week"):
        assert (await _answer(example.web, path, TOKEN))[0] == 200, path
    for path in ("operator/static/../page/app.js", "operator/static/x.js", "operator/hours/year"):
        assert (await _answer(example.web, path, TOKEN))[0] == 404, path


async def test_another_sites_page_cannot_listen_or_act(example: Example) -> None:
    """A hostile page in an admin's browser would see everything and could stop it."""
    for origin in ("https://evil.example", None):
        headers = {"Origin": origin} if origin else {}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with (
                aiohttp.ClientSession(cookies={"usher": TOKEN}) as session,
                session.ws_connect(f"{example.web.url}operator/socket", headers=headers),
            ):
                pass
        assert refused.value.status == 403


async def test_the_way_there_is_offered_to_admins_only(example: Example) -> None:
    """Others would press it and be refused."""
    for token, offered in ((TOKEN, True), (ADAS, False)):
        async with tab(example.web, greet=False, cookie=token) as page:
            assert (await page.hello())["operates"] is offered


async def test_there_is_no_way_to_a_page_that_is_not_there() -> None:
    """A web chat without an operator's page would offer a dead link."""
    web = web_chat(port=0, is_admin=lambda _: True)
    async with running(web, ScriptedHandler()):
        assert (await _answer(web, "operator", None))[0] == 404
        async with tab(web, greet=False) as page:
            assert (await page.hello())["operates"] is False


async def test_an_open_page_ends_with_the_right_to_it(example: Example) -> None:
    """A former admin would go on watching, and could still press buttons."""
    async with operator_tab(example.web) as page:
        await page.next("now")
        example.admins.clear()
        await page.act("pause")
        assert await page.closed() == NOT_KNOWN


async def test_so_many_pages_are_served_and_no_more(example: Example) -> None:
    """Any number of pages would keep the bot busy drawing itself."""
    pages = [operator_tab(example.web) for _ in range(MAX_VIEWERS)]
    opened = [await page.__aenter__() for page in pages]
    try:
        await asyncio.gather(*(page.next("now") for page in opened))
        async with operator_tab(example.web) as late:
            assert await late.closed() == TOO_MANY_TABS
        await pages.pop().__aexit__(None, None, None)
        async with asyncio.timeout(WAIT_S), operator_tab(example.web) as late:
            await late.next("now")
    finally:
        for page in pages:
            await page.__aexit__(None, None, None)
