"""The HTTP client: every failure becomes a `BackendError`, and nothing is read without bound."""

import asyncio
import errno
import gzip
import io
import re
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import JsonValue

from backends.comfyui.server import ComfyUIServer
from backends.common.http import FormPart, Http
from backends.common.http_replies import (
    LARGE,
    AnswerLines,
    HttpFailed,
    HttpRefused,
    why_unreachable,
)
from backends.common.server_replies import ask
from backends.images.replies import classified as image_answer
from backends.openai.flavours.errors import classified as text_answer
from backends.openai.flavours.flavour import Listing
from queueing.core.errors import BadModel, Busy, Unavailable, UnreadableAnswer
from queueing.core.requests import File

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Http]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[TestServer] = []
    clients: list[Http] = []

    async def start(handler: Handler) -> Http:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        clients.append(Http(str(server.make_url("/"))))
        return clients[-1]

    yield start
    for client in clients:
        await client.aclose()
    for server in servers:
        await server.close()


async def test_json_goes_there_and_back(serve: Serve) -> None:
    """No call with a body would reach a server."""

    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"got": await request.json()})

    http = await serve(echo)
    body: JsonValue = {"a": ["ü", 1, None, "😀"]}
    assert await http.post_json("/x", body) == {"got": body}
    # Half a character is sent unchanged and comes back as one that can be stored and shown.
    assert await http.post_json("/x", {"a": "x\ud800"}) == {"got": {"a": "x?"}}
    # A caller's body may hold numbers that only Python writes and reads.
    assert await http.post_json("/x", {"a": float("nan")}) == {"got": {"a": None}}


async def test_a_query_is_escaped_and_the_media_type_told(serve: Serve) -> None:
    """Files with odd names could not be fetched."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.query["name"], content_type="image/png")

    http = await serve(answer)
    for name in ("ä&b=c", "a+b c%20d", "../#?x;y/z"):
        got = await http.get_bytes("/view", limit=100, params={"name": name})
        assert got == (name.encode(), "image/png")


async def test_an_empty_answer_to_a_post_is_none(serve: Serve) -> None:
    """ComfyUI's empty answers to /free and /interrupt would count as unreadable."""

    async def empty(_: web.Request) -> web.Response:
        return web.Response()

    assert await (await serve(empty)).post_json("/free", {}) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, HttpRefused),
        (404, HttpRefused),
        (302, HttpFailed),
        (408, HttpFailed),
        (429, HttpFailed),
        (500, HttpFailed),
    ],
)
async def test_bad_status_tells_status_and_body(
    serve: Serve, status: int, kind: type[HttpRefused] | type[HttpFailed]
) -> None:
    """A wrong request would be retried, or a brief fault of a server fail a job."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="no such thing")

    with pytest.raises(kind) as caught:
        await (await serve(answer)).get_json("/a")
    assert isinstance(caught.value, HttpRefused | HttpFailed)
    assert caught.value.status == status
    assert caught.value.body == "no such thing"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://u:p4ss@gpu.example/login?key=s3cret#t0p", "'https://gpu.example/login'"),
        ("//gpu.example/", "'http://gpu.example/'"),
        ("http://[", "''"),
    ],
)
async def test_a_redirect_says_where_to(serve: Serve, location: str, told: str) -> None:
    """An operator would not learn that the address leads to a login page, or lacks https."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": location})

    with pytest.raises(HttpFailed, match="status 302") as caught:
        await (await serve(answer)).get_json("/a")
    assert str(caught.value).endswith(told)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, {"detail": "Not Found"}, "no ComfyUI answers at this url"),
        (200, [], "no ComfyUI answers at this url: unexpected answer"),
        (200, {"devices": []}, "no ComfyUI answers at this url: unexpected answer"),
        (401, {"error": "log in"}, "status 401"),
    ],
)
async def test_another_server_is_not_taken_for_a_broken_comfyui(
    serve: Serve, status: int, body: JsonValue, told: str
) -> None:
    """An operator would look for a fault in ComfyUI, not in the address."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    with pytest.raises((Unavailable, UnreadableAnswer), match=told):
        await ComfyUIServer(await serve(answer)).stats()


@pytest.mark.parametrize(
    ("told", "least_s", "most_s"),
    [
        ("7", 7, 7),
        ("0.5", 0.5, 0.5),
        ("-3", 0, 0),
        ("in an hour", 3000, 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
    ],
)
async def test_a_busy_server_says_when_to_ask_again(
    serve: Serve, told: str, least_s: float, most_s: float
) -> None:
    """A server would be asked again too soon, or marked as down."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=429, text="slow down", headers={"Retry-After": said})

    hour = datetime.now(UTC) + timedelta(hours=1)
    said = format_datetime(hour, usegmt=True) if told == "in an hour" else told
    http = await serve(answer)
    for classified in (text_answer, image_answer):
        with pytest.raises(Busy) as caught, classified():
            await http.get_json("/")
        assert caught.value.after_s is not None
        assert least_s <= caught.value.after_s <= most_s


