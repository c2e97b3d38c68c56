"""Fetching from a hostile server, over real TLS on a loopback port."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.api.calls import request_files
from bot.api.calls.fetcher import Fetcher, NotFetched, is_elsewhere
from bot.api.calls.request_files import CallFetcher
from tests.fakes.images_example import HOST, Answer, FakeNames, ImagesExample, trusting

URL = f"https://{HOST}/a.png"
MOST = 1_000_000
SHORT_S = 0.3
WAIT_S = 60.0


def saying(*parts: bytes) -> Answer:
    """Answer with these bytes, then close."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return answer


def head(status: str = "200 OK", **headers: Any) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


FOUND = saying(head(Content_Length=6), b"pixels")


def local(address: str) -> bool:
    return address.startswith("127.")


@asynccontextmanager
async def example(
    folder: Path,
    answer: Answer = FOUND,
    names: FakeNames | None = None,
    *,
    allows: Callable[[str], bool] = local,
    **more: Any,
) -> AsyncIterator[tuple[Fetcher, ImagesExample]]:
    """Serve pictures.example, and a fetcher that finds it at 127.0.0.1."""
    server = ImagesExample(answer)
    async with server.serving(folder), asyncio.timeout(WAIT_S):
        fetcher = Fetcher(
            lookup=names or FakeNames(["127.0.0.1"]),
            tls=more.pop("tls", None) or trusting(),
            port=server.port,
            allows=allows,
            **more,
        )
        yield fetcher, server


async def test_an_image_is_fetched_by_its_servers_name(tmp_path: Path) -> None:
    """A server of many names would not know which image is meant, nor have a right certificate."""
    async with example(tmp_path) as (fetcher, server):
        assert await fetcher.get(f"{URL}?a=%2F", MOST) == b"pixels"
    (asked,) = server.asked
    assert asked.startswith("GET /a.png?a=%2F HTTP/1.1\r\n")
    assert f"\r\nHost: {HOST}\r\n" in asked
    assert server.names == [HOST]
    for secret in ("authorization", "cookie", "referer", "proxy"):
        assert f"\r\n{secret}:" not in asked.lower()


async def test_the_connection_goes_to_the_address_that_was_checked(tmp_path: Path) -> None:
    """A name that changes between check and connection would lead inside (DNS rebinding)."""
    names = FakeNames(["127.0.0.1"], ["127.0.0.2"])
    async with example(tmp_path, names=names) as (fetcher, server):
        assert await fetcher.get(URL, MOST) == b"pixels"
        assert names.asked == [HOST]
        with pytest.raises(NotFetched):  # the second address has no server
            await fetcher.get(URL, MOST)
    assert len(server.asked) == 1


async def test_a_name_that_leads_inside_is_not_asked(tmp_path: Path) -> None:
    """Anyone can give a name of their own the address of a router."""
    cases: list[list[str]] = [
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%lo"],
        ["10.0.0.1", "93.184.216.34"],
        ["93.184.216.34", "127.0.0.1"],
        [],
    ]
    for answers in cases:
        async with example(tmp_path, names=FakeNames(answers), allows=is_elsewhere) as (
            fetcher,
            server,
        ):
            with pytest.raises(NotFetched, match="could not be fetched") as error:
                await fetcher.get(URL, MOST)
        assert not any(each in str(error.value) for each in answers), answers
        assert server.asked == server.names == [], answers


async def test_a_name_that_does_not_exist_is_told_alike(tmp_path: Path) -> None:
    """The difference would reveal which names exist inside."""

    def lost(_name: str) -> list[str]:
        raise OSError(-2, "Name or service not known")

    async with example(tmp_path) as (_, server):
        fetcher = Fetcher(lookup=lost, tls=trusting(), port=server.port)
        with pytest.raises(NotFetched, match="could not be fetched"):
            await fetcher.get(URL, MOST)


async def test_a_certificate_that_is_not_trusted_ends_it(tmp_path: Path) -> None:
    """An impostor that answers in place of the server would choose the image."""
    async with example(tmp_path, allows=local) as (_, server):
        strict = Fetcher(lookup=FakeNames(["127.0.0.1"]), allows=local, port=server.port)
        with pytest.raises(NotFetched):
            await strict.get(URL, MOST)
        other = Fetcher(
            lookup=FakeNames(["127.0.0.1"]), allows=local, tls=trusting(), port=server.port
        )
        with pytest.raises(NotFetched):
            await other.get("https://another.example/a.png", MOST)
    assert server.asked == []


