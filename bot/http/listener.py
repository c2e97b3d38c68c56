"""Accepts a limited number of connections, and closes silent and surplus ones.

Anyone can connect before being identified. Each connection takes one of the process's few file
handles, which chats, servers and the database also need. Connections are therefore accepted one by
one, while handles are left, and those of unknown visitors are closed first.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.typedefs import Handler

from bot.http.clients import Clients, home, sparing
from bot.http.connection_limits import (
    ConnectionLimits,
    OpenConnection,
    beyond_a_person,
    in_the_way,
    is_full,
)

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_UNBOUNDED = 4096  # if the limit is unknown


def open_files() -> int:
    """Return how many files and connections this process may have open at once."""
    if resource is None:
        return _UNBOUNDED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNBOUNDED if soft == resource.RLIM_INFINITY else soft


MAX_CONNECTIONS = 500  # of the 1024 files that a process may usually open
SILENT_S = 20.0  # until the first request is complete, and between requests of an unknown visitor
IDLE_S = 75.0  # between requests of a person
FINISH_S = 2.0
UNREAD_S = 30.0  # until part of the send buffer is sent
_UNREAD_CHECKS = 3
_BACKLOG = 128  # connections that the system queues before they are accepted
_NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S = 1.0  # after the system ran out of handles

_log = sparing(logging.getLogger(__name__))

NAME: web.RequestKey[Callable[[str], None]] = web.RequestKey("name")
"""Key of a function that sets a request's person, for servers that identify it later than `who`."""
Who = Callable[[web.Request], str | None]


