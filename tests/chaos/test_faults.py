"""Faults of the neighbours, one by one: what the person sees, what the operator sees, that it heals.

The whole bot in virtual time with scripted servers, chats and databases. What each kind of server
and chat answers in its own words is tested with its adapter.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bot.app import SystemClock
from bot.platforms.base import ChatUnavailable
from queueing.catalog import Timeouts
from queueing.errors import BackendError, NotLoaded, OutOfMemory, Rejected, Unavailable
from queueing.requests import Capability, Work
from tests.fakes.backend import FakeServer, Fate
from tests.fakes.chat import FakeChat, Message
from tests.simulation.bot_house import Bot, bot
from tests.simulation.house import House, host, image_model
from tests.simulation.loop import run

Story = Callable[[Bot, House], Awaitable[None]]


def village(**fields: Any) -> House:
    """Return a server for pictures and texts."""
    texts = frozenset({Capability.TEXT_TO_TEXT})
    patience = Timeouts(load_s=60, first_s=60, idle_s=60, total_s=300)
    models = [
        image_model("flux", "comfy", vram_mb=16000, timeouts=patience),
        replace(image_model("llama", "comfy", vram_mb=7000), capabilities=texts),
    ]
    return House.of(models, [host("gpu-1", "comfy")], **fields)


def told(story: Story, house: House | None = None) -> FakeChat:
    """Play a story to its end and return the chat as its people see it then."""

    async def play() -> FakeChat:
        where = house or village()
        async with bot(where) as running:
            await story(running, where)
            await quiet(running)
            assert not where.violations
            return running.chat

    return run(play())


async def quiet(running: Bot, within_s: float = 100_000.0) -> None:
    """Wait until every job has ended and its end is shown."""
    async with asyncio.timeout(within_s):
        while await running.queue.unacknowledged():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(1)


def only(chat: FakeChat) -> Message:
    """Return the one message there is."""
    (message,) = chat.messages.values()
    return message


# ---------------------------------------------------------------- servers


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A server's fault: what it does once, what then stands in the chat and in the log."""

    script: Callable[[FakeServer], None]
    ends_with: str = "a cat\nflux"
    seen: str = ""
    logged: str = ""


def attempts(*fates: Fate) -> Callable[[FakeServer], None]:
    """Return a script: the first attempts meet these fates, all later ones nothing bad."""

    def script(server: FakeServer) -> None:
        left = iter(fates)

        def fate(_: Work) -> Fate:
            return next(left, Fate())

        server.fates = fate

    return script


def loads(*errors: Exception) -> Callable[[FakeServer], None]:
    """Return a script: the first loads fail so, all later ones succeed."""

    def script(server: FakeServer) -> None:
        left: Iterator[Exception] = iter(errors)
        server.load_fates = lambda: next(left, None)

    return script


def _wedge(server: FakeServer) -> None:
    server.wedged = True
    asyncio.get_running_loop().call_later(300.0, server.die)


