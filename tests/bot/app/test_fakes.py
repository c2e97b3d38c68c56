"""The fakes answer as the services do, also to libraries that the bot does not use."""

import json
from typing import Any

import aiohttp
import pytest

from tests.bot.platforms.discord.discord_bot import RecordingHandler, running
from tests.bot.platforms.telegram.telegram_bot import image
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram.telegram import FakeTelegram


async def ask(fake: FakeTelegram, method: str, **body: Any) -> Any:
    """Call a method with a body of JSON, as most libraries do."""
    url = f"{fake.base_url}{fake.token}/{method}"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return await answer.json()


async def test_telegrams_methods_take_json() -> None:
    """Libraries that do not send forms could not be tried."""
    async with FakeTelegram() as fake:
        person = fake.person(7)
        keyboard = {"inline_keyboard": [[{"text": "Cancel", "callback_data": "x"}]]}
        sent = await ask(fake, "sendMessage", chat_id=7, text="hello", reply_markup=keyboard)
        assert sent["ok"]
        [message] = person.chat.messages
        assert (message.text, message.buttons[0].label) == ("hello", "Cancel")


async def test_telegrams_files_may_be_attached_under_any_name() -> None:
    """Only uploads in a field with the parameter's own name would be accepted."""
    async with FakeTelegram() as fake:
        person = fake.person(7)
        form = aiohttp.FormData({"chat_id": "7", "photo": "attach://one"})
        form.add_field("one", image().data, filename="cat.png", content_type="image/png")
        url = f"{fake.base_url}{fake.token}/sendPhoto"
        async with aiohttp.ClientSession() as session, session.post(url, data=form) as answer:
            assert (await answer.json())["ok"]
        assert person.chat.messages[0].file is not None


async def test_telegram_remembers_which_updates_were_asked_for() -> None:
    """A poll that does not repeat the list would get nothing forever."""
    async with FakeTelegram() as fake:
        fake.person(7).says("hello")
        by_default = await ask(fake, "getUpdates")
        assert [*by_default["result"][0]] == ["update_id", "message"]
        assert (await ask(fake, "getUpdates", allowed_updates=["callback_query"]))["result"] == []
        assert (await ask(fake, "getUpdates"))["result"] == []
        assert len((await ask(fake, "getUpdates", allowed_updates=[]))["result"]) == 1


async def test_telegrams_webhook_can_be_deleted() -> None:
    """Libraries that poll delete the webhook first."""
    async with FakeTelegram() as fake:
        fake.api.webhook = "https://example.org"
        assert not (await ask(fake, "getUpdates"))["ok"]
        assert (await ask(fake, "deleteWebhook"))["ok"]
        assert (await ask(fake, "getUpdates"))["ok"]


async def test_discord_tells_how_many_connections_to_open() -> None:
    """Libraries that use shards ask before they connect."""
    async with FakeDiscord() as fake:
        fake.rest.shards = 3
        url = f"{fake.url}/api/v10/gateway/bot"
        headers = {"Authorization": f"Bot {fake.token}"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            told = await answer.json(content_type=None)
        assert told["shards"] == 3
        assert told["url"].startswith("ws://")


def button(label: str = "Cancel", custom_id: str = "cancel:7") -> dict[str, Any]:
    return {"type": 2, "style": 2, "label": label, "custom_id": custom_id}


@pytest.mark.parametrize(
    "rows",
    [
        [[button("x" * 81)]],
        [[button(custom_id="x" * 101)]],
        [[button(), button()]],
        [[button(custom_id=f"{n}") for n in range(6)]],
        [[button(custom_id=f"{n}")] for n in range(6)],
    ],
    ids=["long label", "long id", "the same id twice", "six in a row", "six rows"],
)
async def test_discord_refuses_buttons_it_does_not_take(rows: list[list[dict[str, Any]]]) -> None:
    """The bot could send buttons that only the fake accepts."""
    async with FakeDiscord(check_specs=False) as fake:
        url = f"{fake.url}/api/v10/channels/100/messages"
        body = {"content": "hello", "components": [{"type": 1, "components": row} for row in rows]}
        headers = {"Authorization": f"Bot {fake.token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, headers=headers, json=body) as answer,
        ):
            assert answer.status == 400
            assert json.loads(await answer.text())["code"] == 50035
        assert fake.channel().messages == []


async def test_discord_lets_no_command_be_answered_as_a_press() -> None:
    """A call would seem to be answered, but no one would see anything."""
    async with FakeDiscord(check_specs=False) as fake, running(fake, RecordingHandler()):
        sent = await fake.person(7).slash("queue")
        url = f"{fake.url}/api/v10/interactions/{sent.id}/{sent.token}/callback"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={"type": 6}) as answer,
        ):
            assert answer.status == 400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<b>bold", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<b>bold</i>", 'Unmatched end tag, expected "</b>", found "</i>" at byte offset 7'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("é<div>x</div>", 'Unsupported start tag "div" at byte offset 2'),
        ("bold</b>", "Unexpected end tag at byte offset 4"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("a<b", "Unclosed start tag at byte offset 1"),
        ("<b>a</b", "Unclosed end tag at byte offset 4"),
    ],
)
async def test_telegram_refuses_broken_html(text: str, says: str) -> None:
    """A message that the real service refuses would count as sent."""
    async with FakeTelegram() as fake:
        fake.person(7)
        refused = await ask(fake, "sendMessage", chat_id=7, text=text, parse_mode="HTML")
        assert (refused["ok"], refused["error_code"]) == (False, 400)
        assert refused["description"] == f"Bad Request: can't parse entities: {says}"
        plain = await ask(fake, "sendMessage", chat_id=7, text=text)
        assert plain["result"]["text"] == text
        other = await ask(fake, "sendMessage", chat_id=7, text=text, parse_mode="BBCode")
        assert other["description"] == "Bad Request: unsupported parse_mode"


async def test_telegram_reads_html_into_entities() -> None:
    """The fake would show tags where the real service shows bold words."""
    async with FakeTelegram() as fake:
        person = fake.person(7)
        text = '🎨 <b>a <i>b</i></b> &lt;c&gt; &copy; <a href="https://x.org/?a=1&amp;b=2">d</a>'
        await ask(fake, "sendMessage", chat_id=7, text=text, parse_mode="html")
        [message] = person.chat.messages
        assert message.text == "🎨 a b <c> &copy; d"
        link = {"type": "text_link", "offset": 18, "length": 1, "url": "https://x.org/?a=1&b=2"}
        assert message.entities == [
            {"type": "bold", "offset": 3, "length": 3},
            {"type": "italic", "offset": 5, "length": 1},
            link,
        ]
