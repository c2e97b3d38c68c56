"""What the contract suite of `bot.core.platform.ChatPlatform` needs from each chat.

A stage is a chat service with a bot account, on which platforms come and go as in restarts. A new
platform brings its own stage and a line in `STAGES`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import uuid4

from aiohttp import WSServerHandshakeError
from PIL import Image

from bot.core.content import Body, Button, Content, Moment
from bot.core.errors import (
    ChatError,
    ChatGone,
    ChatUnavailable,
    ContentRefused,
    MessageGone,
    SlowDown,
    TooLarge,
)
from bot.core.platform import ALONE, ChatLease, ChatPlatform, CommandHandler, Invocation, MessageRef
from bot.platforms.discord.platform import Discord
from bot.platforms.web.chat.chat_log import Entry, MomentPart, TextPart
from bot.platforms.web.platform import Web
from queueing.core.errors import StoreError
from queueing.core.requests import File
from tests.bot.platforms.telegram.telegram_bot import telegram
from tests.bot.platforms.web.web_client import Tab, opened, uploaded
from tests.bot.results import attachment
from tests.fakes.chat import FakeChat
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_people import Person
from tests.fakes.discord.discord_state import APPLICATION_ID, Channel, FakeFile
from tests.fakes.memory_log import MemoryLog
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_json import document as document_shape

if TYPE_CHECKING:
    from tests.fakes.telegram.telegram_state import FakeChat as FakeGroup
    from tests.fakes.telegram.telegram_state import FakeMessage

RETRY_AFTER_S = 7.0


class FakeLease(ChatLease):
    """A process's role, as its chat asks for it."""

    def __init__(self) -> None:
        self.mine = True
        self._asked = 0
        self._look = asyncio.Event()

    @property
    def held(self) -> bool:
        self._asked += 1
        self._look.set()
        return self.mine

    async def asked(self, times: int = 1) -> None:
        """Wait until the chat has asked this many times more."""
        enough = self._asked + times
        async with asyncio.timeout(60):
            while self._asked < enough:
                self._look.clear()
                await self._look.wait()


class Stage(Protocol):
    """A chat service that tests can look into."""

    slow: ClassVar[Sequence[str]]
    """What a line may have to wait for there before it can be accepted."""

    @classmethod
    def opened(cls) -> AbstractAsyncContextManager["Stage"]:
        """Open the service until the block ends."""

    @property
    def chat(self) -> str:
        """A chat with one person, to whom the bot may write."""

    @property
    def group(self) -> str | None:
        """A chat of several people, or None if there is none."""

    @property
    def stranger(self) -> str | None:
        """A chat the bot may not write to, or None if there is none."""

    @property
    def finds_again(self) -> bool:
        """Whether a repeated send with its nonce makes no second message."""

    def platform(self, lease: ChatLease = ALONE) -> ChatPlatform:
        """Return a platform as after a restart: with the same account, and nothing else."""

    @property
    def listened(self) -> int:
        """How often a platform began to listen to the service."""

    async def listening(self) -> None:
        """Wait until the platform waits for calls after those it has handed over."""
        return

    async def cut(self) -> bool:
        """Break the connection on which the platform receives; False if it opens none itself."""
        return False

    @property
    def tells_again(self) -> bool:
        """Whether the service repeats a call that no process accepted."""
        return False

    async def ready(self) -> None:
        """Wait until calls reach the platform that runs."""

    async def reads(self, ref: MessageRef) -> str | None:
        """Return the text a person reads in a message; None if it is gone."""

    async def tells_day(self, ref: MessageRef, at: float) -> bool:
        """Return whether a message shows a time together with its day."""

    async def files(self, ref: MessageRef) -> int:
        """Return how many files a message shows."""

    async def count(self) -> int:
        """Return how many messages of the bot the chat shows."""

    def fail(self, error: type[ChatError], method: str) -> bool:
        """Let the next "send" or "edit" fail in this way; False where this never happens."""

    async def says(self, words: str) -> None:
        """Let a person write this."""

    @property
    def alone(self) -> bool:
        """Whether no one else is there, and one person's messages come one after the other."""

    async def says_slowly(self, words: str, what: str, done: asyncio.Event) -> None:
        """Let a person write this with an image; it has to wait until `what` is done."""

    async def sends(self, words: str, name: str, mime: str, data: bytes) -> None:
        """Let a person write this with a file, as people do there."""

    async def other_says(self, words: str) -> None:
        """Let another person write this in the same chat."""

    async def repeats(self) -> bool:
        """Deliver the last message again; False if the service never does."""

    async def presses(self, ref: MessageRef, label: str, button: Button) -> None:
        """Let a person press a button."""


