"""Which requests a server without token or key treats as local: every route of every listener."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bot.app.app import App
from bot.app.setup import BotSetup
from bot.config.loader import ConfigError, parse
from bot.http.addresses import CLIENT_HEADERS, PLACE_HEADERS
from bot.http.listener import Listener
from tests.bot.config.configs import SMALL
from tests.fakes.programs import nginx

REFUSED = "this machine only"
DOORS = """
hosts: {gpu-1: {vram: 24GB, backends: {studio: {kind: demo}}}}
models: {flux: {backends: [studio]}}
chats: {web: {port: 0}}
admins: [web:local]
api: {port: 0, open: true}
metrics: {port: 0}
"""
OURS = (
    "",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-For: ::1, 127.0.0.1:4711\r\nX-Real-IP: 127.0.0.1",
    'Forwarded: for="[::1]:4711";host=localhost:8080;proto=http',
    "X-Real-IP: ::ffff:127.0.0.1",
    "Via: 1.1 localhost:3000 (dev server)\r\nX-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Host: localhost:3000\r\nX-Forwarded-Proto: http\r\nX-Forwarded-For: ::1",
    "Forwarded: for=127.0.0.1;by=127.0.0.1, for=localhost\r\nForwarded: for=127.0.0.2",
)
ADDED = (
    *("X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Ssl"),
    *("X-Forwarded-Server", "X-Forwarded-Prefix", "X-Original-URI", "Front-End-Https"),
    *("Cf-Ray", "Cf-Visitor", "CDN-Loop", "X-Azure-FDID", "X-Amz-Cf-Id", "X-Amzn-Trace-Id"),
    *("X-Forwarded", "Forwarded-For", "X-Cloud-Trace-Context", "X-Vendor-Client-IP"),
)
"""What proxies and tunnels add that names no client."""
ELSEWHERE = (
    "X-Forwarded-For: 203.0.113.77",
    "X-Forwarded-For: 127.0.0.1, 203.0.113.77",
    "X-Forwarded-For: 203.0.113.77, 127.0.0.1",
    "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 10.0.0.7:4711",
    "X-Forwarded-For: unknown",
    "Forwarded: for=203.0.113.77",
    'Forwarded: For="[2001:db8::17]:4711"',
    "Forwarded: for=127.0.0.1, for=_hidden",
    "Forwarded: proto=https",
    "Forwarded: for=127.0.0.1;host=usher.example",
    "X-Real-IP: 192.168.1.20",
    "CF-Connecting-IP: 2001:db8::17",
    "Via: 1.1 Caddy",
    "X-Forwarded-Host: usher.example",
    "X-Forwarded-For: 127.0.0.1.example.org",
    "Forwarded: for=9.9.9.9;for=127.0.0.1",
    "Forwarded: for=127.0.0.1;for=9.9.9.9",
    "Forwarded: for =9.9.9.9;for=127.0.0.1",
    "Forwarded: for=127.0.0.1;host=usher.example;host=localhost",
    "Forwarded: for=127.0.0.1\r\nForwarded: for=9.9.9.9",
    "Forwarded: for=9.9.9.9\r\nForwarded: for=127.0.0.1",
    'Forwarded: for="127.0.0.1;for=9.9.9.9"',
    'Forwarded: for="127.0.0.1, 9.9.9.9"',
    "Forwarded: for=127.0.0.1;x=9.9.9.9",
    "Forwarded: for=",
    'Forwarded: for="";host=localhost',
    "Forwarded:",
    "Forwarded: ,for=127.0.0.1",
    "X-Forwarded-For:",
    "X-Forwarded-For: 127.0.0.1,",
    "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For:",
    "X-Real-IP:",
    "Via: 1.1 localhost:3000",
    "X-Forwarded-Host: localhost",
    "X-Original-Host: usher.example",
    *(f"{name}: 9.9.9.9" for name in CLIENT_HEADERS),
    *(f"{name}: 9.9.9.9\r\nX-Forwarded-For: 127.0.0.1" for name in PLACE_HEADERS),
    *(f"{name}: https" for name in ADDED),
)


class Door:
    """One server of the bot: where it listens, and each method and path that it serves."""

    def __init__(self, app: web.Application, port: int) -> None:
        self.port = port
        self.requests = [
            f"{route.method} {re.sub(r'{[^}]*}', 'x', route.resource.canonical)}"
            for route in app.router.routes()
            if route.resource is not None and "{_base" not in route.resource.canonical
        ]

    async def answer(self, request: str, headers: str, *, host: str = "127.0.0.1") -> str:
        """Return the whole answer to a request of these header lines."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        named = f"Host: {host}\r\n" if host else ""
        more = f"{headers}\r\n" if headers else ""
        writer.write(f"{request} HTTP/1.1\r\n{named}{more}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(60):
            got = await reader.read(4096)
        writer.close()
        return got.decode(errors="replace")


@asynccontextmanager
async def all_doors(folder: Path, text: str = DOORS) -> AsyncIterator[list[Door]]:
    """Run the whole bot; yield everything of it that listens."""
    doors: list[Door] = []
    complete = asyncio.Event()
    opened = Listener.open

    async def noted(listener: Listener, host: str | None, port: int) -> int:
        found = await opened(listener, host, port)
        doors.append(Door(listener._runner.app, found))
        if len(doors) == 3:
            complete.set()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Listener, "open", noted)
        setup = BotSetup(parse(text, {}), database_url=f"sqlite:///{folder}/usher.sqlite")
        async with App(setup).running() as parts, asyncio.TaskGroup() as group:
            working = group.create_task(parts.queue.run())
            async with asyncio.timeout(60):
                await complete.wait()
            yield doors
            working.cancel()


