"""What a hostile page, user or neighbour could try with the web chat, one row each."""

import asyncio
import contextlib
import gzip
import json
import logging
import random
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from io import BytesIO

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from bot.core.content import Content
from bot.core.platform import MessageRef
from bot.http.clients import TokenBucket, host_allowed
from bot.http.connection_limits import ConnectionLimits
from bot.http.listener import Listener
from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.chat import page_connection as open_page
from bot.platforms.web.chat.page_connection import (
    FRAMES_BURST,
    MAX_VALUES,
    NOT_KNOWN,
    TOO_MANY_TABS,
)
from bot.platforms.web.chat.protocol import MAX_FILES, MAX_UPLOAD
from bot.platforms.web.chat.tab import ChatTab
from bot.platforms.web.platform import Web
from bot.platforms.web.routes.assets import origin_allowed
from bot.platforms.web.routes.files import ChatFileRoutes
from bot.platforms.web.server import MAX_TABS
from queueing.core.requests import File
from tests.bot.platforms.web.web_client import Tab, image, running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat

TOKEN = "correct-horse-battery-staple"
Headers = Mapping[str, str]


@pytest.fixture
def handler() -> ScriptedHandler:
    return ScriptedHandler()


# ---------------------------------------------------------------- names and origins


def test_only_our_own_names_are_answered() -> None:
    """A hostile site could point its name at this address and read the chat as its own."""
    cases: list[tuple[str, bool, bool]] = [
        ("127.0.0.1:8080", True, True),
        ("localhost:8080", True, True),
        ("[::1]:8080", True, True),
        ("usher.example", True, True),
        ("evil.example:8080", True, False),
        ("evil.example:8080", False, False),
        ("127.0.0.1.evil.example", True, False),
        ("192.168.1.5:8080", True, False),
        ("192.168.1.5:8080", False, True),
        ("usher.example@evil.example", True, False),
        ("evil.example#localhost", True, False),
        ("evil.example@127.0.0.1", True, False),
        ("evil.example@127.0.0.1:8080", True, False),
        ("127.0.0.1:8080/evil", True, False),
        ("127.0.0.1 :8080", True, False),
        ("127.0.0.1:port", True, False),
        ("127.0.0.1\t", True, False),
        ("[::1", True, False),
        ("", True, False),
    ]
    for header, loopback, allowed in cases:
        assert host_allowed(header, loopback=loopback, names={"usher.example"}) is allowed, header


def test_only_our_own_page_is_listened_to() -> None:
    """Any open web page could send requests in the name of the person who opened it."""
    cases: list[tuple[str | None, bool]] = [
        ("http://127.0.0.1:8080", True),
        ("https://127.0.0.1:8080", True),
        ("http://127.0.0.1:3000", False),
        ("HTTP://127.0.0.1:8080", False),
        ("http://127.0.0.1:8080/", False),
        ("http://evil@127.0.0.1:8080", False),
        ("http://localhost:8080", False),
        ("https://evil.example", False),
        ("null", False),
        ("", False),
        ("file://127.0.0.1:8080", False),
        (None, False),
    ]
    for origin, allowed in cases:
        assert origin_allowed(origin, "127.0.0.1:8080") is allowed, origin
    assert not origin_allowed("http://", "")  # a request that names no host


def test_a_page_reached_by_tls_is_not_one_in_the_clear() -> None:
    """An attacker in the network could put a page beside this one and speak in its name."""
    assert origin_allowed("https://usher.example", "usher.example", "https")
    assert not origin_allowed("http://usher.example", "usher.example", "https")
    assert origin_allowed("https://usher.example", "Usher.Example")  # a proxy that tells nothing


async def test_a_rebound_name_reaches_nothing(handler: ScriptedHandler) -> None:
    """A route would lack the check of names."""
    async with running(web_chat(port=0), handler) as web:
        for path in ("", "static/app.js", "socket", "files/x"):
            status, _, _ = await _get(web, path, {"Host": "evil.example"})
            assert status == 403, path


async def test_another_page_can_neither_connect_nor_upload(handler: ScriptedHandler) -> None:
    """Another site could read and write a person's chat through their own browser."""
    cases: list[str | None] = ["https://evil.example", None]
    for origin in cases:
        headers = {"Origin": origin} if origin else {}
        async with running(web_chat(port=0), handler) as web, aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{web.url}socket", headers=headers)
            assert refused.value.status == 403, origin
            async with session.post(f"{web.url}upload", data=b"x", headers=headers) as answer:
                assert answer.status == 403, origin


# ---------------------------------------------------------------- headers


