"""Requests in multipart form: every way to write one, and every way to break one."""

import asyncio
import gzip
import io
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bot.api.application import error_response
from bot.api.calls import bodies
from bot.api.calls.errors import ApiError
from bot.api.calls.forms import FIELD_LIMIT, PARTS_LIMIT, form_of
from bot.http.listener import Listener
from bot.requests.files.images import IMAGE_MB
from tests.samples import examples

TYPE = "multipart/form-data; boundary=cut"
END = b"--cut--\r\n"
WAIT_S = 60.0


def part(name: str | None, data: bytes, more: str = "", headers: bytes = b"") -> bytes:
    """Return a part as clients write it."""
    about = "form-data" + (f'; name="{name}"' if name is not None else "") + more
    lines = b"--cut\r\nContent-Disposition: " + about.encode() + b"\r\n" + headers
    return lines + b"\r\n" + data + b"\r\n"


class Forms:
    """A server that reads forms, with its description of the last one."""

    def __init__(self, url: str, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self._url = url
        self._session = session

    async def send(
        self, body: Any, kind: str = TYPE, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        sent = {"Content-Type": kind, **(headers or {})}
        async with self._session.post(self._url, data=body, headers=sent) as answer:
            return answer.status, await answer.json()


async def read(request: web.Request) -> web.Response:
    try:
        form = await form_of(request, files={"image", "mask"})
    except ApiError as error:
        return error_response(error)
    files = [[file.name, file.param, len(file.data)] for file in form.files]
    return web.json_response({"fields": form.fields, "files": files})


@asynccontextmanager
async def forms() -> AsyncIterator[Forms]:
    app = web.Application()
    app.router.add_post("/", read)
    listener = Listener(app)
    port = await listener.open("127.0.0.1", 0)
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    connector = aiohttp.TCPConnector(force_close=True)  # a refused body ends its connection
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        yield Forms(f"http://127.0.0.1:{port}/", port, session)
    await listener.close()


@pytest.fixture
async def server() -> AsyncIterator[Forms]:
    async with forms() as server:
        yield server


FILE = part("image", b"pixels", '; filename="a.png"')
TEXT = part("prompt", "a cät".encode())


async def test_fields_stand_before_or_after_files() -> None:
    """Half of the clients would be told that a field is missing."""
    cases: list[bytes] = [TEXT + FILE, FILE + TEXT]
    for body in cases:
        async with forms() as server:
            status, form = await server.send(body + END)
        assert status == 200, body
        assert form == {"fields": {"prompt": "a cät"}, "files": [["image", "image", 6]]}, body


async def test_a_file_is_known_by_its_field_only(server: Forms) -> None:
    """openai-python sends a mask as `upload` of type application/octet-stream."""
    fields = ("image", "image[]", "image[0]", "image[12]")
    names = ('"upload"', '"../../etc/passwd"')
    more = ("", "; filename*=UTF-8''b%C3%A4r.png", *(f"; filename={name}" for name in names))
    for name, after, kind in product(fields, more, (b"", b"Content-Type: text/plain\r\n")):
        status, form = await server.send(part(name, b"\0\1\2", after, kind) + END)
        assert (status, form["files"]) == (200, [["image", name, 3]]), (after, kind)


async def test_files_keep_their_order_and_a_file_may_contain_what_resembles_a_boundary(
    server: Forms,
) -> None:
    """Another image than the first would be edited."""
    tricky = b"\r\n--cu\r\n--cux\r\n-\r\n\r\n"
    body = part("image[]", b"1") + part("mask", b"") + part("image[]", tricky) + END
    status, form = await server.send(body)
    assert status == 200
    assert form["files"] == [
        ["image", "image[]", 1],
        ["mask", "mask", 0],
        ["image", "image[]", len(tricky)],
    ]


async def test_a_form_that_came_whole_is_read_without_a_warning(
    server: Forms,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Aiohttp logs a stack for each read beyond the end: four images and a mask made dozens."""
    body = b"".join(part("image[]", b"pixels" * 20) for _ in range(20)) + part("mask", b"white")
    status, form = await server.send(body + END)
    assert (status, len(form["files"])) == (200, 21)
    assert not caplog.records


BROKEN: dict[str, tuple[bytes, str]] = {
    "stops in mid-part": (TEXT + FILE[:-4], TYPE),
    "stops in a header": (TEXT + FILE[:20], TYPE),
    "stops before the end": (TEXT, TYPE),
    "is empty": (b"", TYPE),
    "has another boundary": (TEXT + END, TYPE.replace("cut", "knife")),
    "has no boundary": (TEXT + END, "multipart/form-data"),
    "has a long boundary": (TEXT + END, TYPE.replace("cut", "c" * 200)),
    "has an endless header": (
        b"--cut\r\nContent-Disposition: " + b"x" * 9000 + b"\r\n\r\n" + END,
        TYPE,
    ),
    "has a thousand headers": (b"--cut\r\n" + b"A: b\r\n" * 1000 + b"\r\n" + END, TYPE),
    "has a header that is none": (b"--cut\r\nnonsense\r\n\r\n\r\n" + END, TYPE),
    "has a part without a name": (part(None, b"x") + END, TYPE),
    "has a part with an empty name": (part("", b"x") + END, TYPE),
    "has a form in a form": (
        part(
            "image",
            b"--b\r\n\r\n\r\n--b--",
            headers=b"Content-Type: multipart/mixed; boundary=b\r\n",
        )
        + END,
        TYPE,
    ),
    "has a field twice": (TEXT + TEXT + END, TYPE),
    "has a field that is no text": (part("prompt", b"\xff\xfe") + END, TYPE),
    "has a long field": (part("prompt", b"x" * (FIELD_LIMIT + 1)) + END, TYPE),
    "has many parts": (part("image[]", b"") * (PARTS_LIMIT + 1) + END, TYPE),
    "has a charset of its own": (part("_charset_", b"x" * 40) + TEXT + END, TYPE),
}


async def test_a_broken_form_is_a_bad_request(server: Forms, subtests: pytest.Subtests) -> None:
    """The caller would wait forever, or be told of a bug in the server."""
    for how, (body, kind) in BROKEN.items():
        with subtests.test(how):
            status, answer = await server.send(body, kind)
            assert status == 400, answer
            assert answer["error"]["message"].endswith(".")


async def test_another_kind_of_body_is_named(server: Forms) -> None:
    """A client that sends JSON would be told that its form is broken."""
    assert (await server.send(b"{}", "application/json"))[0] == 415
    encoded = {"Content-Encoding": "brotli"}
    assert (await server.send(TEXT + END, headers=encoded))[0] == 415


async def test_a_form_in_gzip_is_read(server: Forms, caplog: pytest.LogCaptureFixture) -> None:
    """A gateway's standard encoding would be called broken, or a broken body would fill the log."""
    packed = {"Content-Encoding": "gzip"}
    status, form = await server.send(gzip.compress(TEXT + END), headers=packed)
    assert (status, form["fields"]) == (200, {"prompt": "a cät"})
    assert (await server.send(TEXT + END, headers=packed))[0] == 400
    bomb = gzip.compress(part("image", b"\0" * 80_000_000) + END)
    assert (await server.send(bomb, headers=packed))[0] == 413
    assert not [each for each in caplog.records if each.levelname in {"ERROR", "WARNING"}]


async def pieces(count: int, size: int, began: bytes = b"") -> AsyncIterator[bytes]:
    yield began
    for _ in range(count):
        yield bytes(size)


async def test_nothing_of_an_oversized_body_is_kept() -> None:
    """A few callers would fill the memory."""
    endless = part("unknown", b"")[:-2]
    large = part("image", b"")[:-2]
    megabyte = 2**20
    tracemalloc.start()
    async with forms() as server:
        for began in (large, endless, b"", b"\r\n" * 10):
            status, answer = await server.send(pieces(200, megabyte, began))
            assert status in {400, 413}, answer
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < (IMAGE_MB + 20) * megabyte


async def test_a_body_announced_as_too_large_is_not_read(server: Forms) -> None:
    """Sixty-four megabytes would cross the network only to be refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\nContent-Length: 99999999\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(WAIT_S):
        assert b" 413 " in await reader.readline()
    writer.close()


@pytest.mark.parametrize("sent", [b"", TEXT, TEXT + FILE[:-4]])
async def test_a_body_that_stops_is_given_up(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes could hold a connection forever."""
    monkeypatch.setattr(bodies, "SILENT_S", 0.05)
    async with forms() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\nContent-Length: 9999\r\n\r\n"
        writer.write(head.encode() + sent)
        async with asyncio.timeout(WAIT_S):
            assert b" 408 " in await reader.readline()
        writer.close()


@examples(100, quick=25)
@given(
    body=st.lists(
        st.one_of(
            st.sampled_from([b"--cut\r\n", b"--cut--", b"--cut", b"\r\n", b"\n", TEXT, FILE]),
            st.binary(max_size=40),
        ),
        max_size=12,
    ).map(b"".join)
)
def test_whatever_bytes_come_a_form_is_read_or_refused(body: bytes) -> None:
    """An error no one thought of would be reported as a bug and logged for every call."""

    async def send() -> int:
        async with forms() as server:
            return (await server.send(body))[0]

    assert asyncio.run(send()) in {200, 400}


async def test_lines_that_are_no_form_cost_a_moment(server: Forms) -> None:
    """Aiohttp reads all lines before the first boundary, and all that arrived without a pause."""
    lines = b"\n" * 20_000_000
    before = part("image", b"pixels", headers=b"X: y\r\n" * 10)
    for body in (lines, b"--cutter\r\n" + lines, b"x" * 5_000_000, before + lines):
        for packed in (False, True):
            sent = gzip.compress(body, 1) if packed else body[:3_000_000]
            began = asyncio.get_running_loop().time()
            status, _ = await server.send(
                io.BytesIO(sent), headers={"Content-Encoding": "gzip"} if packed else {}
            )
            assert status in {400, 413}
            assert asyncio.get_running_loop().time() - began < WAIT_S / 10, (body[:20], packed)
    status, form = await server.send(b"preamble\r\nof a few lines\r\n" + FILE + END)
    assert (status, len(form["files"])) == (200, 1)