async def test_no_door_takes_a_stranger_for_this_machine(tmp_path: Path) -> None:
    """A proxy on this machine would make every stranger the admin, which `web:local` often is."""
    async with all_doors(tmp_path) as doors:
        assert {"GET /operator", "GET /socket", "POST /v1/jobs", "GET /metrics"} <= {
            request for door in doors for request in door.requests
        }
        lines = itertools.cycle(ELSEWHERE)
        for door in doors:
            for request in door.requests:
                got = await door.answer(request, next(lines))
                assert got.split(" ")[1] in {"401", "403"}, (request, got)
            for line in ELSEWHERE:
                got = await door.answer(_readable(door), line)
                assert REFUSED in got, (line, got)
                assert line.partition(":")[0] in got, "it says why"
            for host in ("", "usher.example", "203.0.113.5:8080"):
                got = await door.answer(_readable(door), "", host=host)
                assert got.split(" ")[1] in {"400", "401", "403"}, (host, got)
            for line in OURS:
                got = await door.answer(_readable(door), line)
                assert got.startswith("HTTP/1.1 200"), (line, got)


NGINX = {
    "": (False, "proxy_set_header Host $host;"),
    "for": (True, "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"),
    "real": (True, "proxy_set_header X-Real-IP $remote_addr;"),
    "forwarded": (True, 'proxy_set_header Forwarded "for=$remote_addr";'),
    "tunnel": (True, "proxy_set_header CF-Connecting-IP $remote_addr;"),
    "named": (
        False,
        "proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;",
    ),
}
"""Settings of a proxy, and whether this machine's own requests are served through it."""


@pytest.mark.thorough
@pytest.mark.skipif(nginx.program() is None, reason=nginx.NOT_INSTALLED)
async def test_a_stranger_behind_nginx_gets_in_at_no_door(tmp_path: Path) -> None:
    """People publish with proxies on this machine what was meant only for themselves."""
    async with all_doors(tmp_path) as doors:
        places = {
            f"{how}-{number}": (door.port, lines)
            for how, (_, lines) in NGINX.items()
            for number, door in enumerate(doors)
        }
        with nginx.before(places) as port:
            for (how, (ours, _)), (number, door) in itertools.product(
                NGINX.items(), enumerate(doors)
            ):
                method, path = _readable(door).split(" ")
                proxy = Door(web.Application(), port)
                for client, served in (("203.0.113.77", False), ("127.0.0.1", ours)):
                    got = await proxy.answer(
                        f"{method} /{how}-{number}{path}",
                        f"{nginx.CLIENT}: {client}",
                        host="usher.example",
                    )
                    status = got.split(" ")[1]
                    assert (status == "200") is served, (how, path, client, got)
                    assert served or status in {"401", "403"}, (how, path, client, got)


def _readable(door: Door) -> str:
    """Return a request that this machine's people get an answer to, such as the operator's page."""
    known = ("GET /operator", "GET /v1/models", "GET /metrics")
    return next(request for request in known if request in door.requests)


@pytest.mark.parametrize(
    "setting",
    [
        "url: https://usher.example",
        "names: [usher.example]",
        "proxies: [127.0.0.1]",
        "host: 0.0.0.0",
    ],
)
def test_what_opens_a_door_needs_a_token_or_keys(setting: str) -> None:
    """`check` would say that everything works while a proxy lets everybody in."""
    page = SMALL.replace("  web:\n", f"  web: {{{setting}}}\n")
    name = setting.partition(":")[0]
    cases = [page, f"{SMALL}api: {{open: true, {setting}}}\n"]
    if name == "host":
        cases.append(f"{SMALL}metrics: {{{setting}}}\n")
    for text in cases:
        with pytest.raises(ConfigError, match="other machines") as refused:
            parse(text, {})
        assert name in str(refused.value) or "metrics" in str(refused.value)
    parse(page.replace(setting, f"{setting}, token: Zk4pX91mQv7sLr2T"), {})
    parse(f"{SMALL}api: {{{setting}}}\n", {})


@pytest.mark.parametrize(
    "setting", ["url: http://localhost:8080", "names: [usher.localhost]", 'host: "::1"', "port: 81"]
)
def test_what_stays_on_this_machine_needs_none(setting: str) -> None:
    """The demo and a private page would need a token."""
    parse(SMALL.replace("  web:\n", f"  web: {{{setting}}}\n"), {})
    parse(f"{SMALL}api: {{open: true, {setting}}}\n", {})
