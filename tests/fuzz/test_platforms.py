"""What chat platforms and browsers pass on from strangers: updates, forms, requests."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from telegram import Bot, Update, User
from telegram.error import TelegramError
from yarl import URL

from bot.core.arrivals import Arrival, Arrivals
from bot.core.content import Content
from bot.core.platform import MessageRef
from bot.platforms.discord.components import forms as discord_forms
from bot.platforms.telegram.calls import CallReader
from bot.platforms.telegram.updates import Updates, UpdatesRequest
from queueing.core.concurrency import TaskGroup
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fuzz.hostile_input import NASTY, bounded, spoiled, texts, values

# ---------------------------------------------------------------- Telegram's updates

PERSON = {"id": 7, "is_bot": False, "first_name": "Ada", "language_code": "de"}
GROUP = {"id": -1001, "type": "supergroup", "title": "Cats", "is_forum": True}
MESSAGE: dict[str, Any] = {
    "message_id": 5,
    "date": 1_700_000_000,
    "chat": GROUP,
    "from": PERSON,
    "message_thread_id": 3,
    "is_topic_message": True,
    "text": "/image@usher_bot flux a cat",
    "entities": [{"type": "bot_command", "offset": 0, "length": 16}],
}
IMAGE = {
    **{key: MESSAGE[key] for key in ("message_id", "date", "from")},
    "chat": {"id": 7, "type": "private", "first_name": "Ada"},
    "caption": "what is it?",
    "photo": [{"file_id": "x", "file_unique_id": "y", "width": 9, "height": 9, "file_size": 9}],
    "reply_to_message": {**MESSAGE, "document": {"file_id": "x", "file_unique_id": "y"}},
    "quote": {"text": "cat", "position": 0},
}
UPDATES: list[dict[str, Any]] = [
    {"update_id": 1, "message": MESSAGE},
    {"update_id": 2, "message": IMAGE},
    {
        "update_id": 3,
        "callback_query": {
            "id": "9",
            "from": PERSON,
            "chat_instance": "1",
            "message": MESSAGE,
            "data": "cancel:7",
        },
    },
    {"update_id": 4, "message": {**MESSAGE, "sender_chat": GROUP}},
]


async def _post(_chat: str, _content: Content, _reply: MessageRef | None) -> MessageRef:
    raise AssertionError


def _reception() -> CallReader:
    bot = Bot("1:x")
    bot._bot_user = User(id=1, first_name="Usher", is_bot=True, username="usher_bot")
    return CallReader(platform="telegram", bot=bot, known={"image": "image"}, post=_post)


RECEPTION = _reception()


class _Bot:
    """Answers one call for updates as the library reads it."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    async def get_updates(self, **_: Any) -> Sequence[Update]:
        result = UpdatesRequest.parse_json_payload(self._payload).get("result")
        return Update.de_list(result, None) if isinstance(result, list) else ()


async def _callers(payload: bytes) -> list[str]:
    """Return who calls, as the platform reads an answer of the Bot API."""
    found: list[str] = []

    arrivals = Arrivals()

    def arrived(update: Update) -> Arrival:
        return arrivals.take(*RECEPTION.whose(update))

    async def serve(updates: Sequence[Update], _arrival: Arrival) -> None:
        call = RECEPTION.call_of(updates)
        made = call.invocation() if call is not None else None
        if made is not None:
            found.append(made.user)

    async with TaskGroup() as tasks:
        with suppress(TelegramError):
            await Updates(cast("Bot", _Bot(payload)), arrived, serve, tasks)._look()
    return found


@bounded
@given(st.sampled_from(UPDATES).flatmap(spoiled) | values)
@example({})
@example({"update_id": None, "message": 1})
@example({"update_id": 1, "message": {**MESSAGE, "chat": {**GROUP, "id": []}}})
@example({"update_id": 1, "message": {**MESSAGE, "chat": None}})
@example({"update_id": 1, "message": {**MESSAGE, "from": None}})
@example({"update_id": 1, "callback_query": {"id": "9", "chat_instance": "1", "message": MESSAGE}})
@example(7)
def test_updates_of_telegram(update: Any) -> None:
    """One odd update would stop the whole platform, and come again forever."""
    good = {"update_id": 99, "message": {**MESSAGE, "chat": {**GROUP, "id": -1002}}}
    payload = json.dumps({"ok": True, "result": [update, good]})
    users = asyncio.run(_callers(payload.encode("utf-8", "surrogatepass")))
    assert "telegram:7" in users  # the good one beside it is served