async def test_every_answer_carries_the_protecting_headers(handler: ScriptedHandler) -> None:
    """Some answer could be framed, sniffed as a page, or run a script."""
    async with running(web_chat(port=0), handler) as web:
        for path in ("", "static/app.js", "static/none", "files/none", "nowhere"):
            _, headers, _ = await _get(web, path)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy, path
            assert "unsafe" not in policy, path
            assert headers["X-Content-Type-Options"] == "nosniff", path
            assert headers["Referrer-Policy"] == "no-referrer", path
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin", path


async def test_the_page_has_no_inline_code_and_nothing_from_elsewhere(
    handler: ScriptedHandler,
) -> None:
    """The content policy would break the page, or have to be loosened for it."""
    async with running(web_chat(port=0), handler) as web:
        _, _, page = await _get(web, "")
        text = page.decode()
        assert " style=" not in text
        assert " on" not in text.replace(" one ", "").partition("<body>")[2].replace(" only", "")
        assert text.count("<script") == text.count('<script type="module" src="static/')
        assert "http" not in text


async def test_no_path_leads_out_of_the_page(handler: ScriptedHandler) -> None:
    """Anyone could read the server's files."""
    cases: list[str] = [
        "static/../web.py",
        "static/%2e%2e/platforms/web.py",
        "static/..%2f..%2fpyproject.toml",
        "static//etc/passwd",
        "static/__init__.py",
        "files/..%2f..%2fetc%2fpasswd",
    ]
    async with running(web_chat(port=0), handler) as web:
        for path in cases:
            status, _, body = await _get(web, path)
            assert status == 404, path
            assert b"import" not in body, path


# ---------------------------------------------------------------- people


def test_an_address_open_to_others_needs_a_token() -> None:
    """A default setting would give the GPUs to everyone on the network."""
    for host in ("0.0.0.0", "::", "", "192.168.1.5", "gpu-box"):
        with pytest.raises(ValueError, match="token"):
            web_chat(host=host)
        web_chat(host=host, token=TOKEN)


def test_a_token_that_could_be_guessed_is_refused() -> None:
    """A short token would be found by trying."""
    with pytest.raises(ValueError, match="16 characters"):
        web_chat(token="secret")


async def test_a_stranger_gets_the_bare_page_and_nothing_else(handler: ScriptedHandler) -> None:
    """Without a token a person could read the chat or make requests."""
    log = MemoryLog()
    async with running(Web(port=0, token=TOKEN, log=log), handler) as web:
        ref = await web.send("local", Content(files=(image(),)))
        file = await _file_id(log, ref)
        assert (await _get(web, ""))[0] == 200
        assert (await _get(web, f"files/{file}"))[0] == 401
        assert (await _get(web, f"files/{file}", {"Cookie": "usher=wrong"}))[0] == 401
        for cookie in (None, "wrong", ""):
            async with tab(web, greet=False, cookie=cookie) as page:
                await page.send(type="hello")
                assert await _close_code(page) == NOT_KNOWN
        async with aiohttp.ClientSession() as session:
            headers = {"Origin": web.url.rstrip("/")}
            async with session.post(f"{web.url}upload", data=b"x", headers=headers) as answer:
                assert answer.status == 401
    assert handler.keys == []


async def test_a_link_with_a_token_signs_in_once(handler: ScriptedHandler) -> None:
    """The token would stay in the address, or its cookie be readable, sent along, or guessed."""
    async with (
        running(web_chat(port=0, token=TOKEN), handler) as web,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{web.url}?token={TOKEN}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "./")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert "Secure" not in cookie
        behind_tls = {"X-Forwarded-Proto": "https"}  # from there it never travels in the clear
        link = f"{web.url}?token={TOKEN}"
        async with session.get(link, headers=behind_tls, allow_redirects=False) as answer:
            assert "Secure" in answer.headers["Set-Cookie"]
        _, headers, _ = await _get(web, "?token=wrong")
        assert headers["Location"] == "./#refused"
        assert "Set-Cookie" not in headers
        async with tab(web, cookie=TOKEN) as page:
            await page.say("hello")
            assert (await handler.taken()).user == "web:local"


