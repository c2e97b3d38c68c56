"""The texts of the pages: scripts use only existing ones, and browsers get theirs translated."""

import gzip
import json
import re
from collections.abc import Mapping
from typing import get_args

import aiohttp
import pytest

from bot.monitoring.live_state import Mode
from bot.monitoring.records import HourSpan
from bot.platforms.web.chat.protocol import ACTS, NotTaken
from bot.platforms.web.routes.assets import page_files, page_texts
from bot.texts.catalogue import CATALOGUES, DEFAULT_LANGUAGE
from queueing.core.errors import ProblemKind
from queueing.core.jobs import JobState
from queueing.core.snapshot import Residency
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat

REFUSED = {f"refused.{reason}" for reason in get_args(NotTaken.model_fields["reason"].annotation)}
MADE: Mapping[str, set[str]] = {
    "page": REFUSED,
    "dashboard": {*REFUSED, *get_args(Mode), *Residency}
    | {f"said.{command}" for command in ACTS}
    | {f"throughput.{span}" for span in HourSpan}
    | {f"cause.{what}" for what in ProblemKind}
    | {f"job_state.{state}" for state in JobState},
}
"""The keys that the scripts put together, by table."""

SAID = re.compile(r'\b(?:say|tell)\((?:[^"`(){}]|\([^()]*\))*"([\w.-]+)"(?: : "([\w.-]+)")?')
TABLES = pytest.mark.parametrize(
    ("table", "folder"), [("page", "page"), ("dashboard", "dashboard_page")]
)


def scripts(folder: str) -> str:
    """Return all scripts of a page."""
    files = page_files(folder)
    return "\n".join(body.decode() for name, (_, body) in files.items() if name.endswith(".js"))


def words(table: str) -> Mapping[str, str]:
    """Return the texts of a page in the default language."""
    found: Mapping[str, str] = json.loads(page_texts()[DEFAULT_LANGUAGE][1])[table]
    return found


@TABLES
def test_every_word_of_a_page_is_used(table: str, folder: str) -> None:
    """The catalogue would collect unused texts, to be translated into every language."""
    literals = set(re.findall(r'"([\w.-]+)"', scripts(folder)))
    assert words(table).keys() - literals - MADE[table] == set()


@TABLES
def test_every_word_that_a_page_says_exists(table: str, folder: str) -> None:
    """The page would break, or show a key."""
    said = {key for keys in SAID.findall(scripts(folder)) for key in keys if key}
    assert len(said) > 40
    assert said <= words(table).keys()


def test_what_the_server_names_has_words() -> None:
    """A reader would see a code on a GPU, or no reason why a message was not accepted."""
    assert words("page").keys() >= REFUSED
    commands = {f"said.{command}" for command in ACTS}
    assert words("dashboard").keys() >= {*get_args(Mode), *Residency, *HourSpan, *commands}


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_spoken_name_holds_the_words_on_the_button(language: str) -> None:
    """Voice control presses a button by its visible text, and would find no such button."""
    texts = json.loads(page_texts()[language][1])["page"]
    buttons = {
        "panel_show": "panel_show_short",
        "panel_again": "panel_again_short",
        "panel_cancel": "cancel",
    }
    assert [
        name
        for name, shown in buttons.items()
        if texts[shown].casefold() not in texts[name].casefold()
    ] == []


@pytest.mark.parametrize("language", CATALOGUES)
async def test_a_browser_gets_the_words_of_its_language(language: str) -> None:
    """A new language would be used in chats but not on the page."""
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        aiohttp.ClientSession(web.url) as browser,
    ):
        for locale in (language, f"{language.upper()}-XX"):
            async with browser.get(f"/texts/{locale}.json") as answer:
                assert answer.content_type == "application/json"
                told = await answer.json()
            assert told["language"] == language
            assert told["page"]["send"] == CATALOGUES[language]["page.send"]


async def test_a_browser_of_another_language_gets_english_and_asks_for_changes_only() -> None:
    """The page would stay empty for its readers, or load its texts again and again."""
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        aiohttp.ClientSession(web.url) as browser,
    ):
        async with browser.get("/texts/xx.json") as answer:
            assert (await answer.json())["language"] == DEFAULT_LANGUAGE
            tag = answer.headers["ETag"]
        async with browser.get("/texts/en.json", headers={"If-None-Match": tag}) as again:
            assert again.status == 304


@pytest.mark.parametrize("accepted", ["gzip, br", "identity", "gzip;q=0"])
async def test_files_are_compressed_for_browsers_that_unpack_them(accepted: str) -> None:
    """The page would take a phone seconds, or a proxy serve one encoding with the other's tag."""
    plain = page_files()["app.js"][1]
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        aiohttp.ClientSession(web.url, auto_decompress=False) as browser,
        browser.get("/static/app.js", headers={"Accept-Encoding": accepted}) as answer,
        browser.get("/static/app.js", headers={"Accept-Encoding": "identity"}) as other,
    ):
        body, packed = await answer.read(), accepted == "gzip, br"
        assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None)
        assert (gzip.decompress(body) if packed else body) == await other.read() == plain
        assert (answer.headers["ETag"] != other.headers["ETag"]) is packed
        assert answer.headers["Vary"] == "Accept-Encoding"


def test_a_first_visit_is_small() -> None:
    """On a slow phone, each hundred kilobytes take half a second."""
    own = [body for name, (_, body) in page_files().items() if "/" not in name]
    texts = page_texts()[DEFAULT_LANGUAGE][1]
    assert 20_000 < sum(len(gzip.compress(body)) for body in [*own, texts]) < 150_000