TROUBLES = {
    "it refuses connections": Trouble(
        script=lambda server: server.die(restart_s=300.0),
        seen="offline since",
        logged="comfy",
    ),
    "it hangs": Trouble(script=attempts(Fate(hang=True)), logged="job 1 on comfy"),
    "it breaks off": Trouble(
        script=attempts(Fate(error=Unavailable("connection reset"))), logged="connection reset"
    ),
    "it answers garbage": Trouble(
        script=attempts(Fate(error=BackendError("not JSON: <html>"))),
        logged="not JSON: <html>",
    ),
    "it rejects the request": Trouble(
        script=attempts(Fate(error=Rejected("bad size", user_text="This size is too large."))),
        ends_with="❌ This size is too large.",
        logged="bad size",
    ),
    "it runs out of memory in the middle": Trouble(
        script=attempts(Fate(error=OutOfMemory("12 GB wanted"))), logged="12 GB wanted"
    ),
    "it runs out of memory at a load": Trouble(
        script=loads(OutOfMemory("17 GB wanted")), logged="17 GB wanted"
    ),
    "a load fails": Trouble(script=loads(Unavailable("reset by peer")), logged="reset by peer"),
    "somebody unloads the model": Trouble(
        script=attempts(Fate(error=NotLoaded("no such model in memory"))),
        logged="no such model in memory",
    ),
    "it restarts in the middle and forgets": Trouble(
        script=attempts(Fate(crash=True)), logged="connection lost"
    ),
    "it never gives up running out of memory": Trouble(
        script=attempts(*[Fate(error=OutOfMemory("12 GB wanted"))] * 3),
        ends_with="❌ The card ran out of memory for this request; a smaller one may work.",
        logged="12 GB wanted",
    ),
    "its worker is wedged though it answers": Trouble(script=_wedge, logged="comfy"),
    "there is a fault of ours": Trouble(
        script=attempts(Fate(error=ZeroDivisionError("division by zero"))),
        ends_with="❌ Something went wrong on our side, and the operator has been told.",
        logged="division by zero",
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_server_in_trouble_is_told_and_heals(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A fault would be silent, stick, or show people or the operator the wrong thing."""
    trouble = TROUBLES[name]
    caplog.set_level(logging.INFO)

    async def story(running: Bot, house: House) -> None:
        trouble.script(house.servers["comfy"])
        await asyncio.sleep(30)  # health has looked
        await running.gate.call(running.chat.call("/image flux a cat"))
        await asyncio.sleep(1000)
        healthy = running.chat.call("/image flux a dog", user="fake:2", chat="2")
        await running.gate.call(healthy)

    messages = told(story).messages.values()
    first, second = (next(m for m in messages if m.chat == chat) for chat in "12")
    assert first.text.startswith(trouble.ends_with), first.texts
    assert second.text.startswith("a dog\nflux"), second.texts
    assert any(trouble.seen in text for text in first.texts), first.texts
    for text in first.texts:
        assert "comfy:" not in text
        assert "Traceback" not in text
    assert trouble.logged in caplog.text


# ---------------------------------------------------------------- the disk


def test_a_full_disk_is_told_and_what_was_accepted_goes_on_afterwards() -> None:
    """A full disk would lose what runs, or people would not learn why nothing is accepted."""

    async def story(running: Bot, _: House) -> None:
        database = running.records._database
        await running.gate.call(running.chat.call("/image flux a cat"))
        await asyncio.sleep(12)
        await database.write(_no_more_room)
        for number in range(9):
            dogs = f"/image flux {number}" + " a dog" * 200
            await running.gate.call(running.chat.call(dogs, user="fake:2", chat="2"))
        await asyncio.sleep(300)
        await database.write(_room_again)

    chat = told(story)
    cat = next(message for message in chat.messages.values() if message.chat == "1")
    assert cat.text.startswith("a cat\nflux")
    assert any("disk of this server is full" in text for _, text in chat.private), chat.private


def _no_more_room(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


def _room_again(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000")


# ---------------------------------------------------------------- the clock


class _Hands:
    """Two clocks: the machine's, which can be set, and the steady one."""

    def __init__(self) -> None:
        self.wall, self.steady = 1000.0, 50.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_a_clock_that_is_set_back_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause, of a retry or of a chat, would last as long as the clock was set back."""
    hands = _Hands()
    monkeypatch.setattr("bot.app.time", hands)
    clock = SystemClock()
    before = clock.now()
    hands.wall -= 3600.0
    assert clock.now() == before
    hands.passes(10.0)
    assert clock.now() == pytest.approx(before + 10.0, abs=0.2)
    hands.passes(3600.0 * 100)
    assert clock.now() == hands.wall


def test_a_clock_that_is_set_forward_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a battery begins in 1970, and would show that to people until it restarts."""
    hands = _Hands()
    monkeypatch.setattr("bot.app.time", hands)
    clock = SystemClock()
    hands.wall += 1e9
    assert clock.now() == hands.wall


# ---------------------------------------------------------------- chats


def test_an_answer_is_never_part_of_a_send() -> None:
    """A process that dies after a send repeats it: people would read the answer twice."""

    async def story(running: Bot, _: House) -> None:
        running.chat.fail_when = lambda _chat: ChatUnavailable("away")
        await running.gate.call(running.chat.call("/ask llama why"))
        await asyncio.sleep(600)
        running.chat.fail_when = lambda _chat: None

    message = only(told(story))
    assert "result of why" not in message.texts[0]
    assert message.text.startswith("result of why")
