"""Servers that write down whose request they work on: every prompt holds a number, every result too.

A picture is painted in the colour of its number, an answer says it; so a result is known wherever
it turns up. They live in the harness's process and go on when the program dies.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from aiohttp import web
from PIL import Image

from tests.fakes.comfyui import FakeComfyUI, _Item
from tests.fakes.llm import FakeLlm
from tests.fakes.llm_script import WORDS, Model

SIDE = 16  # pixels; small, because every result is decoded once
_NUMBER = re.compile(r"number (\d+)")
_ENDS = "the end."


class Book:
    """What servers did, in order; numbers are those of the requests."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.finished: Counter[int] = Counter()
        self.finished_before: Callable[[int], bool] = lambda _number: False
        self.again: list[int] = []

    def begin(self, number: int) -> None:
        """Note that a server begins with a request."""
        if self.finished_before(number):
            self.again.append(number)
        self.began.append(number)

    def finish(self, number: int) -> None:
        """Note that a server has made all of a request's result."""
        self.finished[number] += 1


def number_in(text: str) -> int | None:
    """Return the number a prompt or an answer holds."""
    found = _NUMBER.search(text)
    return int(found[1]) if found else None


def painted(number: int) -> bytes:
    """Return a picture in the colour of a number."""
    colour = (number >> 16 & 255, number >> 8 & 255, number & 255)
    out = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), colour).save(out, "PNG")
    return out.getvalue()


def number_of_picture(data: bytes) -> int:
    """Return the number a picture was painted for."""
    with Image.open(io.BytesIO(data)) as picture:
        pixel = picture.convert("RGB").getpixel((SIDE // 2, SIDE // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = (int(part) for part in pixel)
    return red << 16 | green << 8 | blue


def answer_words(number: int) -> Sequence[str]:
    """Return the words of the answer to a request."""
    return ("This", "answers", "number", str(number), *WORDS, *_ENDS.split())


def is_whole_answer(text: str) -> bool:
    """Return whether a message shows an answer to its last word."""
    return "This answers" in text and _ENDS in text


class CountingComfyUI(FakeComfyUI):
    """A ComfyUI that notes what it draws."""

    def __init__(self, book: Book, **how: Any) -> None:
        super().__init__(**how)
        self._book = book

    async def _run(self, item: _Item) -> None:
        number = number_in(json.dumps(item.graph))
        if number is None:  # the shortest picture there is, drawn to load a model
            await super()._run(item)
            return
        self._book.begin(number)
        await super()._run(item)
        if self.history[item.key]["status"]["completed"]:
            self._book.finish(number)

    def _save(self, item: _Item, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
        self.picture = painted(number_in(json.dumps(item.graph)) or 0)
        return super()._save(item, kind, inputs)


class CountingLlm(FakeLlm):
    """An LM Studio that answers each request with its own number."""

    def __init__(self, book: Book, models: Sequence[str], *, pace_s: float) -> None:
        self._answer_to: ContextVar[int | None] = ContextVar("number", default=None)
        super().__init__("lmstudio", [Model(name) for name in models])
        self._book = book
        self.pace_s = pace_s

    @property
    def words(self) -> Sequence[str]:
        number = self._answer_to.get()
        return WORDS if number is None else answer_words(number)

    @words.setter
    def words(self, _: Sequence[str]) -> None:
        """Ignore the fake's own words."""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        number = number_in(json.dumps(await request.json()))
        self._answer_to.set(number)
        if number is None:
            return await super()._chat(request)
        self._book.begin(number)
        response = await super()._chat(request)
        self._book.finish(number)
        return response
