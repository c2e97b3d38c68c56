"""The HTTP client for one inference server.

It turns every failed call into a `BackendError`, limits how much of a response is read, and keeps
addresses and credentials out of all messages. It never repeats a POST. It contains no server's API.
"""

import asyncio
import io
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

import aiohttp
from aiohttp import hdrs
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import JsonValue
from yarl import URL

from backends.common import websocket
from backends.common.http_replies import (
    ERROR_LIMIT,
    JSON_LIMIT,
    WORDS_LIMIT,
    AnswerLines,
    parse_json,
    read_body,
    status_error,
    why_unreachable,
)
from backends.common.proxies import through
from backends.common.websocket import talking
from queueing.core.bounded_json import parsed, written
from queueing.core.concurrency import timeout
from queueing.core.errors import BadModel, Unavailable, UnreadableAnswer
from queueing.core.requests import File

PIECES_FROM = 1024 * 1024  # bytes of a request body


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCall:
    """A request to a server. Its string form omits the host, credentials and query."""

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    url: URL
    data: "bytes | io.BytesIO | aiohttp.FormData | None" = None
    headers: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.url.path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormPart:
    """A file in a form; several parts may share a name."""

    name: str
    file: str
    data: bytes
    mime: str = "image/png"


def pieces(data: bytes) -> bytes | io.BytesIO:
    """Return a large body as a stream, because writing it in one go blocks the event loop."""
    return data if len(data) < PIECES_FROM else io.BytesIO(data)


CONNECT_S = 5.0
ANSWER_S = 30.0  # for control calls; a slower server is considered hung
KEPT_S = 5.0  # idle keep-alive; common servers close theirs after the same time

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")

Params = Mapping[str, str]


