"""Keys: made in a chat, shown once, and valid for their person everywhere."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from bot.commands.me.key import _named
from bot.core.refusals import Declined, RefusalKind
from bot.people.api_keys import looks_like_key
from bot.platforms.web.platform import Web
from tests.bot.api.whole_api import CONFIG, Api, running
from tests.bot.platforms.web.web_client import Tab, opened
from tests.samples import in_turn

CLOSED = CONFIG.replace("open: true", "open: false").replace(
    "chats: {}", "chats: {web: {port: 0}}\nadmins: [web:local]"
)
CAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
KEY = re.compile(r"ush_[\w-]{43}")


class Page:
    """The page of the web chat, as its person uses it."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    async def say(self, text: str) -> str:
        """Send a message and return the text of the answer."""
        key = await self.tab.say(text)
        while True:
            for entry in (await self.tab.next("messages"))["entries"]:
                shown = entry["shown"]
                if shown is not None and shown["author"] == "usher":
                    return "".join(str(part.get("text", "")) for part in shown["body"]) or key


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path, CLOSED) as api:
        yield api


@pytest.fixture
async def page(api: Api) -> Page:
    return await page_of(api)


async def page_of(api: Api) -> Page:
    (web,) = api.parts.platforms
    assert isinstance(web, Web)
    await web.connected.wait()
    tab = await api.until_the_end.enter_async_context(opened(web.url))
    await tab.hello()
    return Page(tab)


async def new_key(page: Page, more: str = "") -> str:
    found = KEY.search(await page.say(f"/key new {more}"))
    assert found is not None
    assert looks_like_key(found[0])
    return found[0]


def where(secret: str, folder: Path) -> list[str]:
    """Return the files that contain a secret."""
    return [file.name for file in folder.iterdir() if secret.encode() in file.read_bytes()]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_key_is_the_person_who_made_it(api: Api) -> None:
    """What a person uses by a key would be counted for no one."""
    await api.post("/chat/completions", CAT, status=401)
    key = await new_key(await page_of(api))
    await api.post("/chat/completions", CAT, headers=bearer(key))
    (job,) = await api.parts.queue.jobs.history("web:local", limit=10)
    assert job.owner == "web:local"


