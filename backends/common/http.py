"""One HTTP client per inference server; the only module that imports httpx.

It turns every way a call can fail into a `BackendError`, limits how much of a server's answer is
read, and keeps addresses and credentials out of all texts. It never retries and knows no server's
API.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue

from backends.common import presence
from queueing.core.errors import BadModel, Rejected, Unavailable
from queueing.core.requests import File

PORTS = {"http": 80, "https": 443}
CONNECT_S = 5.0
ANSWER_S = 30.0  # for control calls; longer means that the server hangs
JSON_LIMIT = 64 * 1024 * 1024  # a full /object_info with many custom nodes is about 10 MB
LINE_LIMIT = 8 * 1024 * 1024
ERROR_LIMIT = 64 * 1024  # of an error's body; enough for any text worth reading

_HALF = re.compile(
    rb"\\u[dD][89a-fA-F]"
)  # also matches half of a whole character: then a second look decides

Transport = (
    httpx.AsyncBaseTransport
)  # what tests pass in; named here so that callers do not import httpx
Params = Mapping[str, str]


class HttpRefused(Rejected):
    """The server answered with a 4xx status; `body` is its text, at most `ERROR_LIMIT` bytes.

    The text may hold file lists and paths of the server: for the log, not for people.
    """

    def __init__(self, cause: str, *, status: int, body: str) -> None:
        super().__init__(cause)
        self.status = status
        self.body = body


class HttpFailed(Unavailable):
    """The server answered with another bad status (3xx, 408, 429, 5xx); `body` as above."""

    def __init__(self, cause: str, *, status: int, body: str) -> None:
        super().__init__(cause)
        self.status = status
        self.body = body


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted authorities; reading them takes as long as many calls."""
    return httpx.create_ssl_context(trust_env=False)


