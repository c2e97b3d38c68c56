"""A Telegram on loopback: the Bot API for real python-telegram-bot, and people who use the bot.

    async with FakeTelegram() as fake:
        fake.person(7).says("/image flux cat")
        await fake.wait_for(lambda: fake.person(7).chat.from_bot)
        assert fake.person(7).chat.from_bot[0].shown == "…"

Leaving the block fails when a request or an answer did not fit the Bot API as data.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from tests.fakes.ports import port_of
from tests.fakes.telegram import telegram_json as shapes
from tests.fakes.telegram.telegram_api import Api
from tests.fakes.telegram.telegram_state import (
    BOT_ID,
    Counters,
    FakeChat,
    FakeFile,
    FakeMessage,
    FakePress,
    Fault,
    Json,
    Limits,
    transcript,
    typed_entities,
)

TOKEN = "700700700:fake-token-that-must-never-be-logged"

T = TypeVar("T")


class FakeTelegram:
    """One Telegram with one bot.

    `limits` enforces Telegram's limits and counts refusals in `limits.refused`. `later(s)` lets
    time pass for Telegram only.
    """

    def __init__(self, *, limits: Limits | None = None, token: str = TOKEN) -> None:
        self.token = token
        self.url = ""
        self.limits = limits
        self._offset_s = 0.0
        self.counters = Counters()
        self.api = Api(
            token=token,
            now=self.now,
            counters=self.counters,
            limits=limits,
            on_change=self._notify,
        )
        self._people: dict[int, Person] = {}
        self._changed = asyncio.Event()

    @property
    def base_url(self) -> str:
        """The Bot API's address as given to the bot."""
        return f"{self.url}/bot"

    @property
    def base_file_url(self) -> str:
        return f"{self.url}/file/bot"

    # ------------------------------------------------------------ what is there

    def now(self) -> float:
        return time.time() + self._offset_s

    def later(self, seconds: float) -> None:
        """Let this much time pass on Telegram's side."""
        self._offset_s += seconds

    def person(self, person_id: int, name: str = "", *, language: str | None = "en") -> "Person":
        """Return the person with that id, created at first use, and a private chat with the bot."""
        if person_id not in self._people:
            made = Person(self, person_id, name or f"Person{person_id}", language)
            self._people[person_id] = made
            self.api.chats[person_id] = FakeChat(id=person_id, kind="private", title=made.name)
        return self._people[person_id]

    def group(self, chat_id: int = -1001, *, forum: bool = False, kind: str = "") -> FakeChat:
        """Return the group with that id (negative), created at first use."""
        if chat_id not in self.api.chats:
            kind = kind or ("supergroup" if forum or chat_id < -1000 else "group")
            self.api.chats[chat_id] = FakeChat(id=chat_id, kind=kind, title="Group", forum=forum)
        return self.api.chats[chat_id]

    def message(self, chat: int | str, message_id: int | str) -> FakeMessage | None:
        """Return a message, or None if it is gone."""
        return self.api.chats[int(str(chat).partition("/")[0])].find(int(message_id))

    def keep_file(self, data: bytes, *, name: str, mime: str, photo: bool) -> FakeFile:
        file = FakeFile(id=self.counters.name("file"), name=name, data=data, mime=mime, photo=photo)
        self.api.files[file.id] = file
        return file

    # ------------------------------------------------------------ what goes wrong

    def fail(self, method: str, **how: Any) -> None:
        """Answer the next calls of a method with a fault.

        `how` is `Fault`'s fields: status, text, parameters, times, acting, drop, hang_s, page.
        """
        self.api.faults.append(Fault(method=method, **how))

    def kick(self, chat: FakeChat) -> None:
        """Remove the bot from a group."""
        chat.refusal = (403, "Forbidden: bot was kicked from the supergroup chat", {})

    def mute(self, chat: FakeChat, who: str) -> None:
        """Take the right to write from the bot or everyone, or give it back; only one is told."""
        before, chat.muted = shapes.own_membership(chat), who
        after = shapes.own_membership(chat)
        if before != after:
            change = {
                "chat": shapes.chat(chat),
                "from": shapes.user(1, "Admin", None),
                "date": int(self.now()),
                "old_chat_member": before,
                "new_chat_member": after,
            }
            self.api.add_update("my_chat_member", change)

    def migrate(self, chat: FakeChat, new_id: int) -> FakeChat:
        """Turn a group into a supergroup, which begins without its messages."""
        text = "Bad Request: group chat was upgraded to a supergroup chat"
        chat.refusal = (400, text, {"migrate_to_chat_id": new_id})
        return self.group(new_id, kind="supergroup")

    # ------------------------------------------------------------ waiting

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(self, condition: Callable[[], T], *, timeout_s: float = 240.0) -> T:
        """Return the first true value of a condition; fails with all chats' texts."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (value := condition()):
                    await self._changed.wait()
                return value
        except TimeoutError:
            shown = transcript(self.api.chats.values())
            raise AssertionError(f"nothing of that kind happened:\n{shown}") from None

    async def quiet(self) -> None:
        """Wait until the bot has confirmed every update."""
        await self.wait_for(lambda: not self.api.updates)

    async def polled(self) -> None:
        """Wait until the bot has asked for updates."""
        await self.wait_for(lambda: self.api.polls)

    # ------------------------------------------------------------ up and down

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**27)
        app.router.add_route("*", "/bot{token}/{method}", self.api.handle)
        app.router.add_get("/file/bot{token}/files/{id}", self._serve_file)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port_of(self))
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        if error is None and self.api.mismatches:
            raise AssertionError("\n".join(self.api.mismatches))

    async def _serve_file(self, request: web.Request) -> web.Response:
        file = self.api.files.get(request.match_info["id"])
        if file is None or request.match_info["token"] != self.token:
            return web.Response(status=404)
        if file.until is not None:
            await file.until.wait()
        return web.Response(body=file.data)


@dataclass(eq=False)
class Person:
    """A person with an account; `chat` is the chat with only the bot."""

    fake: FakeTelegram
    id: int
    name: str
    language: str | None

    @property
    def chat(self) -> FakeChat:
        return self.fake.api.chats[self.id]

    def says(
        self,
        text: str,
        *,
        chat: FakeChat | None = None,
        photo: bytes | FakeFile | None = None,
        document: FakeFile | None = None,
        reply_to: FakeMessage | None = None,
        thread: int | None = None,
        anonymous: bool = False,
        carries: Json | None = None,
        album: str | None = None,
    ) -> FakeMessage:
        """Write a message; with a file, the text is its caption.

        `carries` is its further content in the Bot API's own words: a voice message, a poll.
        """
        where = chat or self.chat
        if isinstance(photo, bytes):
            photo = self.fake.keep_file(photo, name="p.jpg", mime="image/jpeg", photo=True)
        message = FakeMessage(
            id=next(self.fake.counters.messages),
            chat_id=where.id,
            sender=self.id,
            date=int(self.fake.now()),
            text=text,
            entities=typed_entities(text),
            thread=thread,
            file=photo or document,
            reply_to=reply_to.id if reply_to else None,
            anonymous=anonymous,
            carries=carries or {},
            album=album,
        )
        where.messages.append(message)
        self.fake.api.add_update("message", self._shape(message, where, reply_to))
        return message

    def repeats(self, message: FakeMessage) -> None:
        """Let Telegram deliver a message again, as after a lost confirmation."""
        where = self.fake.api.chats[message.chat_id]
        self.fake.api.add_update("message", self._shape(message, where, None))

    def edits(self, message: FakeMessage, text: str) -> None:
        """Correct the person's own message."""
        message.text, message.entities = text, typed_entities(text)
        where = self.fake.api.chats[message.chat_id]
        shaped = self._shape(message, where, None) | {"edit_date": int(self.fake.now())}
        self.fake.api.add_update("edited_message", shaped)

    def presses(self, message: FakeMessage, label: str, *, unreadable: bool = False) -> FakePress:
        """Press the button of that label on a message of the bot's."""
        button = next((each for each in message.buttons if each.label == label), None)
        if button is None:
            raise AssertionError(f"no button {label!r} among {message.buttons}")
        return self.sends_data(message, button.data, unreadable=unreadable)

    def sends_data(self, message: FakeMessage, data: str, *, unreadable: bool = False) -> FakePress:
        """Press a button by its data, also one that a message no longer shows.

        `unreadable`: the message is so old that Telegram only says where it was.
        """
        press = FakePress(
            id=self.fake.counters.name("press"), person_id=self.id, at=self.fake.now()
        )
        self.fake.api.presses[press.id] = press
        within = self.fake.api.chats[message.chat_id]
        shaped = self.fake.api.shape(message)
        if unreadable:
            shaped = {"chat": shapes.chat(within), "message_id": message.id, "date": 0}
        query = {
            "id": press.id,
            "from": self._user(),
            "message": shaped,
            "chat_instance": str(within.id),
            "data": data,
        }
        self.fake.api.add_update("callback_query", query)
        return press

    def _user(self) -> Json:
        return shapes.user(self.id, self.name, self.language)

    def _shape(self, message: FakeMessage, where: FakeChat, reply: FakeMessage | None) -> Json:
        shown = None
        if reply is not None:
            author = self.fake.api.shape(reply) if reply.sender == BOT_ID else None
            shown = author or shapes.message(reply, where, self.fake.person(reply.sender)._user())
        return shapes.message(message, where, self._user(), reply=shown)