@pytest.mark.parametrize("told", ["", "soon", "nan", "inf", "9" * 400, "Wed, 99 Oct 2015"])
async def test_what_is_no_moment_is_not_waited_for(serve: Serve, told: str) -> None:
    """A malformed header would raise an exception, or cause an endless pause."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": told})

    http = await serve(answer)
    with pytest.raises(HttpFailed) as caught:
        await http.get_json("/")
    assert caught.value.after_s is None


@pytest.mark.parametrize("text", ["", "<html>", "[" * 100_000, '{"a":', b"\xff\xfe"])
async def test_garbage_is_an_unreadable_answer(serve: Serve, text: str | bytes) -> None:
    """A broken server would crash the caller instead of being retried."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=text)

    with pytest.raises(UnreadableAnswer):
        await (await serve(answer)).get_json("/a")


async def test_a_body_beyond_the_limit_is_not_read(serve: Serve) -> None:
    """A server could fill the memory of the bot."""

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    http = await serve(flood)
    with pytest.raises(UnreadableAnswer, match="larger than 100000 bytes"):
        await http.get_bytes("/view", limit=100_000)
    with pytest.raises(UnreadableAnswer, match="larger"):
        await http.get_json("/big", limit=100_000)


async def test_of_large_answers_one_at_a_time_is_held(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with long lists could fill the memory with all of them at once."""
    body, held, most = "", 0, 0

    async def large(_request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    async def slowly(parse: Callable[[bytes], JsonValue], text: bytes) -> JsonValue:
        nonlocal held, most
        held, most = held + 1, max(most, held + 1)
        await asyncio.sleep(0.05)
        held -= 1
        return parse(text)

    monkeypatch.setattr("backends.common.http.parsed", slowly)
    http = await serve(large)
    for size in (LARGE + 1, 10):
        body, most = f'"{"x" * size}"', 0
        asking = (http.get_json("/"), http.get_json("/"), http.post_json("/"))
        assert {len(str(each)) for each in await asyncio.gather(*asking)} == {size}
        assert (most == 1) == (size > LARGE)


async def test_an_answer_of_too_many_values_is_not_parsed(serve: Serve) -> None:
    """A few megabytes of `[],` would take as much memory as the bot has."""
    body = b'{"data": [' + b"[]," * 1_500_000 + b"[]]}"

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=io.BytesIO(body), content_type="application/json")

    http = await serve(answer)
    tracemalloc.start()
    try:
        for asked in (http.get_json("/"), http.post_json("/"), ask(http, "/", Listing)):
            with pytest.raises(UnreadableAnswer, match="more than 1000000 values"):
                await asked
        async with http.stream_lines("/", None, read_s=5.0) as lines:
            with pytest.raises(UnreadableAnswer, match="more than 1000000 values"):
                await anext(lines)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(body)
    finally:
        tracemalloc.stop()


async def test_an_answer_with_a_number_of_thousands_of_digits_is_not_parsed(serve: Serve) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(text="[" + f"{'9' * 4_000}," * 300 + "1]")

    http = await serve(answer)
    with pytest.raises(UnreadableAnswer, match="a number of more than 400 characters"):
        await http.get_json("/")


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate", "br", "zstd", "X-GZIP"])
async def test_a_compressed_answer_is_not_unpacked(serve: Serve, coding: str) -> None:
    """A compressed kilobyte could fill the memory, whatever the limit is."""
    bomb = gzip.compress(bytes(50_000_000))
    if coding == "gzip, gzip":
        bomb = gzip.compress(bomb)

    async def answer(request: web.Request) -> web.Response:
        status = 500 if request.path == "/broken" else 200
        return web.Response(body=bomb, status=status, headers={"Content-Encoding": coding})

    http = await serve(answer)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableAnswer, match="compresses its answers"):
            await http.get_json("/x", limit=1000)
        async with http.stream_lines("/x", {}, read_s=5) as lines:
            with pytest.raises(UnreadableAnswer, match="compresses its answers"):
                await anext(lines)
        with pytest.raises(HttpFailed) as failed:
            await http.get_json("/broken")
        assert failed.value.body == ""
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_a_dripping_answer_ends_by_the_timeout(serve: Serve) -> None:
    """One byte now and then would keep a control call waiting forever."""

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    with pytest.raises(Unavailable, match=r"GET /slow: no answer in 0\.1 s"):
        await (await serve(drip)).get_json("/slow", timeout_s=0.1)


async def test_silence_in_a_transfer_is_unavailable(serve: Serve) -> None:
    """A half-open connection would hang a download."""
    over = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    http = await serve(silent)
    with pytest.raises(Unavailable):
        await http.get_bytes("/view", limit=10, read_s=0.05)
    with pytest.raises(Unavailable):
        async with http.stream_lines("/chat", {}, read_s=0.05):
            pass
    over.set()


async def test_lines_split_at_no_other_sign(serve: Serve) -> None:
    """A text with a raw U+2028 would break its event in two."""
    sent = 'data: "a\u2028b\x85c"\r\n\n' + "x" * 300_000 + "\nlast"

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        data = sent.encode()
        for start in range(0, len(data), 7000):
            await response.write(data[start : start + 7000])
        return response

    async with (await serve(stream)).stream_lines("/chat", {}, read_s=5) as lines:
        got = [line async for block in lines for line in block]
    assert got == ['data: "a\u2028b\x85c"', "", "x" * 300_000, "last"]


async def test_lines_end_in_every_way_that_events_may(subtests: pytest.Subtests) -> None:
    """An answer whose lines end with CR would be read as one line, and be unreadable."""
    sent = b"data: a\rdata: b\r\n\r\n\rdata: c\n\ndata: d\r"
    meant = ["data: a", "data: b", "", "", "data: c", "", "data: d"]
    for size in range(1, len(sent) + 1):
        with subtests.test(size=size):
            pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
            response = Mock(headers={})
            response.content.read = AsyncMock(side_effect=[*pieces, b"", b""])
            assert [line async for block in AnswerLines(response) for line in block] == meant


async def test_a_stream_cut_in_the_middle_is_unavailable(serve: Serve) -> None:
    """Half an answer would pass for a whole one."""

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: 1\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    with pytest.raises(Unavailable):  # noqa: PT012  # the reading is what fails
        async with (await serve(cut)).stream_lines("/chat", {}, read_s=5) as lines:
            async for _ in lines:
                pass


async def test_a_stream_that_is_left_closes_its_connection(serve: Serve) -> None:
    """A server would write an answer that no one reads."""
    closed = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: 1\n")
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    async with (await serve(endless)).stream_lines("/chat", {}, read_s=5) as lines:
        await anext(lines)
    await asyncio.wait_for(closed.wait(), 10)


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[Http]:
    """Yield a client of a server that answers each request with these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    http = Http(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield http
    await http.aclose()
    server.close()


async def test_broken_framing_is_unavailable(subtests: pytest.Subtests) -> None:
    """A broken answer from a proxy would raise an exception instead of a retry."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for body in (b"5\r\nhel", b"zz\r\nhello\r\n", b"5\r\nhelloX"):
        async with answering(head + body) as http:
            with subtests.test(body=body), pytest.raises(Unavailable):
                await http.get_json("/x")
            with subtests.test(stream=body), pytest.raises(Unavailable):  # noqa: PT012  # reading fails
                async with http.stream_lines("/x", {}, read_s=5) as lines:
                    async for _ in lines:
                        pass


async def test_an_answer_that_is_not_http_is_unavailable(subtests: pytest.Subtests) -> None:
    """Another program on the port would cause an unexpected exception."""
    for head in (b"nonsense\r\n\r\n", b"HTTP/9.9 xx\r\n\r\n", b""):
        async with answering(head) as http:
            with subtests.test(head=head), pytest.raises(Unavailable):
                await http.post_json("/x", {})


async def test_an_upload_keeps_name_and_fields(serve: Serve) -> None:
    """Images to start from would not reach ComfyUI."""

    async def take(request: web.Request) -> web.Response:
        form = await request.post()
        image = form["image"]
        assert isinstance(image, web.FileField)
        return web.json_response([image.filename, image.file.read().decode(), form["type"]])

    http = await serve(take)
    fields = {"type": "input"}
    for name in ("a.png", "größer (1).png"):
        file = File(name=name, mime="image/png", data=b"bytes")
        answer = await http.post_multipart("/upload", field="image", file=file, fields=fields)
        assert answer == [name, "bytes", "input"]


async def test_a_large_upload_is_sent_piece_by_piece(serve: Serve) -> None:
    """Copying an hour of speech to the socket would block everything else."""

    async def take(request: web.Request) -> web.Response:
        return web.json_response(sum([len(piece) async for piece in request.content.iter_any()]))

    http = await serve(take)
    data = bytes(3_000_000)  # aiohttp warns of large bodies that are sent at once
    file = File(name="a.wav", mime="audio/wav", data=data)
    whole = await http.post_multipart("/upload", field="file", file=file)
    assert isinstance(whole, int)
    assert whole > len(data)
    part = FormPart(name="file", file="a.wav", mime="audio/wav", data=data)
    assert await http.post_form("/upload", [part], {}, timeout_s=60) == whole


async def test_credentials_travel_as_a_header_and_appear_in_no_text(serve: Serve) -> None:
    """A password in a server's address would end up in logs."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=500, text=request.headers["Authorization"][:6])

    plain = await serve(answer)
    http = Http(plain.base.replace("http://", "http://me:hunter2@"))
    with pytest.raises(HttpFailed) as caught:
        await http.get_json("/a", params={"token": "hunter2"})
    await http.aclose()
    assert caught.value.body == "Basic "
    assert "hunter2" not in str(caught.value) + http.base


async def test_nobody_there_is_unavailable(unused_tcp_port: int) -> None:
    """A stopped server would crash its callers."""
    http = Http(f"http://127.0.0.1:{unused_tcp_port}")
    told = r"^cannot connect: connection refused; is it running\?$"
    with pytest.raises(Unavailable, match=told):
        await http.get_json("/x")
    await http.aclose()


async def test_a_server_that_speaks_no_https_is_told_as_such(serve: Serve) -> None:
    """An operator would read an exception's name, and not that `https` should be `http`."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    plain = await serve(answer)
    http = Http(plain.base.replace("http://", "https://"))
    with pytest.raises(Unavailable, match="it does not speak https"):
        await http.get_json("/x")
    await http.aclose()


def test_why_a_server_cannot_be_reached_is_told_in_words(subtests: pytest.Subtests) -> None:
    """A wrong name, a machine that is off and an unknown certificate would look the same."""
    cases: list[tuple[OSError, str]] = [
        (socket.gaierror(-2, "unknown"), "its host name cannot be resolved"),
        (OSError(errno.EHOSTUNREACH, "no route"), "no route to its host"),
        (
            ssl.SSLCertVerificationError(1, "self-signed"),
            "this machine does not trust its certificate",
        ),
        (OSError(errno.EMFILE, "too many"), r"no connection \(OSError\)"),
    ]
    for cause, told in cases:
        with subtests.test(told=told):
            error = aiohttp.ClientConnectorError(Mock(), cause)
            assert re.match(told, why_unreachable(error))
            assert str(cause) not in why_unreachable(error)


def test_an_unusable_address_is_a_configuration_error(subtests: pytest.Subtests) -> None:
    """A mistyped address would only be noticed when the first job runs."""
    for url in ["", "localhost:8188", "ftp://a", "http://", "http://[", "http://a:b"]:
        with subtests.test(url=url), pytest.raises(BadModel, match="url"):
            Http(url)


async def test_certificates_are_read_once_however_many_servers_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every start would spend most of its time reading the same file repeatedly."""
    read = 0

    def counted(*_: object, **__: object) -> ssl.SSLContext:
        nonlocal read
        read += 1
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    for port in range(1, 4):
        client = Http(f"https://127.0.0.1:{port}")
        with pytest.raises(Unavailable):
            await client.get_json("/x")
        await client.aclose()
    assert read <= 1