class OnFake(Stage):
    """The chat that tests use; calls are made by the test itself."""

    chat, group, stranger, finds_again = "1", "g1", None, False
    listened, slow, alone = 0, ("download",), False

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[Stage]:
        yield cls()

    def __init__(self) -> None:
        self._chat = FakeChat()
        self._said: Invocation | None = None
        self._calls: list[asyncio.Future[None]] = []

    def platform(self, lease: ChatLease = ALONE) -> ChatPlatform:
        self._chat.handler, self._chat.lease = None, lease
        return self._chat

    async def ready(self) -> None:
        while self._chat.handler is None:  # noqa: ASYNC110  a platform does not signal that it runs
            await asyncio.sleep(0)

    async def reads(self, ref: MessageRef) -> str | None:
        message = self._chat.messages.get(ref.message)
        return None if message is None else message.text

    async def tells_day(self, ref: MessageRef, at: float) -> bool:
        moments = self._chat.messages[ref.message].contents[-1].body
        return any(isinstance(part, Moment) and part.at == at for part in moments)

    async def files(self, ref: MessageRef) -> int:
        return len(self._chat.messages[ref.message].contents[-1].files)

    async def count(self) -> int:
        return len(self._chat.messages)

    def fail(self, error: type[ChatError], method: str) -> bool:
        self._chat.failures.append(
            SlowDown(RETRY_AFTER_S)
            if error is SlowDown
            else ChatUnavailable("cut", unclear=method == "send")
            if error is ChatUnavailable
            else error("scripted")
        )
        return True

    async def says(self, words: str) -> None:
        self._said = self._chat.call(words)
        self._begin(self._said)

    async def says_slowly(self, words: str, what: str, done: asyncio.Event) -> None:
        async def read() -> bytes:
            await done.wait()
            return image().data

        file = replace(attachment(b"", "cat.png", "image/png"), read=read)
        self._begin(self._chat.call(words, files=(file,)))

    async def sends(self, words: str, name: str, mime: str, data: bytes) -> None:
        self._begin(self._chat.call(words, files=(attachment(data, name, mime),)))

    async def other_says(self, words: str) -> None:
        self._begin(self._chat.call(words, user="fake:2"))

    def _begin(self, call: Invocation) -> None:
        assert self._chat.handler is not None
        self._calls.append(asyncio.ensure_future(self._chat.says(call)))

    async def repeats(self) -> bool:
        assert self._said is not None
        assert self._chat.handler is not None
        await self._chat.handler.call(self._said)
        return True

    async def presses(self, ref: MessageRef, label: str, button: Button) -> None:
        call = self._chat.call(
            f"/{button.command}", button=True, replied_to=ref, options={"id": button.job_id}
        )
        assert self._chat.handler is not None
        await self._chat.handler.call(call)