async def test_a_key_is_written_nowhere(tmp_path: Path) -> None:
    """Anyone who reads the database, a backup or the page's history could act as its person."""
    async with running(tmp_path, CLOSED) as api:
        page = await page_of(api)
        key = await new_key(page)
        await api.post("/chat/completions", CAT, headers=bearer(key))
        listed = await page.say("/key list")
        assert "#1" in listed
        assert key not in listed
    assert where(key, tmp_path) == []
    with closing(sqlite3.connect(tmp_path / "usher.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM api_keys").fetchone() == (1,)


async def test_a_revoked_key_ends_at_once(api: Api, page: Page) -> None:
    """A lost key would go on being valid."""
    key = await new_key(page)
    await api.post("/chat/completions", CAT, headers=bearer(key))
    assert "no longer works" in await page.say("/key revoke 1")
    await api.post("/chat/completions", CAT, headers=bearer(key), status=401)


async def test_a_key_expires_when_it_was_said_to(api: Api, page: Page, tmp_path: Path) -> None:
    """A key lent for a day would be valid for good."""
    for more in ("lap top 30d", "30D", "x --days 30", "y 2w", "q 30MIN", "r 6m"):
        await new_key(page, more)
    key = await new_key(page, "z 12h")
    await api.post("/chat/completions", CAT, headers=bearer(key))
    listed = await page.say("/key list")
    assert listed.count("expires") == 7
    assert "lap top ·" in listed
    with closing(sqlite3.connect(tmp_path / "usher.sqlite")) as database:
        lasts = "SELECT (expires_at - created_at) / 3600 FROM api_keys WHERE name = ?"
        named = {"lap top": 720, "": 720, "x": 720, "y": 336, "z": 12, "q": 0.5, "r": 0.1}
        for name, hours in named.items():
            assert round(database.execute(lasts, (name,)).fetchone()[0], 3) == hours
        database.execute("UPDATE api_keys SET expires_at = created_at WHERE name = 'z'")
        database.commit()
    answer = await api.post("/chat/completions", CAT, headers=bearer(key), status=401)
    assert "has expired" in answer["error"]["message"]
    await new_key(page)
    answer = await api.post("/chat/completions", CAT, headers=bearer(key), status=401)
    assert "unknown" in answer["error"]["message"]


MISREAD = [
    *("10s", "-1d", "+1d", "99999999d", "99999d", "9999w", "1.5h", "1,5h", ".5d", "0d", "0min"),
    *("00d", "1h30m", "P30D", "PT5M", "1mo", "1y", "2years", "1jahr", "3tage", "\u0663d"),
    *("30 days", "2 weeks", "1h 2h", "1d laptop", "30min x", "5 min 1h"),
]


@in_turn("time", MISREAD)
def test_a_time_that_cannot_be_read_is_no_name(time: str) -> None:
    """A key would last for good though its person asked for a day."""
    for words in (time, f"lap top {time}", time.upper()):
        with pytest.raises(Declined) as refused:
            _named(words)
        assert refused.value.refusal.kind is RefusalKind.KEY_LASTS


@pytest.mark.parametrize(
    "name", ["n8n", "gpt 4", "llama 7b", "2nd laptop", "3d-printer", "5", "a 4k"]
)
def test_a_number_in_a_name_is_no_time(name: str) -> None:
    """Ordinary names would be refused."""
    assert _named(name) == (name, None)


async def test_a_key_with_a_time_that_cannot_be_read_is_not_made(page: Page) -> None:
    """A key would be made all the same, and its person told nothing."""
    for command in ("/key new k 10s", "/key new --service k 1.5h", "/key new k 30d --days 5"):
        said = await page.say(command)
        assert "30min, 12h, 30d or 2w" in said, said
    assert "no keys" in await page.say("/key list")


async def test_a_service_has_limits_of_its_own(api: Api, page: Page) -> None:
    """A service would use up what its admin may ask for."""
    key = await new_key(page, "Night Watch --service")
    await api.post("/chat/completions", CAT, headers=bearer(key))
    assert await api.parts.queue.jobs.history("web:local", limit=10) == []
    (job,) = await api.parts.queue.jobs.history("service:night-watch", limit=10)
    assert job.owner == "service:night-watch"
    assert "service:night-watch" in await page.say("/limit service:night-watch")
    await page.say("/ban service:night-watch")
    answer = await api.post("/chat/completions", CAT, headers=bearer(key), status=403)
    assert answer["error"]["code"] == "banned"
    for path, status in {
        **dict.fromkeys(("/queue", "/hosts", "/webhooks"), 403),
        **dict.fromkeys(("/jobs", f"/jobs/{job.id}", "/files", "/models"), 200),
    }.items():
        async with api.session.get(f"{api.url}{path}", headers=bearer(key)) as found:
            assert found.status == status, path


async def test_forgetting_a_person_ends_their_keys(api: Api, page: Page) -> None:
    """`/forget me` would leave an access that no one remembers."""
    key = await new_key(page)
    await page.say("/forget me --sure")
    await api.post("/chat/completions", CAT, headers=bearer(key), status=401)


async def test_what_is_no_key_is_refused(api: Api) -> None:
    """A guessed key would let anyone in."""
    cases: list[str] = [
        "Bearer",
        "Bearer ush_short",
        "Bearer ush_" + "x" * 43,
        "Basic dXNoOnVzaA==",
        "ush_" + "x" * 43,
    ]
    for header in cases:
        headers = {"Authorization": header}
        answer = await api.post("/chat/completions", CAT, headers=headers, status=401)
        assert answer["error"]["code"] == "invalid_api_key", header
        assert "ush_" + "x" * 43 not in str(answer), header


async def test_guesses_are_limited_by_address(api: Api, page: Page) -> None:
    """Keys could be guessed by the thousand, or the owner of a valid key be locked out."""
    key, unused = await new_key(page), await new_key(page)
    await api.post("/chat/completions", CAT, headers=bearer(key))
    statuses: list[int] = []
    for number in range(60):
        headers = bearer(f"ush_{number:043d}")
        async with api.session.get(f"{api.url}/models", headers=headers) as answer:
            statuses.append(answer.status)
    assert statuses[0] == 401
    assert statuses[-1] == 429
    await api.post("/chat/completions", CAT, headers=bearer(unused))
    await api.post("/chat/completions", CAT, headers=bearer(key))


async def test_a_key_may_come_as_x_api_key(api: Api) -> None:
    """Continue sends its key this way."""
    key = await new_key(await page_of(api))
    headers = {"x-api-key": key}
    async with api.session.get(f"{api.url}/models", headers=headers) as answer:
        assert answer.status == 200


async def test_the_people_behind_a_service_are_people(api: Api, page: Page) -> None:
    """One person of a service would use up what all of them may ask for."""
    ada = {"X-OpenWebUI-User-Id": "ada-1", "X-OpenWebUI-User-Name": "Ada"}
    service = bearer(await new_key(page, "webui --people"))
    await api.post("/chat/completions", CAT, headers={**service, **ada})
    assert len(await api.parts.queue.jobs.history("service:webui/ada-1", limit=9)) == 1
    await page.say("/ban service:webui/ada-1")
    await api.post("/chat/completions", CAT, headers={**service, **ada}, status=403)
    odd = {"X-OpenWebUI-User-Id": "../x y"}
    await api.post("/chat/completions", CAT, headers={**service, **odd})
    assert len(await api.parts.queue.jobs.history("service:webui", limit=9)) == 1


async def test_the_people_behind_a_service_are_banned_with_it(tmp_path: Path) -> None:
    """A banned service would go on under any name it writes into a header."""
    ada, bob = ({"X-OpenWebUI-User-Id": name} for name in ("ada", "bob"))
    slow = CLOSED.replace("service_s: 0.1", "service_s: 60")
    async with running(tmp_path, slow) as api:
        page = await page_of(api)
        service = bearer(await new_key(page, "webui --people"))
        other = bearer(await new_key(page, "web --people"))
        job = {"model": "flux", "prompt": "cat"}
        await api.post("/jobs", job, headers={**service, **ada}, status=202)
        await api.post("/jobs", job, headers={**other, **ada}, status=202)
        await page.say("/ban service:webui/bob --hours 1")
        await page.say("/ban service:webui")
        await api.until(lambda jobs: not jobs, owner="service:webui/ada")
        assert len(await api.open_jobs("service:web/ada")) == 1
        await api.post("/jobs", job, headers={**service, **ada}, status=403)
        await page.say("/unban service:webui")
        await api.post("/jobs", job, headers={**service, **ada}, status=202)
        await api.post("/jobs", job, headers={**service, **bob}, status=403)


async def test_an_ordinary_key_stands_for_nobody_else(api: Api) -> None:
    """A caller could write a header and act as another person."""
    mine = bearer(await new_key(await page_of(api)))
    await api.post("/chat/completions", CAT, headers={**mine, "X-OpenWebUI-User-Id": "bob"})
    assert len(await api.parts.queue.jobs.history("web:local", limit=9)) == 1


async def test_open_webui_shows_the_place_in_line(api: Api) -> None:
    """Open WebUI's people would look at an empty answer."""
    key = await new_key(await page_of(api), "--style openwebui")
    api.session.headers.update(bearer(key))
    events, comments = await api.stream("/chat/completions", CAT)
    assert comments == []
    statuses = [event["event"] for event in events if event != "[DONE]" and "event" in event]
    assert {status["type"] for status in statuses} == {"status"}
    assert statuses[0]["data"]["description"]
    assert [status["data"]["done"] for status in statuses][-1]
    assert not statuses[0]["data"]["done"]