async def test_no_redirect_is_followed(tmp_path: Path) -> None:
    """A public server would send the bot inside."""
    for status in (301, 302, 303, 307, 308):
        moved = head(f"{status} Moved", Location=URL, Content_Length=0)
        async with example(tmp_path, saying(moved)) as (fetcher, server):
            with pytest.raises(NotFetched, match=str(status)):
                await fetcher.get(URL, MOST)
        assert len(server.asked) == 1, status


BAD: dict[str, Answer] = {
    "is no HTTP": saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "is empty": saying(),
    "stops early": saying(head(Content_Length=99), b"pix"),
    "has a broken length": saying(head(Content_Length="-1"), b"pixels"),
    "has two lengths": saying(
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 7\r\n\r\npixels"
    ),
    "has broken pieces": saying(head(Transfer_Encoding="chunked"), b"zz\r\npixels"),
    "has an endless header": saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000),
    "has endless headers": saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
    "is not found": saying(head("404 Not Found", Content_Length=0)),
    "needs a password": saying(head("401 No", WWW_Authenticate="Basic", Content_Length=0)),
    "is a part": saying(head("206 Partial", Content_Length=6), b"pixels"),
    "announces too much": saying(head(Content_Length=MOST + 1)),
    "is too much": saying(head(), *[bytes(100_000)] * 20),
    "is too much in pieces": saying(
        head(Transfer_Encoding="chunked"), *[b"186A0\r\n" + bytes(100_000) + b"\r\n"] * 20
    ),
}


async def test_a_bad_answer_is_no_image(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Half an image would be edited, or the memory filled."""
    for how, answer in BAD.items():
        with subtests.test(how):
            async with example(tmp_path, answer) as (fetcher, _):
                with pytest.raises(NotFetched):
                    await fetcher.get(URL, MOST)


async def test_nothing_is_unpacked(tmp_path: Path) -> None:
    """Some kilobytes unpack to gigabytes."""
    bomb = gzip.compress(bytes(50_000_000))
    packed = saying(head(Content_Encoding="gzip", Content_Length=len(bomb)), bomb)
    async with example(tmp_path, packed) as (fetcher, server):
        assert await fetcher.get(URL, MOST) == bomb
    assert "\r\nAccept-Encoding: identity\r\n" in server.asked[0]


def slow(first: bytes, then: bytes) -> Answer:
    """Answer with the first bytes, then with a few every moment, forever."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(0.02)

    return answer


SLOW: dict[str, Answer] = {
    "silence": slow(b"", b""),
    "slow headers": slow(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "a slow body": slow(head(), b"x"),
    "a slow length": slow(head(Content_Length=MOST), b"x"),
    "endless news": slow(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
}


async def test_a_slow_answer_is_given_up(tmp_path: Path) -> None:
    """A call, and its place among the calls that fetch, would be occupied forever."""
    for answer in SLOW.values():
        async with example(tmp_path, answer, whole_s=SHORT_S) as (fetcher, _):
            with pytest.raises(NotFetched):
                await fetcher.get(URL, MOST)


async def test_one_call_has_so_many_addresses_bytes_and_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of five hundred images would hold ten gigabytes."""
    monkeypatch.setattr(request_files, "ADDRESSES_MOST", 3)
    monkeypatch.setattr(request_files, "BYTES_MOST", 10)
    async with example(tmp_path) as (fetcher, server):
        call = CallFetcher(fetcher)
        assert await call.get(URL) == b"pixels"
        with pytest.raises(NotFetched, match="too large"):
            await call.get(URL)
        with pytest.raises(NotFetched, match="https://"):
            await call.get("http://example.com")
        with pytest.raises(NotFetched, match="more than 3"):
            await call.get(URL)
        with pytest.raises(NotFetched, match="too long"):
            await CallFetcher(fetcher, whole_s=0).get(URL)
    assert len(server.asked) == 2