class Http:
    """Calls one server over kept-alive connections; calls may overlap.

    Methods raise only `HttpRefused`, `HttpFailed`, `Unavailable` or `UnreadableAnswer`. Paths begin
    with a slash and are appended to the path of `url`. `proxy` is an HTTP proxy to go through.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, proxy: str | None = None
    ) -> None:
        try:
            address = URL(url)
        except ValueError:
            raise BadModel("url: not a valid address") from None
        if address.scheme not in {"http", "https"} or not address.host:
            raise BadModel("url: must begin with http:// or https:// and name a server")
        # Uncompressed, so that a limit on bytes also limits memory.
        own: dict[str, str] = {hdrs.ACCEPT_ENCODING: "identity"}
        self.headers = {**own, **(headers or {}), **_credentials(address)}
        self._address = address
        self.prefix = address.path.rstrip("/")  # path prefix of every call
        self.base = str(address.with_user(None).with_query(None).with_fragment(None)).rstrip("/")
        self.proxy = proxy
        self._opened: aiohttp.ClientSession | None = None
        self._large = asyncio.Lock()

    async def get_json(
        self,
        path: str,
        *,
        params: Params | None = None,
        timeout_s: float = ANSWER_S,
        limit: int = WORDS_LIMIT,
    ) -> JsonValue:
        """GET and return JSON. The whole response must arrive within `timeout_s`."""
        call = ServerCall(method="GET", url=self._url(path, params))
        return await self._json(call, timeout_s, limit)

    async def post_json(
        self,
        path: str,
        body: JsonValue = None,
        *,
        timeout_s: float | None = ANSWER_S,
        limit: int = JSON_LIMIT,
    ) -> JsonValue:
        """POST and return JSON. The whole response must arrive within `timeout_s`.

        Returns None for an empty response, which ComfyUI sends for /free, /queue and /interrupt.
        """
        return await self._json(self._post(path, body), timeout_s, limit, empty=True)

    async def post_multipart(
        self,
        path: str,
        *,
        field: str,
        file: File,
        fields: Mapping[str, str] | None = None,
        timeout_s: float | None = 120.0,
    ) -> JsonValue:
        """Upload one file with form fields and return the JSON response."""
        form = aiohttp.FormData(dict(fields or {}), quote_fields=False)
        # Streamed: sending a large file in one go would block the event loop.
        form.add_field(field, BytesIO(file.data), filename=file.name, content_type=file.mime)
        call = ServerCall(method="POST", url=self._url(path), data=form)
        return await self._json(call, timeout_s, JSON_LIMIT)

    async def post_form(
        self,
        path: str,
        parts: Sequence[FormPart],
        fields: Mapping[str, str],
        *,
        timeout_s: float | None,
    ) -> JsonValue:
        """Send a form with several files and return the JSON response."""
        form = aiohttp.FormData(dict(fields), quote_fields=False)
        for part in parts:
            form.add_field(
                part.name, BytesIO(part.data), filename=part.file, content_type=part.mime
            )
        call = ServerCall(method="POST", url=self._url(path), data=form)
        return await self._json(call, timeout_s, JSON_LIMIT)

    async def post_for_bytes(
        self, path: str, body: JsonValue, *, timeout_s: float | None, limit: int
    ) -> bytes:
        """POST and return a non-JSON response of at most `limit` bytes."""
        return await self._whole(self._post(path, body), timeout_s, limit)

    async def delete(self, path: str) -> None:
        """DELETE and ignore the response body."""
        await self._whole(ServerCall(method="DELETE", url=self._url(path)), ANSWER_S, ERROR_LIMIT)

    async def head(self, path: str, *, params: Params | None = None) -> None:
        """Ask for a response without its body; `HttpRefused` if there is none."""
        call = ServerCall(method="HEAD", url=self._url(path, params))
        await self._whole(call, ANSWER_S, ERROR_LIMIT)

    async def get_bytes(
        self, path: str, *, params: Params | None = None, limit: int, read_s: float = ANSWER_S
    ) -> tuple[bytes, str]:
        """Return a body of at most `limit` bytes and its media type without parameters.

        `read_s` limits each pause in the transfer, not the whole transfer, because images may be
        large.
        """
        call = ServerCall(method="GET", url=self._url(path, params))
        async with self._open(call, read_s) as response:
            mime = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            return await read_body(response, limit), mime

    @asynccontextmanager
    async def stream_lines(
        self,
        path: str,
        body: JsonValue,
        *,
        read_s: float | None,
    ) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
        """POST and yield the response in batches of lines, without line ends, as they arrive.

        `read_s` limits each silence, including the one before the response. Leaving the context
        closes the connection, which stops the work on servers that notice.
        """
        async with self._open(self._post(path, body), read_s) as response:
            yield AnswerLines(response)

    @asynccontextmanager
    async def talk(
        self, path: str, first: JsonValue, *, silence_s: float | None
    ) -> AsyncIterator[AsyncIterator[str]]:
        """Open a websocket, send one JSON message and yield the server's text messages.

        `silence_s` limits the wait for each message. Leaving the context closes the connection.
        """
        url = self.socket_url(path)
        with self._as_unavailable(ServerCall(method="GET", url=url)):
            async with talking(
                self.headers, url, written(first), proxy=self.proxy, silence_s=silence_s
            ) as texts:
                yield texts

    def socket_url(self, path: str) -> URL:
        """Return the address of a websocket of the server, without credentials."""
        url = self._url(path)
        return url.with_scheme("wss" if url.scheme == "https" else "ws")

    async def gone(self) -> None:
        """Wait until the server goes away, even if only briefly for a restart.

        Never returns behind a proxy, because connections to the proxy outlive the server.
        """
        if self.proxy is not None:
            await asyncio.get_running_loop().create_future()
        await websocket.gone(self._address.host or "", self._address.port or 0)

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        """Return the session, created on first use because it belongs to the running loop."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S),
                cookie_jar=aiohttp.CookieJar(unsafe=True),  # for load balancers addressed by IP
                headers=self.headers,
                auto_decompress=False,
            )
        return self._opened

    def _url(self, path: str, params: Params | None = None) -> URL:
        for named in (path, *(params or {}).values()):
            if _HALF_CHARACTER.search(named):  # a name that the server itself reported
                raise UnreadableAnswer("the server reports a name that cannot be part of a URL")
        url = URL(self.base + path)
        return url.update_query(params) if params else url

    def _post(self, path: str, body: JsonValue) -> ServerCall:
        # Raw UTF-8 cannot hold lone surrogates; escaped JSON carries any text.
        data = written(body).encode()
        headers: dict[str, str] = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.CONTENT_LENGTH: str(len(data)),
        }
        return ServerCall(method="POST", url=self._url(path), data=pieces(data), headers=headers)

    async def _json(
        self, call: ServerCall, timeout_s: float | None, limit: int, *, empty: bool = False
    ) -> JsonValue:
        """Return JSON. Holds only one large response in memory at a time. `empty` allows None."""
        async with AsyncExitStack() as until_parsed:

            async def turn() -> None:
                await until_parsed.enter_async_context(self._large)

            body = await self._whole(call, timeout_s, limit, turn)
            return None if empty and not body else await parsed(parse_json, body)

    async def _whole(
        self,
        call: ServerCall,
        timeout_s: float | None,
        limit: int,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> bytes:
        """Return the whole body. The timeout also covers a server that sends it in small pieces."""
        try:
            async with timeout(timeout_s), self._open(call, None) as response:
                return await read_body(response, limit, turn=turn)
        except TimeoutError:
            raise Unavailable(f"{call}: no answer in {timeout_s:g} s") from None

    @asynccontextmanager
    async def _open(
        self, call: ServerCall, read_s: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=read_s)
        with self._as_unavailable(call):
            response = await self._session().request(
                call.method,
                call.url,
                data=call.data,
                headers=call.headers,
                proxy=self.proxy,
                timeout=limits,
                allow_redirects=False,
            )
            try:
                if not 200 <= response.status < 300:
                    raise await status_error(str(call), response, self.base)
                yield response
            finally:
                response.close()  # keeps the connection alive if the response was read completely

    @contextmanager
    def _as_unavailable(self, call: ServerCall) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Identical for every call, because the cause does not depend on the request.
            text = f"cannot connect: {why_unreachable(error)}{through(self.proxy)}"
            raise Unavailable(text) from error
        except aiohttp.ClientHttpProxyError as error:
            raise Unavailable(
                f"cannot connect: status {error.status}{through(self.proxy)}"
            ) from error
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            # Only the kind: transport messages can hold the whole address.
            raise Unavailable(f"{call}: {type(error).__name__}") from error


def _credentials(address: URL) -> dict[str, str]:
    if not address.user and not address.password:
        return {}
    login = f"{address.user or ''}:{address.password or ''}".encode()
    return {hdrs.AUTHORIZATION: f"Basic {b64encode(login).decode()}"}
