"""Several people on the web page, each let in by an admin's link, end to end."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bot.app.app import BotParts
from bot.platforms.web.chat.page_connection import NOT_KNOWN
from bot.platforms.web.platform import Web
from tests.bot.platforms.web.web_client import Tab, tab, text_of
from tests.fakes.telegram.telegram import FakeTelegram, Person
from tests.fakes.telegram.telegram_state import FakeChat
from tests.security.bots import on_telegram

OWNER = "correct-horse-battery-staple"


@asynccontextmanager
async def installation(
    fake: FakeTelegram, folder: Path, *, token: str = OWNER
) -> AsyncIterator[tuple[Web, BotParts]]:
    """Run a bot on Telegram, where its admin is, and on a web page."""
    settings = f"{{port: 0, token: '{token}'}}" if token else "{port: 0}"
    async with on_telegram(fake, folder, more=f"  web: {settings}\n") as parts:
        (web,) = (each for each in parts.platforms if isinstance(each, Web))
        await web.connected.wait()
        yield web, parts


async def told(fake: FakeTelegram, admin: Person, text: str, chat: FakeChat | None = None) -> str:
    """Return the bot's answer to an admin on Telegram."""
    answers = (chat or admin.chat).from_bot
    before = len(answers)
    admin.says(text, chat=chat)
    found = await fake.wait_for(lambda: (chat or admin.chat).from_bot[before:])
    return found[0].shown


def token_in(text: str) -> str:
    found = re.search(r"\?token=([\w-]+)", text)
    assert found is not None, text
    return found[1]


async def followed(link: str) -> Mapping[str, str]:
    """Return the headers of the answer to a link."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(link, allow_redirects=False) as answer,
    ):
        return answer.headers


# Anyone who speaks while the bot closes may lose its last word, but not the connection's end.
ENDED = {NOT_KNOWN, aiohttp.WSCloseCode.ABNORMAL_CLOSURE}


async def closed(page: Tab) -> int | None:
    """Return how an open page is closed that asks for nothing any more."""
    async for _ in page.socket:
        pass
    return page.socket.close_code


async def test_an_invited_person_is_let_in_as_nobody_else(tmp_path: Path) -> None:
    """People would share one chat, or one could be another, or an admin."""
    async with FakeTelegram() as fake, installation(fake, tmp_path) as (web, parts):
        admin = fake.person(1)
        ada = token_in(await told(fake, admin, "/invite Ada"))
        ben = token_in(await told(fake, admin, "/invite Ben"))
        assert "Ada (web:ada), Ben (web:ben)" in await told(fake, admin, "/invite")
        answer = await followed(f"{web.url}?token={ada}")
        assert answer["Location"] == "./"
        assert "HttpOnly" in answer["Set-Cookie"]
        async with tab(web, cookie=ada) as hers, tab(web, cookie=ben) as his:
            await hers.say("/image flux cat")
            await hers.next("taken")
            await hers.say("/pause")
            refused = await hers.entry("for admins")
            assert refused["shown"]["author"] == "usher"
            job = await parts.queue.jobs.get(1)
            assert job is not None
            assert job.owner == "web:ada"
            await his.say("/cancel 1")
            assert "You have no job 1." in text_of(await his.entry("no job"))
        async with tab(web, cookie=OWNER, greet=False) as owner:
            assert (await owner.hello())["person"] == "local"


async def test_a_link_that_is_taken_back_ends_open_pages(tmp_path: Path) -> None:
    """A banned person could go on as long as they do not close the page."""
    async with FakeTelegram() as fake, installation(fake, tmp_path) as (web, parts):
        admin = fake.person(1)
        token = token_in(await told(fake, admin, "/invite Ada"))
        async with tab(web, cookie=token) as page:
            await page.say("/image flux cat")
            await page.next("taken")
            assert "no longer works" in await told(fake, admin, "/uninvite ada")
            assert await closed(page) in ENDED
        async with tab(web, greet=False, cookie=token) as again:
            assert await closed(again) == NOT_KNOWN
        assert (await followed(f"{web.url}?token={token}"))["Location"] == "./#refused"
        assert await parts.queue.jobs.open_jobs("web:ada") == []
        assert "invited" in await told(fake, admin, "/uninvite ada")
        audit = await told(fake, admin, "/audit")
        assert "uninvite web:ada" in audit
        assert token not in audit


async def test_a_new_link_ends_pages_of_the_old_one(tmp_path: Path) -> None:
    """A person who found a lost link could go on reading after it was replaced."""
    async with FakeTelegram() as fake, installation(fake, tmp_path) as (web, _):
        admin = fake.person(1)
        lost = token_in(await told(fake, admin, "/invite Ada"))
        async with tab(web, cookie=lost) as page:
            found = token_in(await told(fake, admin, "/invite Ada"))
            assert await closed(page) in ENDED
        async with tab(web, cookie=lost, greet=False) as page:
            assert await closed(page) == NOT_KNOWN
        async with tab(web, cookie=found, greet=False) as page:
            assert (await page.hello())["person"] == "ada"


async def test_links_are_made_by_admins_in_private_only(tmp_path: Path) -> None:
    """Everyone in a group would read the key, or anyone could make themselves one."""
    async with FakeTelegram() as fake, installation(fake, tmp_path):
        admin, group = fake.person(1), fake.group(-1001)
        for who, where, expected in (
            (fake.person(7), None, "for admins"),
            (admin, group, "private chat"),
        ):
            text = await told(fake, who, "/invite Eve", where)
            assert expected in text
            assert "token" not in text
        assert "no invitations" in await told(fake, admin, "/invite")


async def test_without_a_token_of_the_page_nobody_is_invited(tmp_path: Path) -> None:
    """A link would look like protection of a page that everyone can open anyway."""
    async with FakeTelegram() as fake, installation(fake, tmp_path, token="") as (web, _):
        assert "chats.web.token" in await told(fake, fake.person(1), "/invite Ada")
        async with tab(web, greet=False) as page:
            assert (await page.hello())["person"] == "local"


async def test_a_name_is_shown_as_it_is_or_refused(tmp_path: Path) -> None:
    """A name could become markup, a mention, or reverse the words around it."""
    async with FakeTelegram() as fake, installation(fake, tmp_path) as (web, _):
        assert "the limit is 40" in await told(fake, fake.person(1), f"/invite {'a' * 41}")
        for name in ("<script>alert(1)</script>", "a\u202eb", "@everyone"):
            text = await told(fake, fake.person(1), f"/invite {name}")
            async with tab(web, cookie=token_in(text), greet=False) as page:
                assert (await page.hello())["name"] == name.replace("\u202e", "")
