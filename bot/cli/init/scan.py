"""Identifies the servers at addresses and lists their models, through the backends.

Every kind of backend asks, and the one that knows the server best is used. A server costs at most
`TRY_S`, and its texts are shortened and sanitised before anyone sees them.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

from backends.common.http_replies import HttpRefused
from backends.common.proxies import of_environment
from backends.registry import KINDS, connect
from bot.cli.init.terminal import in_a_line
from bot.http.addresses import is_loopback, joined
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError, BadModel, KeyRefused
from queueing.core.ports import GENERIC, Backend, ServerInfo
from queueing.core.specs import BackendSpec

USUAL: Mapping[int, str] = {port: kind for kind, made in KINDS.items() for port in made.ports}
"""The usual ports, each with its likeliest kind of server."""
PORTS = tuple(USUAL)  # the ports to try

HERE = "127.0.0.1"


def address(text: str) -> str:
    """Parse a server's address, whose scheme may be missing.

    Raises `ValueError` with a sentence for the person.
    """
    url = text.strip()
    url = url if "://" in url else f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(map(str.isspace, url)):
        raise ValueError("A server needs an address such as http://192.168.1.20:8188.")
    if parts.username is not None:
        raise ValueError(
            "An address must not contain a name or a password; the token is asked for separately."
        )
    parts.port  # noqa: B018  raises ValueError for a port out of range
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def places(given: str) -> Iterator[str]:
    """Yield the addresses to try: an address without a port stands for the usual ports."""
    parts = urlsplit(given)
    if parts.port is not None or parts.scheme == "https" or parts.path:
        yield given
    else:
        yield from usual(parts.hostname or "")


def usual(host: str) -> Iterator[str]:
    """Yield the usual addresses on a machine."""
    for port in PORTS:
        yield f"http://{joined(host, port)}"


def likely_kind(url: str) -> str:
    """Return the likeliest kind of server at an address that does not answer."""
    return USUAL.get(urlsplit(url).port or 0, "openai")


def is_here(host: str) -> bool:
    """Return whether a name or address belongs to this machine, so that it can listen there."""
    if is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_can_listen(family, place) for family, _, _, _, place in found)


def _can_listen(family: int, place: object) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind(place)  # type: ignore[arg-type]  # as getaddrinfo returned it
    except OSError:
        return False
    return True


TRY_S = 10.0
AT_ONCE = 4  # addresses; every kind asks each of them
MODELS_MOST = 1000
_PLAIN = {"openai": "text-server", "images": "image-server"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundServer:
    """A server: what it is, and the names of its models.

    If it could not be asked, `trouble` is the reason, and its kind is guessed from its address.
    With `cuda`, `total_mb` is the memory of a GPU of CUDA or ROCm. With `wants_token`, it answers
    but requires a token.
    """

    url: str
    kind: str
    flavour: str = ""
    description: str = ""
    models: tuple[str, ...] = ()
    total_mb: int | None = None
    cuda: bool = False
    token: str = ""
    trouble: str = ""
    wants_token: bool = False

    @property
    def called(self) -> str:
        """Its name for the configuration."""
        if self.kind not in _PLAIN:
            return self.kind
        return self.flavour if self.flavour not in {"", GENERIC} else _PLAIN[self.kind]

    @property
    def machine(self) -> str:
        """The machine it runs on; `HERE` for this one."""
        host = urlsplit(self.url).hostname or ""
        return HERE if is_here(host) else host.casefold()


async def look(
    urls: Sequence[str], *, tokens: Mapping[str, str] | None = None
) -> tuple[FoundServer, ...]:
    """Return a server for each address, in order, whether or not it answers."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(url: str) -> FoundServer:
        async with gate:
            return await _identified(url, (tokens or {}).get(url, ""))

    return tuple(await asyncio.gather(*map(ask, urls)))


async def _identified(url: str, token: str) -> FoundServer:
    kinds = [kind for kind, made in KINDS.items() if made.needs_url]
    kinds.sort(
        key=lambda kind: likely_kind(url) != kind
    )  # stable: the other kinds keep their order
    answers = await asyncio.gather(*(_ask(url, kind, token) for kind in kinds))
    known = [each for each in answers if not each.trouble]
    known.sort(key=lambda each: each.flavour == GENERIC)
    if known:
        return await _with_models(known[0])
    likely = next(each for each in answers if each.kind == likely_kind(url))
    return replace(likely, wants_token=any(each.wants_token for each in answers))


async def _ask(url: str, kind: str, token: str) -> FoundServer:
    unknown = FoundServer(url=url, kind=kind, token=token)
    try:
        async with timeout(TRY_S), _connected(unknown) as server:
            return _described(unknown, await server.probe())
    except TimeoutError:
        return replace(unknown, trouble=f"no answer within {TRY_S:.0f} s")
    except BackendError as error:
        return replace(unknown, trouble=in_a_line(str(error)), wants_token=_wants_token(error))


def _wants_token(error: BackendError) -> bool:
    if isinstance(error, HttpRefused):
        return error.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    return isinstance(error, KeyRefused)


def _described(server: FoundServer, info: ServerInfo) -> FoundServer:
    return replace(
        server,
        flavour=info.flavour,
        description=in_a_line(info.description),
        total_mb=info.total_mb,
        cuda=info.cuda,
    )


async def _with_models(server: FoundServer) -> FoundServer:
    """Add the models the server offers. It stays in the list even if they cannot be read."""
    try:
        async with timeout(TRY_S), _connected(server) as asked:
            names = [in_a_line(model.name) for model in await asked.discover()]
    except (TimeoutError, BackendError):
        return server
    return replace(server, models=tuple(names[:MODELS_MOST]))


@asynccontextmanager
async def _connected(server: FoundServer) -> AsyncIterator[Backend]:
    options = {"token": server.token} if server.token else {}
    proxy = of_environment(os.environ)[0].to(server.url)
    spec = BackendSpec(name=server.kind, kind=server.kind, url=server.url, proxy=proxy)
    try:
        made = connect(replace(spec, options=options))
    except BadModel:  # this kind takes no token
        made = connect(spec)
    try:
        yield made
    finally:
        await made.aclose()
