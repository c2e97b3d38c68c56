"""Image servers' answers: images, errors with any status, and what a hostile server may send."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from functools import partial

import pytest
from aiohttp import web

from backends.images import replies
from backends.images.replies import classify
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    Interrupted,
    KeyRefused,
    OutOfMemory,
    Rejected,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from tests.backends.images.test_images import DRAWN, connected, output, work
from tests.fakes.servers.painters import KINDS, image

LISTS = ["localai", "vllm-omni", "generic"]  # with answers in the form of OpenAI's lists


def items(*rows: dict[str, str]) -> Callable[[], web.Response]:
    return lambda: web.json_response({"created": 1, "data": list(rows)})


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_prompt_and_the_servers_paths_leave_the_file(kind: str) -> None:
    """People would pass on their prompt and the server's folders with each image."""
    async with connected(kind) as (_, backend):
        file = (await output(backend, work(prompt="a secret"))).files[0]
    assert b"secret" in image(prompt="a secret")
    assert b"secret" not in file.data
    assert file.mime == "image/png"
    assert file.name == "alpha-1.png"


async def test_metadata_stays_where_the_operator_wants_it() -> None:
    """A community that wants to share its settings could not."""
    async with connected("generic", keep_metadata=True) as (_, backend):
        assert b"a secret" in (await output(backend, work(prompt="a secret"))).files[0].data


@pytest.mark.parametrize("kind", [*LISTS, "swarmui"])
async def test_images_at_an_address_of_the_server_are_fetched(kind: str) -> None:
    """A server that answers with addresses would seem to have made nothing."""
    async with connected(kind) as (fake, backend):
        fake.by_url = True
        made = await output(backend, work(count=2))
    assert [file.mime for file in made.files] == ["image/png"] * 2


@pytest.mark.parametrize("kind", [*LISTS, "swarmui"])
async def test_no_address_elsewhere_is_called(kind: str) -> None:
    """A server could make Usher call any other machine in its network."""
    called: list[str] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append((await reader.readline()).decode())
        writer.close()

    other = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    async with other, connected(kind) as (fake, backend):
        fake.by_url, fake.host = True, f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        with pytest.raises(UnreadableAnswer, match="another server"):
            await output(backend, work())
    assert not called


async def test_addresses_of_other_kinds_are_no_images(subtests: pytest.Subtests) -> None:
    """A strange address would end in a traceback."""
    for where in [
        "file:///etc/passwd",
        "http://",
        "//example.com/a.png",
        "http://[::1",
        "../x",
        "é",
    ]:
        with subtests.test(where=where):
            async with connected("generic") as (fake, backend):
                fake.faults.append(items({"url": where}))
                with pytest.raises(BackendError):
                    await output(backend, work())


@pytest.mark.parametrize(
    "row",
    [
        {"b64_json": base64_of(b"<html>not an image</html>")},
        {"b64_json": base64_of(b'<svg xmlns="http://www.w3.org/2000/svg"/>')},
        {"b64_json": base64_of(image()[:60])},
        {"b64_json": "no base64 !"},
        {"b64_json": "YQ"},
        {},
    ],
    ids=["html", "svg", "cut", "text", "unpadded", "empty"],
)
async def test_what_is_no_image_is_never_delivered(row: dict[str, str]) -> None:
    """People would get a web page in place of an image."""
    async with connected("generic") as (fake, backend):
        fake.faults.append(items(row))
        with pytest.raises(UnreadableAnswer):
            await output(backend, work())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_strange_answer_is_the_servers_failure(
    kind: str, subtests: pytest.Subtests
) -> None:
    """An unexpected page from a proxy would stop the queue with a traceback."""
    async with connected(kind) as (fake, backend):
        for body in ("<html>hello</html>", "{}", "[]", "null", '{"data": 7}', ""):
            fake.faults.append(partial(web.Response, text=body, content_type="text/html"))
            # A websocket that SwarmUI closes in the middle may be its end.
            with subtests.test(body), pytest.raises((UnreadableAnswer, Unavailable)):
                await output(backend, work())


async def test_an_answer_without_images_is_told() -> None:
    """A person would get an empty message."""
    async with connected("generic") as (fake, backend):
        fake.faults.append(items())
        with pytest.raises(Rejected):
            await output(backend, work())


async def test_more_images_than_anyone_asks_for_are_refused() -> None:
    """An answer could flood a chat."""
    async with connected("generic") as (fake, backend):
        fake.faults.append(items(*[{"b64_json": base64_of(image())}] * 17))
        with pytest.raises(UnreadableAnswer, match="17 images"):
            await output(backend, work())


async def test_a_huge_answer_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer could fill the memory."""
    monkeypatch.setattr(replies, "IMAGE_LIMIT", 100)
    async with connected("generic") as (fake, backend):
        fake.by_url = True
        with pytest.raises(UnreadableAnswer, match="larger than 100 bytes"):
            await output(backend, work())


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_is_told_by_its_status_and_then_its_words(
    kind: str, subtests: pytest.Subtests
) -> None:
    """An error with status 200 would count as an answer; a caller's mistake would empty a GPU."""
    async with connected(kind) as (fake, backend):
        kinds = {200: OutOfMemory, 400: Rejected, 422: Rejected, 429: Busy, 500: OutOfMemory}
        for status, expected in kinds.items():
            error = {"error": {"message": "CUDA error: out of memory", "code": status}}
            fake.faults.append(partial(web.json_response, error, status=status))
            with subtests.test(status=status), pytest.raises(expected):
                await output(backend, work())


SEEN = (
    (400, {"error": "prompt required"}, Rejected),
    (422, {"detail": [{"loc": ["body", "guidance_scale"], "msg": "too large"}]}, Rejected),
    (500, {"error": "generate_image returned no results"}, Rejected),
    (200, {"status": "failed", "error": {"code": "generation_failed"}}, Rejected),
    (200, {"error": {"code": "cancelled", "message": "job cancelled by client"}}, Interrupted),
    (413, "<html>Request Entity Too Large</html>", Rejected),
    (429, {"error": "job queue is full"}, Busy),
    (401, {"error": {"message": "An authentication key is required"}}, KeyRefused),
    (500, {"error": {"message": "rpc error: code = Unknown desc = EOF"}}, UnknownFailure),
    (503, "upstream is starting", UnknownFailure),
    (200, {"error": "Model not found."}, BadModel),
    (200, {"error": "Model failed to load."}, UnknownFailure),
    (400, {"error": "loaded model does not support img_gen"}, BadModel),
    (400, "null", Rejected),
)


def test_errors_as_they_were_seen() -> None:
    """The queue would retry what cannot succeed, or give up on what could."""
    for status, body, kind in SEEN:
        assert type(classify(status, body)) is kind  # type: ignore[arg-type]


async def test_people_never_see_the_servers_own_words() -> None:
    """Paths and other people's prompts would reach a chat."""
    error = {"error": {"message": "/srv/models/secret.safetensors: bad prompt"}}
    async with connected("generic") as (fake, backend):
        fake.faults.append(lambda: web.json_response(error, status=400))
        with pytest.raises(Rejected) as caught:
            await output(backend, work())
    assert caught.value.problem is not None
    assert "secret" not in str(caught.value.problem)
    assert DRAWN["generic"] in str(fake.requests)
