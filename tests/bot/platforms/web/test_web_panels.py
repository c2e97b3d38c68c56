"""Panels show only the reader's own data, and their controls do what commands do."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from bot.core.content import Content
from bot.core.refusals import Refusal, RefusalKind
from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.platform import Web
from bot.platforms.web.routes.panels import MAX_BODY, PANELS
from tests.bot.platforms.web.dashboard.test_operator_bot import crowded_bot
from tests.bot.platforms.web.test_web_page import HELD, RELEASE, chromium
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.programs.chromium import Chromium, Page

__all__ = ["chromium"]  # a fixture of the chat page's tests

TOKENS = {"a" * 20: WebPerson(id="ada", name="Ada"), "b" * 20: WebPerson(id="bob", name="Bob")}
ADA = {"Cookie": f"usher={'a' * 20}"}


def act(command: str, **more: Any) -> dict[str, Any]:
    """Return the act of a control."""
    return {"type": "submit", "key": uuid4().hex, "command": command, "values": {}, **more}


async def post(web: Web, body: Any, **headers: str) -> int:
    """Send an act and return the status of its answer."""
    headers.setdefault("Origin", web.url.rstrip("/"))
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{web.url}panels/act", json=body, headers=headers) as answer,
    ):
        return answer.status


async def test_a_panel_is_read_as_the_person_who_opened_it() -> None:
    """Ada would see Bob's jobs, or a stranger anyone's."""
    handler = ScriptedHandler()
    people = FixedPeople(TOKENS)
    async with (
        running(web_chat(port=0, people=people), handler) as web,
        aiohttp.ClientSession(web.url) as page,
    ):
        for path, headers, status in (
            ("history?before=12&search=cat", ADA, 200),
            *((panel, {}, 401) for panel in sorted(PANELS)),
            ("key", ADA, 404),
            ("history?before=1%3B", ADA, 404),
            ("history?before=²", ADA, 404),
            (f"history?before={2**63}", ADA, 404),
            (f"history?before={'9' * 5000}", ADA, 404),
        ):
            async with page.get(f"/panels/{path}", headers=headers) as answer:
                assert answer.status == status, path
    (call,) = handler.read
    assert (call.user, call.options, call.text) == ("web:ada", {"id": 12}, "cat")


@pytest.mark.parametrize(
    ("locale", "words"), [("en-US", "You"), ("de-AT", "Du darfst"), ("fr", "You")]
)
async def test_who_may_read_no_panel_is_told_why(locale: str, words: str) -> None:
    """A banned person would read that the server does not answer, and fill its log."""
    handler = ScriptedHandler()
    handler.declines = Refusal(RefusalKind.BANNED, reason="floods")
    headers = ADA | {"Accept-Language": locale}
    async with (
        running(web_chat(port=0, people=FixedPeople(TOKENS)), handler) as web,
        aiohttp.ClientSession(web.url) as page,
        page.get("/panels/models", headers=headers) as answer,
    ):
        assert answer.status == 403
        assert words in str((await answer.json())["refused"])


async def test_only_a_panels_own_acts_are_taken() -> None:
    """Another site could act for its visitor, or a panel do something it has no control for."""
    handler = ScriptedHandler()
    async with running(web_chat(port=0, people=FixedPeople(TOKENS)), handler) as web:
        assert await post(web, act("settings")) == 401
        assert await post(web, act("settings"), **ADA, Origin="http://evil.example") == 403
        assert await post(web, act("forget"), **ADA) == 400
        assert await post(web, act("settings", more=1), **ADA) == 400
        assert await post(web, [], **ADA) == 400
        assert await post(web, act("settings", values={"x": "y" * MAX_BODY}), **ADA) == 413
        assert handler.keys == []
        posted = asyncio.create_task(post(web, act("cancel", job=7), **ADA))
        call = await handler.taken()
        assert (call.user, call.command, call.options) == ("web:ada", "cancel", {"id": 7})
        await call.respond(Content(body=("Cancelled.",)), True)
        assert await posted == 200
        assert await web._log.since("ada", 0, 10) == []  # nothing is left in the chat


async def choose(page: Page, setting: str, value: str) -> None:
    """Choose a value, as a person does in a select or a field."""
    await page.evaluate(
        f"{{ const it = document.getElementById('setting-{setting}'); it.value = '{value}';"
        " it.dispatchEvent(new Event('change')); }"
    )


@pytest.mark.browser
@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1280])
async def test_a_person_sets_uses_watches_and_finds(
    tmp_path: Path, chromium: Chromium, width: int
) -> None:
    """The panels would be a second bot that can do less than the first."""
    async with crowded_bot(tmp_path) as (parts, web), chromium.page() as page:
        await page.look(width=width, height=844, phone=width == 390)
        await page.goto(f"{web.url}#settings")
        await page.wait("document.getElementById('setting-image')?.options.length > 2")
        await choose(page, "image", "sdxl")
        await page.wait_text("Saved.", "#settings")
        await choose(page, "size", "enormous")
        await page.wait("document.querySelector('#settings .refused')?.textContent")
        await page.evaluate("location.hash = 'models'")
        star = "document.querySelector('#models [aria-label^=\"sdxl as the default\"]')"
        await page.wait(f"{star}?.getAttribute('aria-pressed') === 'true'")
        await page.evaluate("document.querySelector('[aria-label=\"Use /image sdxl\"]').click()")
        await page.wait("document.getElementById('text').value === '/image sdxl '")
        await parts.queue.admin.pause()
        await page.type("a paper boat")
        await page.press("Enter")
        await page.wait("document.querySelector('.message:last-child .button')")
        await page.evaluate("location.hash = 'status'")
        await page.wait_text("a paper boat", "#status")
        await page.evaluate("document.querySelector('[aria-label^=\"Cancel job\"]').click()")
        await page.wait_text("None of your jobs", "#status")
        await page.evaluate("location.hash = 'history'")
        await page.wait_text("a paper boat", "#history")
        await page.click("#history input")
        await page.type("submarine")
        await page.wait_text("None of the jobs", "#history")
        await page.wait(f"document.documentElement.scrollWidth <= {width}")
        assert page.errors == []


@pytest.mark.browser
@pytest.mark.thorough
async def test_an_answer_from_before_a_change_is_not_shown_after_it(
    tmp_path: Path, chromium: Chromium
) -> None:
    """A setting would jump back right after it was saved, and be saved again by mistake."""
    async with crowded_bot(tmp_path) as (_, web), chromium.page() as page:
        await page.goto(f"{web.url}#settings")
        await page.wait("document.getElementById('setting-image')?.options.length > 2")
        await page.evaluate(HELD.replace("ADDRESS", "panels/settings"))
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await page.wait("window.release !== undefined")
        await choose(page, "image", "sdxl")
        await page.wait_text("Saved.", "#settings")
        await page.wait("window.answers > 1")
        await page.evaluate(RELEASE)
        assert await page.evaluate("document.getElementById('setting-image').value") == "sdxl"
        assert page.errors == []