def room_for_connections() -> int:
    """Return how many connections the page may have, so that other parts have handles left."""
    files = open_files()
    return min(MAX_CONNECTIONS, files - min(128, files // 2))


class Listener:
    """Serves an application at one address.

    `who` returns the person of a request from its cookie.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        who: Who = lambda _request: None,
        clients: Clients | None = None,
        limits: ConnectionLimits | None = None,
        silent_s: float = SILENT_S,
        cancels: bool = False,
        finish_s: float = FINISH_S,
        unread_s: float = UNREAD_S,
    ) -> None:
        """Prepare to serve an application.

        With `cancels`, a request is cancelled when its visitor disconnects. On close, requests in
        progress have `finish_s` seconds to finish.
        """
        app.middlewares.insert(0, self._heard)
        self._runner = web.AppRunner(
            app,
            access_log=None,  # it would contain the tokens of sign-in links
            keepalive_timeout=IDLE_S,
            logger=_quiet_logger(),
            shutdown_timeout=finish_s,
            handler_cancellation=cancels,
            auto_decompress=False,
        )
        self._who = who
        self._clients = clients or Clients()
        self._room = limits or ConnectionLimits.of(room_for_connections())
        self._silent_s = silent_s
        self._unread_s = unread_s
        self._visits: dict[asyncio.BaseProtocol, OpenConnection] = {}
        self._timers: dict[OpenConnection, asyncio.TimerHandle] = {}
        self._sockets: Sequence[socket.socket] = ()
        self._accepting: list[asyncio.Task[None]] = []

    async def open(self, host: str | None, port: int) -> int:
        """Start listening and return the port. Raises `OSError` if the address is taken."""
        await self._runner.setup()
        self._sockets = await _listen(host, port)
        self._accepting = [
            asyncio.create_task(self._accept(each), name="listener") for each in self._sockets
        ]
        self._accepting.append(asyncio.create_task(self._end_unread(), name="unread"))
        return int(self._sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop accepting and close all connections. Idempotent."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        for timer in self._timers.values():
            timer.cancel()
        await self._runner.cleanup()

    # ------------------------------------------------------------ accepting

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                visitor, peer = await _next_visitor(listening)
            except OSError as error:
                if error.errno in _NO_HANDLES:
                    await self._wait_for_handles(error)
                continue  # other errors mean that the visitor disconnected
            try:
                await self._let_in(visitor, str(peer[0]) if peer else "")
            except Exception:  # noqa: BLE001  # an error with one visitor must not end the server
                _log.exception("cannot accept a connection")
                visitor.close()

    async def _end_unread(self) -> None:
        """Close connections whose visitors do not read, because their unsent data is in memory.

        The size of a send buffer changes with every byte sent. So it stays the same only if nothing
        is read.
        """
        while True:
            await asyncio.sleep(self._unread_s / _UNREAD_CHECKS)
            for protocol, visit in list(self._here().items()):
                waiting = _unsent(protocol)
                visit.unread = visit.unread + 1 if waiting and waiting == visit.unsent else 0
                visit.unsent = waiting
                if visit.unread >= _UNREAD_CHECKS:
                    self._end(visit)

    async def _wait_for_handles(self, error: OSError) -> None:
        _log.warning("cannot accept more connections at present: %s", error)
        for visit in sorted(self._here().values(), key=lambda each: each.at)[:_BACKLOG]:
            if visit.person is None:
                self._end(visit)
        await asyncio.sleep(_PAUSE_S)  # the system does not report when a handle becomes free

    async def _let_in(self, visitor: socket.socket, peer: str) -> None:
        address, loop = home(peer), asyncio.get_running_loop()
        crowd = self._here()
        leaving = in_the_way(crowd.values(), address, self._room)
        if leaving is not None:
            self._end(leaving)
        server = self._runner.server
        if server is None or (leaving is None and is_full(crowd.values(), self._room)):
            visitor.close()
            return
        try:
            _, protocol = await loop.connect_accepted_socket(server, visitor)
        except OSError:  # already closed
            visitor.close()
            return
        visit = OpenConnection(address=address, proxy=self._clients.is_proxy(peer), at=loop.time())
        self._visits[protocol] = visit
        self._expect(visit)

    def _here(self) -> dict[asyncio.BaseProtocol, OpenConnection]:
        """Return the open connections, and forget those that have ended."""
        there = self._runner.server.connections if self._runner.server is not None else ()
        gone = self._visits.keys() - set(there)
        for protocol in gone:
            self._forget(protocol)
        return self._visits

    # ------------------------------------------------------------ activity and silence

    @web.middleware
    async def _heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        visit = self._visits.get(request.protocol)
        if visit is None:  # its first request arrived before the connection was recorded
            return await handler(request)
        self._cancel_timer(visit)
        visit.busy += 1
        self._name(visit, self._who(request))
        request[NAME] = lambda person: self._name(visit, person)
        try:
            return await handler(request)
        finally:
            visit.busy -= 1
            visit.at = asyncio.get_running_loop().time()
            if visit.person is None:
                self._expect(visit)

    def _name(self, visit: OpenConnection, person: str | None) -> None:
        visit.at = asyncio.get_running_loop().time()
        visit.person = person
        if person is not None:
            leaving = beyond_a_person(self._here().values(), person, self._room)
            if leaving is not None:
                self._end(leaving)

    def _expect(self, visit: OpenConnection) -> None:
        """Close an unknown visitor's connection unless a request arrives in time."""
        self._cancel_timer(visit)
        timer = asyncio.get_running_loop().call_later(self._silent_s, self._end, visit)
        self._timers[visit] = timer

    def _cancel_timer(self, visit: OpenConnection) -> None:
        timer = self._timers.pop(visit, None)
        if timer is not None:
            timer.cancel()

    def _end(self, visit: OpenConnection) -> None:
        for protocol, each in list(self._visits.items()):
            if each is visit:
                self._forget(protocol)
                if isinstance(protocol, web.RequestHandler):
                    transport = protocol.transport
                    protocol.force_close()
                    if transport is not None:  # at once, including any unsent data
                        transport.abort()

    def _forget(self, protocol: asyncio.BaseProtocol) -> None:
        visit = self._visits.pop(protocol, None)
        if visit is not None:
            self._cancel_timer(visit)


def _unsent(protocol: asyncio.BaseProtocol) -> int:
    transport = protocol.transport if isinstance(protocol, web.RequestHandler) else None
    return 0 if transport is None else transport.get_write_buffer_size()


async def _next_visitor(listening: socket.socket) -> tuple[socket.socket, Any]:
    """Return the next connection and its address. Raises `OSError`.

    Not `loop.sock_accept`: if cancelled as a visitor connects, it leaves the socket open and logs a
    traceback.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            visitor, peer = listening.accept()
        except BlockingIOError:
            pass
        else:
            visitor.setblocking(False)
            return visitor, peer
        arrived = asyncio.Event()
        try:
            loop.add_reader(listening, arrived.set)
        except NotImplementedError:  # Windows, whose loop closes accepted sockets on cancellation
            return await loop.sock_accept(listening)
        try:
            await arrived.wait()
        finally:
            loop.remove_reader(listening)


async def _listen(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of a host. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    opened: list[socket.socket] = []
    for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
        try:
            each = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            lacking = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}
            if family == socket.AF_INET6 and error.errno in lacking and len(found) > 1:
                continue  # a system without IPv6 may still list IPv6 addresses
            for other in opened:
                other.close()
            raise
        each.setblocking(False)
        opened.append(each)
    if not opened:
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on any address of {host}")
    return opened


def _quiet_logger() -> logging.Logger:
    """Return a log for the server's own errors. It omits tracebacks that visitors cause."""
    log = _log.getChild("http")
    if _is_ours not in log.filters:
        log.addFilter(_is_ours)
    return sparing(log)


def _is_ours(record: logging.LogRecord) -> bool:
    cause = record.exc_info[1] if record.exc_info else None
    return not isinstance(cause, (BadHttpMessage, ConnectionError, web.RequestPayloadError))


class CannotListen(Exception):
    """Raised when an address is in use or does not belong to this machine."""


async def open_at(listener: Listener, host: str, port: int) -> int:
    """Start listening at an address and return the port. Raises `CannotListen`."""
    try:
        return await listener.open(host or None, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CannotListen(f"cannot listen on {host}:{port}: {why}") from error