async def test_nothing_writes_a_token_to_the_log(
    handler: ScriptedHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """Everyone who reads the log could sign in."""
    caplog.set_level(logging.DEBUG)
    async with running(web_chat(port=0, token=TOKEN), handler) as web:
        await _get(web, f"?token={TOKEN}")
        async with tab(web, cookie=TOKEN) as page:
            await page.say("hello")
            await page.next("taken")
    assert TOKEN not in caplog.text


async def test_a_person_taken_off_the_list_is_out_at_once(handler: ScriptedHandler) -> None:
    """An open page would go on working after its token was withdrawn, here or elsewhere."""
    for elsewhere in (False, True):
        people, lines = _People(), len(handler.keys)
        async with (
            running(web_chat(port=0, people=people), handler) as web,
            tab(web, cookie=TOKEN) as page,
        ):
            await page.say("hello")
            await page.next("taken")
            if elsewhere:
                people.gone_elsewhere = True
            else:
                people.gone = True
                await page.say("still here?")
            assert await _close_code(page) == NOT_KNOWN, elsewhere
        assert len(handler.keys) == lines + 1, elsewhere


async def test_a_large_image_arrives_whole(handler: ScriptedHandler) -> None:
    """A large result would break the answer or arrive incomplete."""
    log = MemoryLog()
    file = File(name="big.png", mime="image/png", data=random.Random(7).randbytes(5_000_000))
    async with running(Web(port=0, log=log), handler) as web:
        name = await _file_id(log, await web.send("local", Content(files=(file,))))
        _, headers, body = await _get(web, f"files/{name}")
        assert body == file.data
        assert headers["Cache-Control"] == "private, no-cache"  # nothing shown after it is deleted


async def test_files_of_others_are_not_found(handler: ScriptedHandler) -> None:
    """A person who learns an image's address could see it without being its owner."""
    log = MemoryLog()
    people = FixedPeople(
        {"a" * 20: WebPerson(id="ada", name="A"), "b" * 20: WebPerson(id="ben", name="B")}
    )
    async with running(Web(port=0, people=people, log=log), handler) as web:
        file = await _file_id(log, await web.send("ada", Content(files=(image(),))))
        assert (await _get(web, f"files/{file}", {"Cookie": f"usher={'a' * 20}"}))[0] == 200
        assert (await _get(web, f"files/{file}", {"Cookie": f"usher={'b' * 20}"}))[0] == 404


async def test_people_cannot_share_a_key(handler: ScriptedHandler) -> None:
    """With another person's key, a person would be given the job it belongs to."""
    people = FixedPeople(
        {"a" * 20: WebPerson(id="ada", name="A"), "b" * 20: WebPerson(id="ben", name="B")}
    )
    async with running(web_chat(port=0, people=people), handler) as web:
        for token in ("a" * 20, "b" * 20):
            async with tab(web, cookie=token) as page:
                await page.say("/image cat", "0" * 32)
                await page.next("taken")
    assert len(set(handler.keys)) == 2


# ---------------------------------------------------------------- files


async def test_only_harmless_images_are_shown_in_place(handler: ScriptedHandler) -> None:
    """A file made by a model or a stranger could run as a page of the bot."""
    cases: list[tuple[str, str]] = [
        ("image/png", "image/png"),
        ("image/svg+xml", "application/octet-stream"),
        ("text/html", "application/octet-stream"),
        ("text/html; charset=utf-8", "application/octet-stream"),
    ]
    for mime, served in cases:
        log = MemoryLog()
        file = File(name='a"b\r\nX: y.html', mime=mime, data=b"<script>alert(1)</script>")
        async with running(Web(port=0, log=log), handler) as web:
            name = await _file_id(log, await web.send("local", Content(files=(file,))))
            status, headers, body = await _get(web, f"files/{name}")
            assert (status, headers["Content-Type"], body) == (200, served, file.data), mime
            assert "sandbox" in headers["Content-Security-Policy"], mime
            shown = headers["Content-Disposition"]
            assert shown == "inline" if served == mime else shown.startswith("attachment; "), mime
            assert "X" not in headers, mime
            _, headers, _ = await _get(web, f"files/{name}?download=1")
            assert headers["Content-Disposition"].startswith(
                "attachment; filename*=UTF-8''a%22b"
            ), mime


@pytest.mark.parametrize("announced", [True, False])
async def test_an_upload_that_is_too_large_is_cut_off(
    handler: ScriptedHandler, announced: bool
) -> None:
    """One upload could fill the memory, whether it states its length or not."""

    async def drip() -> AsyncIterator[bytes]:
        for _ in range(MAX_UPLOAD // 2**20 + 2):
            yield b"x" * 2**20

    data = BytesIO(b"x" * (MAX_UPLOAD + 1)) if announced else drip()
    async with running(web_chat(port=0), handler) as web, aiohttp.ClientSession() as session:
        headers = {"Origin": web.url.rstrip("/")}
        # Cut off while it is still sending is as good as an answer.
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with session.post(f"{web.url}upload", data=data, headers=headers) as answer:
                assert answer.status == 413
        assert (await _get(web, ""))[0] == 200


# ---------------------------------------------------------------- floods


@pytest.fixture
def _no_frame_comes_slowly_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the allowance from refilling: on a busy machine, frames come slowly."""
    monkeypatch.setattr(open_page, "FRAMES_PER_S", 0.001)


@pytest.mark.usefixtures("_no_frame_comes_slowly_enough")
async def test_a_flood_of_frames_closes_the_page(handler: ScriptedHandler) -> None:
    """One client could keep the loop and the database busy for everyone."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        with contextlib.suppress(ConnectionError):
            for _ in range(FRAMES_BURST // 50 + 1):
                for _ in range(50):
                    await page.send(type="earlier", before=1)
                for _ in range(50):  # or it would end for the answers no one reads
                    if (await page.socket.receive(timeout=60)).type is not aiohttp.WSMsgType.TEXT:
                        break
        assert await _close_code(page) == aiohttp.WSCloseCode.POLICY_VIOLATION


@pytest.mark.usefixtures("_no_frame_comes_slowly_enough")
async def test_who_reads_no_answers_gets_no_more(handler: ScriptedHandler) -> None:
    """A client that sends without reading could fill the memory with its answers."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        with contextlib.suppress(ConnectionError):
            for _ in range(FRAMES_BURST * 3):
                await page.send(type="earlier", before=1)
        assert await _close_code(page) == aiohttp.WSCloseCode.POLICY_VIOLATION
        async with tab(web) as again:
            await again.say("hello")
            await again.next("taken")


async def test_a_frame_beyond_all_bounds_closes_the_page(handler: ScriptedHandler) -> None:
    """One frame could fill the memory."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        with contextlib.suppress(ConnectionError):  # cut off while it was still sending
            await page.socket.send_str(json.dumps({"type": "say", "text": "x" * 4_000_000}))
        codes = {aiohttp.WSCloseCode.MESSAGE_TOO_BIG, aiohttp.WSCloseCode.ABNORMAL_CLOSURE}
        assert await _close_code(page) in codes
    assert handler.keys == []


async def test_a_frame_of_too_many_values_closes_the_page(handler: ScriptedHandler) -> None:
    """Each such frame blocked the loop for a quarter of a second, and wrote a line into the log."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.send(type="say", key="k", text="x", uploads=[[]] * MAX_VALUES)
        assert await _close_code(page) == aiohttp.WSCloseCode.POLICY_VIOLATION
    assert handler.keys == []


async def test_what_a_page_sends_fills_no_log(
    handler: ScriptedHandler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Thirty lines a second, or as many tracebacks, would hide what an operator must see."""

    async def fails(_tab: ChatTab, _message: object) -> None:
        raise ZeroDivisionError

    caplog.set_level(logging.INFO, "bot.platforms.web")
    async with running(web_chat(port=0), handler) as web:
        monkeypatch.setattr(ChatTab, "_carry_out", fails)
        for _ in range(2):  # closing a page and opening another one does not help
            async with tab(web, greet=False) as page:
                for _ in range(5):
                    await page.socket.send_str("{")
                    await page.send(type="earlier", before=1)
                for _ in range(10):
                    assert (await page.next("refused"))["reason"] == "invalid"
    lines = [each.getMessage() for each in caplog.records if "frame" in each.getMessage()]
    assert lines == [
        "web chat: local sent an invalid frame: 1 errors",
        "web chat: a frame from local failed",
    ]


async def test_one_person_cannot_open_pages_without_end(handler: ScriptedHandler) -> None:
    """One person's pages could use up the server's connections."""
    async with running(web_chat(port=0), handler) as web, aiohttp.ClientSession() as session:
        origin = web.url.rstrip("/")
        pages = [
            await session.ws_connect(f"{web.url}socket", origin=origin) for _ in range(MAX_TABS)
        ]
        async with tab(web, greet=False) as page:
            assert await _close_code(page) == TOO_MANY_TABS
        await asyncio.gather(*(open_page.close() for open_page in pages))


async def test_connections_without_end_are_ended(handler: ScriptedHandler) -> None:
    """Strangers could use up all file handles, which would also cut off the chats and servers."""
    app = web.Application()
    app.router.add_get("/", _hello)
    listener = Listener(app, limits=ConnectionLimits.of(20))
    port = await listener.open("127.0.0.1", 0)
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
    async with asyncio.timeout(60):
        for reader, _ in opened[
            :55
        ]:  # the newest of an address stay, a quarter of all there may be
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert await _answered(port)
    for _, writer in opened:
        writer.close()
    await listener.close()


async def test_who_never_finishes_a_request_is_not_waited_for() -> None:
    """Connections that send a header slowly could be held forever, up to the limit."""
    app = web.Application()
    app.router.add_get("/", _hello)
    listener = Listener(app, who=lambda _request: "local", silent_s=3.0)
    port = await listener.open("127.0.0.1", 0)
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    quick_reader, quick_writer = await asyncio.open_connection("127.0.0.1", port)
    slow[1][1].write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow:")  # the other says nothing
    quick_writer.write(REQUEST)
    assert (await quick_reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    async with asyncio.timeout(60):
        for reader, _ in slow:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
    quick_writer.write(REQUEST)  # its connection is kept
    assert (await quick_reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    for writer in (quick_writer, *(writer for _, writer in slow)):
        writer.close()
    await listener.close()


async def test_what_is_no_request_leaves_no_traceback(
    handler: ScriptedHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers could fill the operator's disk through the log."""
    caplog.set_level(logging.INFO)
    async with running(web_chat(port=0), handler) as page:
        port = URL(page.url).port
        for sent in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                writer.write(sent)
                assert b"HTTP/1.0 400" in await reader.read()
            writer.close()
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_packed_upload_is_not_unpacked_beyond_the_limit(handler: ScriptedHandler) -> None:
    """A few megabytes could unpack to gigabytes in memory."""
    bomb = gzip.compress(bytes(6 * MAX_UPLOAD), compresslevel=1)
    async with running(web_chat(port=0), handler) as page, aiohttp.ClientSession() as session:
        headers = {"Origin": page.url.rstrip("/"), "Content-Encoding": "gzip"}
        tracemalloc.start()
        try:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.post(f"{page.url}upload", data=bomb, headers=headers) as answer:
                    assert answer.status == 415
            assert tracemalloc.get_traced_memory()[1] < 4 * MAX_UPLOAD
        finally:
            tracemalloc.stop()


async def test_uploads_of_one_person_do_not_pile_up(handler: ScriptedHandler) -> None:
    """One person who sends slowly could fill the memory with halves of images."""
    stop = asyncio.Event()

    async def drip() -> AsyncIterator[bytes]:
        yield b"x"
        await stop.wait()

    async with running(web_chat(port=0), handler) as page, aiohttp.ClientSession() as session:
        headers = {"Origin": page.url.rstrip("/")}

        async def upload(data: bytes | AsyncIterator[bytes]) -> int:
            async with session.post(f"{page.url}upload", data=data, headers=headers) as answer:
                return answer.status

        slow = [asyncio.create_task(upload(drip())) for _ in range(MAX_FILES)]
        assert page._server is not None
        files = next(each for each in page._server.routes if isinstance(each, ChatFileRoutes))
        async with asyncio.timeout(60):
            while files.uploading["local"] < MAX_FILES:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0)
        assert await upload(b"x") == 429
        stop.set()
        assert await asyncio.gather(*slow) == [200] * MAX_FILES


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    """Floods would pass, or people who pause between lines would be refused."""
    bucket = TokenBucket(per_s=2, burst=3)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.take(100.5)
    assert not bucket.take(100.6)
    assert [bucket.take(200.0) for _ in range(4)] == [True, True, True, False]


# ---------------------------------------------------------------- helpers

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def _answered(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        return b"200 OK" in await reader.read(100)
    except ConnectionError:
        return False
    finally:
        writer.close()


class _People:
    """One person whose token can be withdrawn."""

    def __init__(self) -> None:
        self.gone = False
        self.gone_elsewhere = False  # known here once this looks
        self.person = WebPerson(id="ada", name="Ada")

    async def look(self) -> None:
        self.gone = self.gone or self.gone_elsewhere

    def by_token(self, token: str) -> WebPerson | None:
        return self.person if token == TOKEN and not self.gone else None

    def by_id(self, person: str) -> WebPerson | None:
        return self.person if person == "ada" and not self.gone else None


async def _get(
    web: Web, path: str, headers: Headers | None = None
) -> tuple[int, CIMultiDictProxy[str], bytes]:

    async with aiohttp.ClientSession() as session:
        url = URL(f"{web.url}{path}", encoded=True)
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.read()


async def _close_code(page: Tab) -> int | None:
    async with asyncio.timeout(60):
        async for _ in page.socket:
            pass
    return page.socket.close_code


async def _file_id(log: MemoryLog, ref: MessageRef) -> str:
    entry = await log.get(ref.chat, ref.message)
    assert entry is not None
    assert entry.shown is not None
    return entry.shown.files[0].id