class Http:
    """Calls one server over kept-open connections; calls may overlap.

    Every method raises only `HttpRefused`, `HttpFailed` or `Unavailable`. Paths begin with a slash
    and are appended to the path of `url`.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        transport: Transport | None = None,
    ) -> None:
        try:
            urlsplit(url)  # rejects broken IPv6 addresses, which httpx does not
            address = httpx.URL(url)
        except (ValueError, httpx.InvalidURL):
            raise BadModel("url: not a valid address") from None
        if address.scheme not in {"http", "https"} or not address.host:
            raise BadModel("url: must begin with http:// or https:// and name a server")
        # Credentials move into a header, because httpx logs them with every address.
        auth = httpx.BasicAuth(address.username, address.password) if address.userinfo else None
        self.base = str(address.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")
        self._client = httpx.AsyncClient(
            base_url=self.base,
            auth=auth,
            # Uncompressed, so that a limit on bytes is also a limit on memory.
            headers={"Accept-Encoding": "identity", **(headers or {})},
            transport=transport,
            verify=_certificates(),
            trust_env=False,  # a proxy from the environment would apply to loopback addresses too
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def get_json(
        self,
        path: str,
        *,
        params: Params | None = None,
        timeout_s: float = ANSWER_S,
        limit: int = JSON_LIMIT,
    ) -> JsonValue:
        """GET and return JSON; the whole answer must arrive within `timeout_s`."""
        request = self._get(path, params)
        return parse_json(await self._whole(request, timeout_s, limit))

    async def post_json(
        self,
        path: str,
        body: JsonValue = None,
        *,
        timeout_s: float | None = ANSWER_S,
        limit: int = JSON_LIMIT,
        before_body: Callable[[], Awaitable[None]] | None = None,
    ) -> JsonValue:
        """POST and return JSON; the whole answer must arrive within `timeout_s`.

        An empty answer returns None: ComfyUI answers that way to /free, /queue and /interrupt. The
        body is sent after `before_body` has returned, on a connection that is open by then; an
        exception it raises propagates, and the server gets no complete request.
        """
        request = self._post(path, body, before_body=before_body)
        answer = await self._whole(request, timeout_s, limit)
        return parse_json(answer) if answer else None

    async def post_multipart(
        self,
        path: str,
        *,
        field: str,
        file: File,
        fields: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> JsonValue:
        """Upload one file with form fields and return the JSON answer."""
        request = self._client.build_request(
            "POST", path, files={field: (file.name, file.data, file.mime)}, data=dict(fields or {})
        )
        return parse_json(await self._whole(request, timeout_s, JSON_LIMIT))

    async def get_bytes(
        self, path: str, *, params: Params | None = None, limit: int, read_s: float = ANSWER_S
    ) -> tuple[bytes, str]:
        """Return a body of at most `limit` bytes and its media type, without parameters.

        `read_s` bounds each pause in the transfer, not the whole: pictures may be large.
        """
        request = self._get(path, params)
        async with self._open(request, read_s) as response:
            mime = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            return await _body(response, limit), mime

    @asynccontextmanager
    async def stream_lines(
        self,
        path: str,
        body: JsonValue,
        *,
        read_s: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
        """POST and yield the answer's lines without line ends, in batches as they arrive.

        `read_s` bounds each silence, including the one before the answer. Leaving the context
        closes the connection, which stops the work on servers that notice.
        """
        async with self._open(self._post(path, body, headers), read_s) as response:
            yield _lines(response)

    async def gone(self) -> None:
        """Return when the server has gone away, even if it comes back at once."""
        address = self._client.base_url
        await presence.gone(address.host, address.port or PORTS[address.scheme])

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    def _get(self, path: str, params: Params | None) -> httpx.Request:
        try:
            return self._client.build_request("GET", path, params=params)
        except UnicodeEncodeError:  # a name reported by the server itself
            raise Unavailable("the server names something that no address can hold") from None

    def _post(
        self,
        path: str,
        body: JsonValue,
        headers: Mapping[str, str] | None = None,
        *,
        before_body: Callable[[], Awaitable[None]] | None = None,
    ) -> httpx.Request:
        # httpx would write raw UTF-8 and fail on lone surrogates; escaped JSON carries any text.
        data = json.dumps(body).encode()
        own = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        return self._client.build_request(
            "POST",
            path,
            content=data if before_body is None else _held_back(data, before_body),
            headers={**own, **(headers or {})},
        )

    async def _whole(self, request: httpx.Request, timeout_s: float | None, limit: int) -> bytes:
        """Return the whole body; a server that drips bytes runs into the timeout, too."""
        try:
            async with asyncio.timeout(timeout_s), self._open(request, None) as response:
                return await _body(response, limit)
        except TimeoutError:
            raise Unavailable(f"{_name(request)}: no answer in {timeout_s:g} s") from None

    @asynccontextmanager
    async def _open(
        self, request: httpx.Request, read_s: float | None
    ) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(read_s, connect=CONNECT_S, pool=None)
        request.extensions["timeout"] = timeout.as_dict()
        with _as_unavailable(request):
            response = await self._client.send(request, stream=True)
            try:
                if not response.is_success:
                    raise await _status_error(request, response)
                yield response
            finally:
                await response.aclose()


async def _held_back(
    data: bytes, before_body: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    await before_body()
    yield data


def parse_json(data: bytes | str) -> JsonValue:
    """Return parsed JSON; raise `Unavailable` for anything else, however deeply nested.

    Escaped lone surrogates become "?": neither a database nor a chat can store them.
    """
    try:
        value: JsonValue = json.loads(data)
        if _HALF.search(data if isinstance(data, bytes) else data.encode(errors="replace")):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        raise Unavailable(f"the server answered no JSON: {_excerpt(data)}") from None
    return value


@contextmanager
def _as_unavailable(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        # The same for every request: the error does not say why there is no answer.
        raise Unavailable(f"it cannot be reached ({type(error).__name__})") from error
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        # Only the kind: transport messages can hold the whole address.
        raise Unavailable(f"{_name(request)}: {type(error).__name__}") from error


async def _status_error(
    request: httpx.Request, response: httpx.Response
) -> HttpRefused | HttpFailed:
    status = response.status_code
    body = (await _body(response, ERROR_LIMIT, cut=True)).decode(errors="replace")
    cause = f"{_name(request)}: status {status}: {_excerpt(body)}"
    refused = 400 <= status < 500 and status not in {408, 429}
    return (HttpRefused if refused else HttpFailed)(cause, status=status, body=body)


async def _body(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    """Read a body; more than `limit` bytes raise an error, or are left unread with `cut`."""
    chunks, size = [], 0  # joined once: growing one buffer would copy a picture many times
    if cut and _is_compressed(response):
        return b""
    async for chunk in _chunks(response):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            if cut:
                return b"".join(chunks)[:limit]
            raise Unavailable(f"the server's answer is larger than {limit} bytes")
    return b"".join(chunks)


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield a body as it arrives, never decompressed: a kilobyte can hold gigabytes of nothing."""
    if _is_compressed(response):
        raise Unavailable("the server compresses its answers although it is asked not to")
    async for chunk in response.aiter_bytes():
        yield chunk


def _is_compressed(response: httpx.Response) -> bool:
    return response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}


async def _lines(response: httpx.Response) -> AsyncIterator[Sequence[str]]:
    # httpx's own line reader also splits at U+2028 and the like, which JSON texts may hold raw.
    rest = bytearray()
    async for chunk in _chunks(response):
        rest += chunk
        *lines, rest = rest.split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
        if len(rest) > LINE_LIMIT:
            raise Unavailable(f"the server sent a line of more than {LINE_LIMIT} bytes")
    if rest:
        yield [rest.decode(errors="replace")]


def _name(request: httpx.Request) -> str:
    """Describe a call without host, credentials or query."""
    return f"{request.method} {request.url.path}"


def _excerpt(data: bytes | str) -> str:
    text = data if isinstance(data, str) else data[:1000].decode(errors="replace")
    return ascii(text[:200])
