"""Faults of the neighbours, one by one: what people and operators see, and that it heals.

The whole bot in virtual time with scripted servers and chats. How each kind of server and chat
words its answers is tested with its adapter; disk, database and clock have their own file.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from bot.core.errors import ChatUnavailable
from queueing.core.errors import (
    BackendError,
    NotLoaded,
    OutOfMemory,
    ProblemKind,
    Rejected,
    Unavailable,
    problem,
)
from queueing.core.requests import Work
from tests.chaos.scenarios import only, told
from tests.fakes.servers.backend import FakeServer, Fate
from tests.simulation.bot_installation import Bot
from tests.simulation.installation import Installation

# ---------------------------------------------------------------- servers


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A server's fault: what it does once, and what the chat and the log show then."""

    script: Callable[[FakeServer], None]
    ends_with: str = "a cat\nflux"
    seen: str = ""
    logged: str = ""


def attempts(*fates: Fate) -> Callable[[FakeServer], None]:
    """Return a script: the first attempts meet these fates, all later ones succeed."""

    def script(server: FakeServer) -> None:
        left = iter(fates)

        def fate(_: Work) -> Fate:
            return next(left, Fate())

        server.fates = fate

    return script


def loads(*errors: Exception) -> Callable[[FakeServer], None]:
    """Return a script: the first loads fail in this way, all later ones succeed."""

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
        script=attempts(Fate(error=Rejected("bad size", problem=problem(ProblemKind.TOO_LARGE)))),
        ends_with="❌ This request is too large for the server.",
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
        ends_with="❌ The GPU ran out of memory for this request; a smaller one may work.",
        logged="12 GB wanted",
    ),
    "its worker is wedged though it answers": Trouble(script=_wedge, logged="comfy"),
    "there is a bug": Trouble(
        script=attempts(Fate(error=ZeroDivisionError("division by zero"))),
        ends_with="❌ Something went wrong on our side; the operator can find it in the log.",
        logged="division by zero",
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_server_in_trouble_is_told_and_heals(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A fault would be silent, persist, or show people or the operator the wrong thing."""
    trouble = TROUBLES[name]
    caplog.set_level(logging.INFO)

    async def scenario(running: Bot, installation: Installation) -> None:
        trouble.script(installation.servers["comfy"])
        await asyncio.sleep(30)  # health has looked
        await running.dispatcher.call(running.chat.call("/image flux a cat"))
        await asyncio.sleep(1000)
        healthy = running.chat.call("/image flux a dog", user="fake:2", chat="2")
        await running.dispatcher.call(healthy)

    messages = told(scenario).messages.values()
    first, second = (next(m for m in messages if m.chat == chat) for chat in "12")
    assert first.text.startswith(trouble.ends_with), first.texts
    assert second.text.startswith("a dog\nflux"), second.texts
    assert any(trouble.seen in text for text in first.texts), first.texts
    for text in first.texts:
        assert "comfy:" not in text
        assert "Traceback" not in text
    assert trouble.logged in caplog.text


# ---------------------------------------------------------------- chats


def test_an_answer_is_never_part_of_a_send() -> None:
    """A process that dies after a send repeats it: people would read the answer twice."""

    async def scenario(running: Bot, _: Installation) -> None:
        running.chat.fail_when = lambda _chat: ChatUnavailable("away")
        await running.dispatcher.call(running.chat.call("/ask llama why"))
        await asyncio.sleep(600)
        running.chat.fail_when = lambda _chat: None

    message = only(told(scenario))
    assert "result of why" not in message.texts[0]
    assert message.text.startswith("result of why")