class OnDiscord(Stage):
    """Discord's fake; calls are slash commands."""

    chat, group, stranger, finds_again = "@0", "100", "999", True
    slow, alone = ("download", "option", "lookup"), False
    _ANSWERS: Mapping[type[ChatError], Mapping[str, Any]] = {
        SlowDown: {"status": 429, "retry_after": RETRY_AFTER_S},
        MessageGone: {"status": 404, "code": 10008},
        ChatGone: {"status": 403, "code": 50001},
        ContentRefused: {"status": 400, "code": 50035},
        TooLarge: {"status": 413, "code": 40005},
        ChatUnavailable: {"drop": True},
    }

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[Stage]:
        async with FakeDiscord() as fake:
            yield cls(fake)

    def __init__(self, fake: FakeDiscord) -> None:
        self._fake = fake
        self._person = fake.person(7)
        self.chat = f"@{self._person.direct.id}"
        self._unknown = fake.add_channel(300, told=False)  # that the bot has to look up
        self._where: Channel | None = None

    def platform(self, lease: ChatLease = ALONE) -> ChatPlatform:
        return Discord(self._fake.token, lease=lease)

    @property
    def listened(self) -> int:
        return len(self._fake.gateway.identified) + self._fake.gateway.resumed

    async def cut(self) -> bool:
        await self._fake.gateway.disconnect()
        return True

    async def ready(self) -> None:
        await self._fake.connected()

    async def reads(self, ref: MessageRef) -> str | None:
        message = self._fake.message(ref.message)
        return None if message is None else message.shown

    async def tells_day(self, ref: MessageRef, at: float) -> bool:
        shown = await self.reads(ref) or ""
        return f"<t:{int(at)}:f>" in shown or f"<t:{int(at)}:R>" in shown

    async def files(self, ref: MessageRef) -> int:
        message = self._fake.message(ref.message)
        assert message is not None
        return len(message.files)

    async def count(self) -> int:
        return len(self._person.direct.messages)

    def fail(self, error: type[ChatError], method: str) -> bool:
        verb, path = {"send": ("POST", "/messages"), "edit": ("PATCH", "/messages/*")}[method]
        self._fake.fail(verb, f"/channels/*{path}", **self._ANSWERS[error])
        return True

    async def says(self, words: str) -> None:
        await self._slash(self._person, words)

    async def _slash(self, person: Person, words: str, **options: Any) -> None:
        command, _, prompt = words.removeprefix("/").partition(" ")
        given = {"prompt": prompt} | options if prompt else options
        await person.slash(command, in_channel=self._where, **given)

    async def says_slowly(self, words: str, what: str, done: asyncio.Event) -> None:
        file = FakeFile(
            id=self._fake.ids.new(), name="cat.png", data=image().data, mime="image/png"
        )
        self._fake.keep_file(file)
        if what == "lookup":
            self._where = self._unknown
            self._fake.fail("GET", f"/channels/{self._unknown.id}", until=done)
        else:
            file.until = done
        if what == "option":
            await self._slash(self._person, words, image=file)
        else:
            mention = f"<@{APPLICATION_ID}> {words}"
            await self._person.says(mention, file, in_channel=self._where)

    async def sends(self, words: str, name: str, mime: str, data: bytes) -> None:
        file = FakeFile(id=self._fake.ids.new(), name=name, data=data, mime=mime)
        self._fake.keep_file(file)
        said = f"<@{APPLICATION_ID}> {words.removeprefix('/ask ')}"
        await self._person.says(said, file, in_channel=self._where)

    async def other_says(self, words: str) -> None:
        await self._slash(self._fake.person(8), words)

    async def repeats(self) -> bool:
        return False  # what no process listens to is lost, what was taken never comes again

    async def presses(self, ref: MessageRef, label: str, button: Button) -> None:
        message = self._fake.message(ref.message)
        assert message is not None
        await self._person.click(message, label)