@bounded
@given(values.map(json.dumps) | texts)
def test_answers_that_are_not_of_telegram(payload: str) -> None:
    """A proxy's answer would stop the platform."""
    asyncio.run(_callers(payload.encode("utf-8", "surrogatepass")))


# ---------------------------------------------------------------- forms on Discord

FORM: dict[str, Any] = {
    "custom_id": "form:edit:7",
    "components": [
        {"type": 18, "component": {"type": 4, "custom_id": "prompt", "value": "a cat"}},
        {"type": 1, "components": [{"type": 4, "custom_id": "negative", "value": ""}]},
    ],
}


@bounded
@given(spoiled(FORM))
@example({"custom_id": "form:edit:7", "components": [{"component": {}}]})
@example({"custom_id": "form:edit:7", "components": [{"component": {"value": "x"}}, 7]})
def test_forms_of_discord(data: Any) -> None:
    """A form of another shape would silently be lost, or add other values."""
    if not isinstance(data, dict):
        return
    found = discord_forms.filled_in(data)
    if found is None:
        return
    command, given_values = found
    assert command.isascii()
    assert all(isinstance(value, str | int) for value in given_values.values())


# ---------------------------------------------------------------- requests

HEADERS = (
    "Host",
    "Origin",
    "Cookie",
    "X-File-Name",
    "X-Forwarded-Proto",
    "Accept-Language",
    "If-None-Match",
    "Content-Type",
    "Content-Encoding",
    "Range",
    "Upgrade",
    "Sec-WebSocket-Key",
)
words = texts.map(lambda text: text.encode("utf-8", "replace").translate(None, b"\r\n\0"))
heads = st.dictionaries(st.sampled_from(HEADERS), words, max_size=4)
paths = st.sampled_from(
    [b"/", b"/socket", b"/upload", b"/files/x", b"/static/app.js", b"/?token="]
) | words.map(lambda word: b"/" + word.replace(b" ", b"%20"))
asked = st.tuples(st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"TRACE"]), paths, heads)


async def test_any_request_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Some request would be a bug: a traceback that a stranger can cause at any time."""
    async with running(web_chat(port=0), ScriptedHandler()) as web:
        port = int(URL(web.url).port or 0)
        loop = asyncio.get_running_loop()

        @bounded
        @given(st.lists(asked, max_size=3))
        @example([(b"GET", b"/", {"Cookie": b"usher=" + b"\xff"})])
        @example([(b"POST", b"/upload", {"X-File-Name": NASTY[2].encode("utf-8", "replace")})])
        def ask(requests: list[tuple[bytes, bytes, dict[str, bytes]]]) -> None:
            for method, path, given_heads in requests:
                sending = _status(port, method, path, given_heads)
                status = asyncio.run_coroutine_threadsafe(sending, loop).result(30)
                assert status is None or status < 500

        await asyncio.to_thread(ask)
    assert not [record for record in caplog.records if record.exc_info]


async def _status(port: int, method: bytes, path: bytes, heads: dict[str, bytes]) -> int | None:
    """Return the status of the answer, or None where the connection is just closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ours = {"Host": f"127.0.0.1:{port}".encode(), "Origin": f"http://127.0.0.1:{port}".encode()}
    lines = [b"%s: %s" % (name.encode(), value) for name, value in (ours | heads).items()]
    body = b"Content-Length: 1\r\n\r\nx" if method == b"POST" else b"\r\n"
    try:
        writer.write(b"\r\n".join([b"%s %s HTTP/1.1" % (method, path), *lines, body]))
        answer = await asyncio.wait_for(reader.readline(), 60)
        return int(answer.split()[1]) if answer else None
    except ConnectionError:
        return None
    finally:
        writer.close()
