"""Strangers at the page: however many connect, a cookie lets people in and handles stay free."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bot.http import listener as web_listener
from bot.http.clients import Clients, home
from bot.http.connection_limits import (
    ConnectionLimits,
    OpenConnection,
    beyond_a_person,
    in_the_way,
    is_full,
)
from bot.http.listener import Listener

WAIT_S = 60.0
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
COOKIE = b"Cookie: usher=owner\r\n"


def test_only_a_known_proxy_is_believed_about_addresses() -> None:
    """A stranger could choose the address that is counted, and so use a new one every time."""
    cases: list[tuple[str, tuple[str, ...], str]] = [
        ("203.0.113.9", (), "203.0.113.9"),
        ("203.0.113.9", ("198.51.100.1",), "203.0.113.9"),  # no trusted proxy says so
        ("10.0.0.1", ("198.51.100.1",), "198.51.100.1"),
        ("10.0.0.1", ("1.2.3.4, 198.51.100.1",), "198.51.100.1"),  # the first is the visitor's own
        ("10.0.0.1", ("1.2.3.4", "198.51.100.1, 10.0.0.7"), "198.51.100.1"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("nonsense",), "10.0.0.1"),
        ("10.0.0.1", ("1.2.3.4, nonsense",), "10.0.0.1"),
        ("::ffff:10.0.0.1", ("2001:db8:1:2:3::4",), "2001:db8:1:2::/64"),
        ("2001:db8::1", (), "2001:db8::/64"),
        ("fe80::1%eth0", (), "fe80::/64"),
    ]
    for peer, forwarded, client in cases:
        assert Clients(["10.0.0.0/8"]).of(peer, forwarded) == client, (peer, forwarded)


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=3))
def test_any_header_names_somebody(peer: str, forwarded: list[str]) -> None:
    """An invalid header would end the request with an error in the bot."""
    assert isinstance(Clients(["10.0.0.0/8", "::1"]).of(peer, forwarded), str)
    assert isinstance(Clients(["10.0.0.0/8"]).of("10.1.1.1", forwarded), str)


@given(
    st.integers(4, 40),
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.sampled_from(["", "ada", "ben"]), st.integers(0, 1)
        ),
        max_size=200,
    ),
)
def test_who_has_a_cookie_finds_room(overall: int, comers: list[tuple[str, str, int]]) -> None:
    """Strangers with one address, or with many, could keep everyone else out."""
    room, visits = ConnectionLimits.of(overall), list[OpenConnection]()
    for at, (address, person, busy) in enumerate(comers):
        leaving = in_the_way(visits, address, room)
        if leaving is not None:
            assert leaving.person is None or not leaving.busy
            visits.remove(leaving)
        elif is_full(visits, room):
            assert all(visit.busy and visit.person for visit in visits)
            continue
        visit = OpenConnection(address=address, proxy=False, at=at)
        visits.append(visit)
        if person:
            visit.person, visit.busy = person, busy
            crowding = beyond_a_person(visits, person, room)
            if crowding is not None:
                visits.remove(crowding)
        assert len(visits) <= overall
        for one in "abcdef":
            strangers = [each for each in visits if each.address == one and not each.person]
            assert len(strangers) <= room.strangers


class Visitors:
    """Connections to a listener that knows its owner by a cookie."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def come(self, count: int, said: bytes = REQUEST % b"") -> None:
        """Connect, ask once and stay."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            self.open.append((reader, writer))
            writer.write(said)

    async def owner_is_answered(self) -> bool:
        """Ask as the owner, on a new connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(REQUEST % COOKIE)
        try:
            return (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        finally:
            await _close(writer)


@contextlib.asynccontextmanager
async def listening(**settings: object) -> AsyncIterator[Visitors]:
    app = web.Application()
    app.router.add_get("/", _hello)
    listener = Listener(app, who=_owner, **settings)  # type: ignore[arg-type]
    visitors = Visitors(await listener.open("127.0.0.1", 0))
    try:
        async with asyncio.timeout(WAIT_S):
            yield visitors
    finally:
        for _, writer in visitors.open:
            await _close(writer)
        await listener.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def _hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


def _owner(request: web.Request) -> str | None:
    return "local" if request.cookies.get("usher") == "owner" else None


async def test_the_owner_gets_in_beside_strangers_of_the_same_address() -> None:
    """One stranger with 520 connections kept the owner off the page for as long as they liked."""
    async with listening(limits=ConnectionLimits.of(20)) as visitors:
        for said in (b"", REQUEST % b"", b"GET / HTTP/1.1\r\nX-Slow:"):
            await visitors.come(30, said)
            assert await visitors.owner_is_answered()


async def test_strangers_do_not_end_what_the_owner_has_open() -> None:
    """Every visitor would disconnect the owner's page."""
    async with listening(limits=ConnectionLimits.of(12)) as visitors:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitors.port)
        writer.write(REQUEST % COOKIE)
        await reader.readuntil(b"hello")
        await visitors.come(60)
        assert await visitors.owner_is_answered()
        writer.write(REQUEST % COOKIE)
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        await _close(writer)


async def test_a_person_does_not_take_all_connections() -> None:
    """One invited person could keep the others out."""
    async with listening(limits=ConnectionLimits.of(12)) as visitors:
        await visitors.come(12, REQUEST % COOKIE)
        first, _ = visitors.open[0]
        with contextlib.suppress(ConnectionError):
            await first.read()  # to its end: it made room for the person's own later ones


async def test_no_handle_left_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With few file handles, connections of strangers filled the log and failed accepted jobs."""
    accept, lacking = socket.socket.accept, [errno.EMFILE, errno.ECONNABORTED, errno.ENFILE]

    def scarce(listening: socket.socket) -> tuple[socket.socket, object]:
        if lacking:
            raise OSError(lacking.pop(0), "as the system says")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    monkeypatch.setattr(web_listener, "_PAUSE_S", 0.0)
    with caplog.at_level(logging.INFO):
        async with listening() as visitors:
            assert await visitors.owner_is_answered()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_visitor_who_comes_as_the_listening_ends_leaves_no_socket_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The socket was accepted for no one: it stayed open, and a traceback was logged."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        waiting = asyncio.create_task(web_listener._next_visitor(server))
        await asyncio.sleep(0)
        with socket.create_connection(server.getsockname()):
            asyncio.get_running_loop().call_soon(waiting.cancel)  # before the visitor is known
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            await asyncio.sleep(0)
            accepted, _ = server.accept()  # still there for the next to listen
            accepted.close()
    assert not caplog.records


def test_connections_leave_handles_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chats, servers and the database would find no handle left."""
    for files, most in ((64, 32), (256, 128), (1024, 500), (8192, 500)):
        monkeypatch.setattr(web_listener, "open_files", lambda files=files: files)
        assert web_listener.room_for_connections() == most


def test_an_address_is_one_visitor() -> None:
    """A person with a network of addresses would count as many visitors."""
    assert home("2001:db8::1") == home("2001:db8::2")
    assert home("::ffff:192.0.2.1") == home("192.0.2.1")
