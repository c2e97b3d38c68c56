"""Large files of calls and answers are written, decoded and hashed outside the event loop."""

import asyncio
import base64
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from bot.api.calls import request_files
from bot.api.calls.callers import Caller
from bot.api.calls.forms import NotData, data_of
from bot.api.calls.request_files import CallImages
from bot.api.openai.images import ImageWriter
from bot.api.runs import answers, submitter
from bot.api.runs.answers import in_json
from bot.api.runs.repeats import digest_of
from bot.people.people import Person
from queueing.core.requests import File, Output, TextToImage

LARGE = bytes(range(256)) * 4_000


def output(data: bytes) -> Output:
    return Output(text="", files=(File(name="a.png", mime="image/png", data=data),))


class Noted:
    """Calls a function and records in which thread."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.beside: list[bool] = []

    def __call__(self, *args: Any) -> Any:
        self.beside.append(threading.current_thread() is not threading.main_thread())
        return self._function(*args)


async def test_large_answers_are_written_beside_the_loop() -> None:
    """Ten images for one caller would hold up everyone else's answers."""
    for data, beside in ((LARGE, True), (b"small", False)):
        render = Noted(ImageWriter(created=7).whole)
        body = await in_json(render, output(data))
        assert render.beside == [beside]
        assert base64.b64encode(data) in body
    assert len(LARGE) > answers.LARGE


async def test_large_texts_are_written_beside_the_loop() -> None:
    """The log probabilities of one answer would hold up everyone else's for a second."""
    for size, beside in ((300_000, True), (100, False)):
        render = Noted(lambda output: {"text": output.answer})
        body = await in_json(render, Output(text="", answer="x" * size))
        assert render.beside == [beside]
        assert len(body) > size


async def test_large_files_are_decoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of 20 MB in a request would hold up everyone else for a tenth of a second."""
    for data, beside in ((LARGE, True), (b"small", False)):
        decode = Noted(data_of)
        monkeypatch.setattr(request_files, "data_of", decode)
        taken = CallImages(Caller(person=Person(user="api:me"), name="me"), None)
        found = await taken._data(base64.b64encode(data).decode(), "image")
        assert (found, decode.beside) == (data, [beside])


async def test_files_are_digested_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A video that a client sends again would hold up everyone else."""
    digest = Noted(digest_of)
    monkeypatch.setattr(submitter, "digest_of", digest)

    call: Any = SimpleNamespace(headers={"Idempotency-Key": "once"})
    wanted = TextToImage(prompt="a cat")
    alone = await submitter._digest(call, "flux", wanted, ())
    one, same, other = await asyncio.gather(
        submitter._digest(call, "flux", wanted, output(LARGE).files),
        submitter._digest(call, "flux", wanted, output(LARGE).files),
        submitter._digest(call, "flux", wanted, output(LARGE[:-1]).files),
    )
    assert one == same
    assert len({alone, one, other}) == 3
    assert digest.beside == [False, True, True, True]


def test_broken_lines_of_base64_are_joined() -> None:
    """Programs that break long lines would be refused, or letters that no program writes taken."""
    text = base64.encodebytes(LARGE).decode().replace("\n", "\r\n\t ")
    assert data_of(text) == LARGE
    assert data_of(f"data:image/png;base64,{text}") == LARGE
    assert data_of(f"DATA:image/PNG;Base64,{text}") == LARGE
    for broken in ("aGk=é", "aGk=*", "a"):
        with pytest.raises(NotData):
            data_of(broken)
