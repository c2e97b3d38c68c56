"""Slow look-ups of names delay neither other work nor a stop."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bot.app import process
from bot.app.process import EventLoop, run_until_signal

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class NameServers:
    """Name servers that do not answer until they are `back`."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.asked: list[str] = []

    def look_up(self, host: str, *_: Any) -> list[Any]:
        self.asked.append(host)
        self.back.wait()
        if host == "unknown":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return FOUND


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServers]:
    """Replace the system's name servers; they are back at the end, whatever happens."""
    servers = NameServers()
    monkeypatch.setattr(socket, "getaddrinfo", servers.look_up)
    yield servers
    servers.back.set()


async def looking_up(*hosts: str) -> list["asyncio.Task[Any]"]:
    """Begin look-ups as libraries do, through the running loop."""
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(loop.getaddrinfo(host, 80)) for host in hosts]
    await asyncio.sleep(0)
    return tasks


def test_names_that_are_looked_up_hold_up_no_other_work(names: NameServers) -> None:
    """While the network is away, no image could be read, drawn or shown."""

    async def scenario() -> None:
        tasks = await looking_up(*(f"server-{number}" for number in range(100)))
        assert await asyncio.to_thread(int, "1") == 1
        names.back.set()
        assert await asyncio.gather(*tasks) == [FOUND] * 100

    process.run(scenario())


def test_names_that_are_looked_up_hold_up_no_stop(names: NameServers) -> None:
    """A service manager would kill a process that could have stopped in order."""

    async def scenario() -> None:
        await looking_up("server")

    process.run(scenario())
    assert not names.back.is_set()


def test_one_name_is_looked_up_once_for_all_who_ask_at_once(names: NameServers) -> None:
    """Every call to a chat would need another thread."""

    async def scenario() -> None:
        one, other, unknown = await looking_up("server", "server", "unknown")
        one.cancel()
        names.back.set()
        assert await other == FOUND
        with pytest.raises(socket.gaierror, match="not known"):
            await unknown
        await asyncio.gather(one, return_exceptions=True)
        assert sorted(names.asked) == ["server", "unknown"]
        assert await asyncio.get_running_loop().getaddrinfo("server", 80) == FOUND
        assert len(names.asked) == 3, "an answer is not kept"

    process.run(scenario())


def test_an_error_that_comes_after_the_wait_is_told_to_no_one(names: NameServers) -> None:
    """The log would show an exception that was never retrieved."""
    told: list[dict[str, Any]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: told.append(about))
        (task,) = await looking_up("unknown")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        names.back.set()
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("unknown", 80)  # the same look-up, if it still runs

    process.run(scenario())
    assert told == []


def test_the_bot_runs_on_such_a_loop() -> None:
    async def scenario() -> None:
        assert isinstance(asyncio.get_running_loop(), EventLoop)

    assert run_until_signal(scenario()) == 0
