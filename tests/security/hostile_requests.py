"""Hostile requests for every route of a running bot; the routes are found from its routers."""

import asyncio
import gzip
import json
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bot.api.jobs.records import TimedJob
from bot.api.openai import records as openai
from bot.http.listener import Listener

if TYPE_CHECKING:
    from pydantic import BaseModel

PIECE = 256 * 1024
RESET = struct.pack("ii", 1, 0)
JSON = "application/json"
FORM = "multipart/form-data; boundary=cut"
PART = b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
HEAD_S = 4.0
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A route of a listener; `path` has names in braces."""

    method: str
    path: str
    is_api: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """How much is sent."""

    wide: int
    nested: int
    bomb: int
    endless: int
    unread: int
    slow: int


QUICK = Sizes(wide=2_000_000, nested=50_000, bomb=4_000_000, endless=1_000_000, unread=6, slow=3)
FULL = Sizes(
    wide=60_000_000,
    nested=30_000_000,
    bomb=1_000_000_000,
    endless=100_000_000,
    unread=100,
    slow=50,
)


@contextmanager
def found_routes(monkeypatch: Any) -> Iterator[list[Place]]:
    """Provide the routes of every listener that is opened within the block."""
    places: list[Place] = []
    opened = Listener.open

    async def noted(listener: Listener, host: str | None, port: int) -> int:
        routes = listener._runner.app.router.routes()
        paths = {(route.method, route.resource.canonical) for route in routes if route.resource}
        is_api = any(path.startswith("/v1/") for _, path in paths)
        places.extend(
            Place(method=method, path=path, is_api=is_api)
            for method, path in sorted(paths)
            if "{_" not in path  # another spelling of a route's address
        )
        return await opened(listener, host, port)

    with monkeypatch.context() as patched:
        patched.setattr(Listener, "open", noted)
        yield places


def fields() -> list[str]:
    """Return the names of all fields that a record of the API has."""
    kinds: list[type[BaseModel]] = [openai.ClientRecord, *TimedJob.__subclasses__()]
    names: set[str] = set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        names |= {field.alias or name for name, field in kind.model_fields.items()}
    return sorted(names - {"kind", "stream"})


def wide(size: int) -> bytes:
    """Return JSON with a bad list in each field of any record."""
    names = fields()
    bad = b"[" + b"[]," * (size // 3 // (len(names) + 1)) + b"[]]"
    inner = b'"input": [{"role": "user", "content": ' + bad + b"}]"
    return b"{" + b", ".join([*(b'"%s": %s' % (n.encode(), bad) for n in names), inner]) + b"}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """A request: `body` is sent `repeat` times, and `then` says how it continues.

    Only the first `sent` bytes of all are sent, if given. A caller who hangs up does so `after_s`
    seconds later, and first reads part of the answer if it `reads`.
    """

    kind: str
    body: bytes = b""
    coding: str = ""
    length: int | None = None
    repeat: int = 1
    connections: int = 1
    then: str = "read"
    sent: int | None = None
    upgrade: bool = False
    reads: bool = False
    after_s: float = 0.0


def attacks(sizes: Sizes) -> Sequence[tuple[str, Attack]]:
    """Return every attack by its name."""
    many = wide(sizes.wide)
    lines = b"\n" * sizes.wide
    values = json.dumps({"model": "llama", "prompt": "x", "input": "x"}).encode()
    return (
        ("wide", Attack(kind=JSON, body=many)),
        ("wide, packed", Attack(kind=JSON, body=gzip.compress(many, 6), coding="gzip")),
        ("nested", Attack(kind=JSON, body=b'{"a":' * sizes.nested)),
        ("oversized", Attack(kind=JSON, body=values, length=10**10)),
        ("bomb", Attack(kind=JSON, body=gzip.compress(bytes(sizes.bomb), 1), coding="gzip")),
        ("bomb in a form", Attack(kind=FORM, body=packed_file(sizes.bomb), coding="gzip")),
        ("lines", Attack(kind=FORM, body=lines)),
        ("lines, packed", Attack(kind=FORM, body=gzip.compress(lines, 6), coding="gzip")),
        ("headers", Attack(kind=FORM, body=PART[:-2] + b"X: y\r\n" * (sizes.wide // 6))),
        ("slow", Attack(kind=JSON, body=b"{", length=1000, connections=sizes.slow, then="hold")),
        ("endless", Attack(kind=FORM, body=PART + bytes(PIECE), repeat=sizes.endless // PIECE)),
        ("endless text", Attack(kind=JSON, body=b'"' * PIECE, repeat=sizes.endless // PIECE)),
        ("unread", Attack(kind=JSON, body=values, connections=sizes.unread, then="hold")),
        ("cut", Attack(kind=JSON, body=many[:5000], length=10_000, connections=5, then="cut")),
        ("cut at once", Attack(kind=JSON, body=values, connections=5, then="cut")),
    )


def hang_ups() -> Sequence[Attack]:
    """Return visits that hang up at each point of a request and its answer, in both ways."""
    asked = {"model": "llama", "prompt": "x", "input": "x", "kind": "chat", "stream": True}
    body = json.dumps({**asked, "messages": [{"role": "user", "content": "x"}]}).encode()
    found = []
    for then in ("cut", "leave"):
        whole = Attack(kind=JSON, body=body, then=then)
        found += [replace(whole, sent=sent) for sent in (20, 200)]
        found += [replace(whole, after_s=ms / 1000) for ms in (0, 1, 4, 16)]
        found += [replace(whole, reads=True, after_s=ms / 1000) for ms in (0, 5)]
        socket_ = Attack(kind=JSON, then=then, upgrade=True)
        frame = replace(socket_, body=b"\x81\x85abcdhello", length=0)
        found += [replace(socket_, after_s=ms / 1000) for ms in (0, 2)]
        found += [replace(socket_, reads=True), frame, replace(frame, reads=True)]
    return found


def packed_file(size: int) -> bytes:
    return gzip.compress(PART + bytes(size) + b"\r\n--cut--\r\n", 1)


@dataclass(kw_only=True, slots=True)
class Attacker:
    """Sends attacks to the API and the page with these `headers`, and keeps connections open."""

    api: int
    page: int
    headers: Mapping[str, str]
    named: Mapping[str, str]
    held: list[socket.socket] = field(default_factory=list)

    def close(self) -> None:
        for each in self.held:
            each.close()
        self.held.clear()

    async def attack(self, place: Place, attack: Attack) -> list[int]:
        """Carry out an attack; return the statuses that were answered."""
        one = (self._one(place, attack) for _ in range(attack.connections))
        return [status for status in await asyncio.gather(*one) if status is not None]

    async def _one(self, place: Place, attack: Attack) -> int | None:
        loop = asyncio.get_running_loop()
        opened = socket.socket()
        opened.setblocking(False)
        try:
            await loop.sock_connect(opened, ("127.0.0.1", self.api if place.is_api else self.page))
            with suppress(TimeoutError):
                async with asyncio.timeout(HEAD_S):
                    await self._send(opened, place, attack)
            if attack.reads:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await loop.sock_recv(opened, 1000)
            await asyncio.sleep(attack.after_s)
            if attack.then == "read":
                async with asyncio.timeout(HEAD_S):
                    head = await loop.sock_recv(opened, 1000)
                found = re.match(rb"HTTP/1\.[01] (\d{3})", head)
                return int(found[1]) if found else None
        except (OSError, TimeoutError):
            return None
        finally:
            if attack.then == "hold":
                self.held.append(opened)
            else:
                if attack.then == "cut":
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                opened.close()
        return None

    async def _send(self, opened: socket.socket, place: Place, attack: Attack) -> None:
        loop = asyncio.get_running_loop()
        if attack.sent is not None:
            await loop.sock_sendall(
                opened, (self._head(place, attack) + attack.body)[: attack.sent]
            )
            return
        await loop.sock_sendall(opened, self._head(place, attack))
        for _ in range(attack.repeat):
            for piece in batched_bytes(attack.body):
                await loop.sock_sendall(opened, piece)

    def _head(self, place: Place, attack: Attack) -> bytes:
        path = re.sub(r"\{(\w+)\}", lambda found: self.named.get(found[1], "1"), place.path)
        port = self.api if place.is_api else self.page
        length = len(attack.body) * attack.repeat if attack.length is None else attack.length
        headers = {
            "Host": f"127.0.0.1:{port}",
            "Content-Type": attack.kind,
            "Content-Length": str(length),
            **({"Content-Encoding": attack.coding} if attack.coding else {}),
            **(UPGRADE if attack.upgrade else {}),
            **(self.headers if place.is_api else {"Origin": f"http://127.0.0.1:{port}"}),
        }
        lines = [f"{place.method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()


def batched_bytes(data: bytes) -> Iterator[bytes]:
    for at in range(0, max(1, len(data)), PIECE):
        yield data[at : at + PIECE]