class OnTelegram(Stage):
    """Telegram's fake; calls are messages."""

    chat, group, stranger, finds_again = "7", "-1001", "999", False
    tells_again = True
    slow, alone = ("download", "album"), False
    _ANSWERS: Mapping[type[ChatError], Mapping[str, Any]] = {
        SlowDown: {
            "status": 429,
            "text": "Too Many Requests: retry after 7",
            "parameters": {"retry_after": int(RETRY_AFTER_S)},
        },
        MessageGone: {"status": 400, "text": "Bad Request: message to edit not found"},
        ChatGone: {"status": 403, "text": "Forbidden: bot was blocked by the user"},
        ContentRefused: {"status": 400, "text": "Bad Request: it does not please us"},
        TooLarge: {"status": 413, "text": "Request Entity Too Large"},
        ChatUnavailable: {"drop": True},
    }

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[Stage]:
        async with FakeTelegram() as fake:
            yield cls(fake)

    def __init__(self, fake: FakeTelegram) -> None:
        self._fake = fake
        self._person = fake.person(7)
        self._said: FakeMessage | None = None
        fake.group(int(self.group))
        self._where: FakeGroup | None = None

    def platform(self, lease: ChatLease = ALONE) -> ChatPlatform:
        self._polls = self._fake.api.polls
        return telegram(self._fake, lease=lease)

    @property
    def listened(self) -> int:
        return self._fake.api.polls

    async def listening(self) -> None:
        await self._fake.wait_for(lambda: not self._fake.api.updates)

    async def cut(self) -> bool:
        self._person.says("/status")  # so that the long poll ends
        return True

    async def ready(self) -> None:
        await self._fake.wait_for(lambda: self._fake.api.polls > self._polls)

    async def reads(self, ref: MessageRef) -> str | None:
        message = self._fake.message(int(ref.chat), ref.message)
        return None if message is None else message.shown

    async def tells_day(self, ref: MessageRef, at: float) -> bool:
        message = self._fake.message(int(ref.chat), ref.message)
        assert message is not None
        day = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"  # for programs that know no moments
        forms = [each.get("date_time_format", "") for each in message.entities]
        return day in message.shown and any(set(form) & {"r", "d", "D"} for form in forms)

    async def files(self, ref: MessageRef) -> int:
        message = self._fake.message(int(ref.chat), ref.message)
        assert message is not None
        return 0 if message.file is None else 1

    async def count(self) -> int:
        return len([each for each in self._person.chat.messages if each.sender != 7])

    def fail(self, error: type[ChatError], method: str) -> bool:
        verb = {"send": "sendMessage", "edit": "editMessageText"}[method]
        self._fake.fail(verb, **self._ANSWERS[error])
        return True

    async def says(self, words: str) -> None:
        self._said = self._person.says(words, chat=self._where)

    async def says_slowly(self, words: str, what: str, done: asyncio.Event) -> None:
        # In a group Telegram shows a bot no part of an album that has no words.
        self._where = None if what == "album" else self._fake.group(int(self.group))
        file = self._fake.keep_file(image().data, name="p.jpg", mime="image/jpeg", photo=True)
        file.until = done if what == "download" else None
        album = "an-album" if what == "album" else None
        self._person.says(words, chat=self._where, photo=file, album=album)

    async def sends(self, words: str, name: str, mime: str, data: bytes) -> None:
        file = self._fake.keep_file(data, name=name, mime=mime, photo=False)
        carries = document_shape(file)
        if mime == "audio/ogg":  # recorded there
            carries = {"voice": {**carries["document"], "duration": 1}}
            del carries["voice"]["file_name"]
        self._person.says(words, chat=self._where, carries=carries)

    async def other_says(self, words: str) -> None:
        self._fake.person(8).says(words, chat=self._where)

    async def repeats(self) -> bool:
        assert self._said is not None
        self._person.repeats(self._said)
        return True

    async def presses(self, ref: MessageRef, label: str, button: Button) -> None:
        message = self._fake.message(int(ref.chat), ref.message)
        assert message is not None
        self._person.presses(message, label)


class FailingLog(MemoryLog):
    """A log on a disk that is full now and then, and slow to read."""

    failing = 0
    read_after: asyncio.Event | None = None

    async def file(self, chat: str, file: str) -> File | None:
        if self.read_after is not None:
            await self.read_after.wait()
        return await super().file(chat, file)

    async def put(self, *given: Any, **named: Any) -> Entry:
        self._maybe_fail()
        return await super().put(*given, **named)

    async def edit(self, *given: Any, **named: Any) -> Entry | None:
        self._maybe_fail()
        return await super().edit(*given, **named)

    def _maybe_fail(self) -> None:
        if self.failing:
            self.failing -= 1
            raise StoreError("the disk is full")


