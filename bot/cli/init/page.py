"""Plans the page in the browser: where it listens, and its token if other machines reach it."""

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pydantic import SecretStr, TypeAdapter, ValidationError

from bot.cli.init import scan
from bot.cli.init.terminal import InitFailed, Terminal, ask_for
from bot.config.values import Url, long_enough
from bot.http.addresses import opened_by

USUAL_PORT = 8080
TOKEN = "WEB_TOKEN"  # noqa: S105  # the variable's name
_PORTS = range(USUAL_PORT, USUAL_PORT + 20)
_URL: TypeAdapter[str] = TypeAdapter(Url)


@dataclass(frozen=True, kw_only=True, slots=True)
class PagePlan:
    """The page's port; with `url`, other machines reach it there and it has a `token`."""

    port: int = USUAL_PORT
    url: str | None = None
    token: str | None = None

    @property
    def direct(self) -> bool:
        """Whether it is reached without a proxy: an http address names the page's own port."""
        parts = urlsplit(self.url or "")
        return parts.scheme == "http" and parts.port is not None


def address(given: str) -> str | None:
    """Read the address people reach the page by; None for this machine alone.

    Raises `ValueError` with a sentence.
    """
    if not given:
        return None
    try:
        url = _URL.validate_python(given)
    except ValidationError:
        raise ValueError("It must be an address such as https://usher.example.net.") from None
    return url if opened_by(scan.HERE, url=url) else None


def plan(given: str | None, terminal: Terminal, environ: Mapping[str, str]) -> PagePlan:
    """Return the page, with a new token unless the environment has one. Raises `InitFailed`."""
    question = "Address others will reach the page by; Enter for this machine alone"
    url = given or ask_for(terminal, question, "", address)
    if url is None:
        return PagePlan(port=_free_port())
    token = environ.get(TOKEN) or secrets.token_hex(16)
    try:
        long_enough(SecretStr(token))
    except ValueError as error:
        raise InitFailed(f"{TOKEN} {error}") from None
    made = PagePlan(url=url, token=token)
    port = urlsplit(url).port if made.direct else None
    return replace(made, port=port or _free_port())


def _free_port() -> int:
    """Return a port for the page: a server may have the usual one."""
    for port in _PORTS:
        with socket.socket() as tried:
            if os.name == "posix":  # a port whose last connections have just ended is free
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((scan.HERE, port))
            except OSError:
                continue
            return port
    return USUAL_PORT