class OnWeb(Stage):
    """The page; calls are messages typed there."""

    chat, group, stranger, finds_again = "local", None, "nobody", True
    listened, slow, alone = 0, ("disk",), True

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[Stage]:
        async with AsyncExitStack() as stack:
            yield cls(stack)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._log = FailingLog()
        self._key = ""
        self._words = ""
        self._web: Web | None = None
        self._open: Tab | None = None

    def platform(self, lease: ChatLease = ALONE) -> ChatPlatform:
        self._web, self._open = Web(port=0, log=self._log, lease=lease), None
        return self._web

    async def ready(self) -> None:
        assert self._web is not None
        await self._web.connected.wait()

    async def reads(self, ref: MessageRef) -> str | None:
        entry = await self._log.get(ref.chat, ref.message)
        if entry is None or entry.shown is None:
            return None
        return "".join(part.text for part in entry.shown.body if isinstance(part, TextPart))

    async def tells_day(self, ref: MessageRef, at: float) -> bool:
        entry = await self._log.get(ref.chat, ref.message)
        assert entry is not None
        assert entry.shown is not None
        # The page itself writes the date, because it knows what is today where its reader is.
        return any(isinstance(part, MomentPart) and part.at == at for part in entry.shown.body)

    async def files(self, ref: MessageRef) -> int:
        entry = await self._log.get(ref.chat, ref.message)
        assert entry is not None
        assert entry.shown is not None
        return len(entry.shown.files)

    async def count(self) -> int:
        entries = await self._log.since(self.chat, 0, 100)
        return len([each for each in entries if each.shown and each.shown.author == "usher"])

    def fail(self, error: type[ChatError], method: str) -> bool:
        if error is not ChatUnavailable:
            return False
        self._log.failing += 1
        return True

    async def _page(self) -> Tab:
        assert self._web is not None
        try:
            page = await self._stack.enter_async_context(opened(self._web.url))
        except WSServerHandshakeError as refused:
            if refused.status != 503 or self._open is None:
                raise
            return self._open  # a page that was opened before
        await page.hello()
        self._open = page
        return page

    async def says(self, words: str) -> None:
        self._key, self._words = uuid4().hex, words
        await self.repeats()

    async def says_slowly(self, words: str, what: str, done: asyncio.Event) -> None:
        assert self._web is not None
        self._log.read_after = done
        upload = await uploaded(self._web, image().data, "cat.png", "image/png")
        page = await self._page()
        await page.say(words, uploads=[upload])
        await page.next("messages")

    async def sends(self, words: str, name: str, mime: str, data: bytes) -> None:
        assert self._web is not None
        upload = await uploaded(self._web, data, name, mime)
        page = await self._page()
        await page.say(words, uploads=[upload])

    async def other_says(self, words: str) -> None:
        raise NotImplementedError("everybody here is one person")

    async def repeats(self) -> bool:
        before, page = self._open, await self._page()
        if page is not before:
            await page.say(self._words, self._key)
            return True
        with suppress(ConnectionError):  # the server may have ended it already
            await page.say(self._words, self._key)
        async for _ in page.socket:  # until the server ends it
            pass
        return True

    async def presses(self, ref: MessageRef, label: str, button: Button) -> None:
        page = await self._page()
        await page.send(
            type="press",
            message=ref.message,
            command=button.command,
            job=button.job_id,
            key=uuid4().hex,
        )


STAGES: Mapping[str, type[Stage]] = {
    "fake": OnFake,
    "discord": OnDiscord,
    "telegram": OnTelegram,
    "web": OnWeb,
}


@asynccontextmanager
async def running(
    stage: Stage, handler: CommandHandler, platform: ChatPlatform | None = None
) -> AsyncIterator[ChatPlatform]:
    """Run a platform on a stage until the block ends, by default a new stage."""
    platform = platform or stage.platform()
    task = asyncio.create_task(platform.run(handler))
    try:
        async with asyncio.timeout(60):
            await platform.connected.wait()
            await stage.ready()
        yield platform
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def words(*body: str, files: Sequence[File] = (), button: Button | None = None) -> Content:
    """Return content of plain text."""
    shown: Body = body
    rows = () if button is None else ((button,),)
    return Content(body=shown, files=tuple(files), buttons=rows)


def image(number: int = 1) -> File:
    """Return a small image, a different one for each number."""
    out = BytesIO()
    Image.new("RGB", (16, 16), (number, 0, 0)).save(out, "PNG")
    return File(name=f"cat-{number}.png", mime="image/png", data=out.getvalue())
