"""Servers that record whose request they work on: every prompt and every result holds a number.

An image is painted in the colour of its number, an answer states it, so that a result is recognised
wherever it turns up. They live in the harness's process, go on when the program dies, and can die
themselves: then they forget all they had.
"""

import io
import json
import re
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from aiohttp import web
from PIL import Image

from backends.common.file_types import is_video, mime_of
from bot.requests.enhancement import OPENING
from tests.chaos.people.chats import Seen
from tests.fakes.llm.llm import FakeLlm
from tests.fakes.llm.llm_script import WORDS, Model
from tests.fakes.servers.comfyui import FakeComfyUI, _Item

SIDE = 16  # pixels; small, because every result is decoded once
_NUMBER = re.compile(r"number (\d+)")
_ENDS = "the end."


class ServerRecords:
    """What servers did, in order; numbers are those of the requests."""

    def __init__(self) -> None:
        self.began: list[tuple[int, float]] = []  # and when
        self.finished_before: Callable[[int], bool] = lambda _number: False
        self.again: list[int] = []  # begun though it was stored
        self.begun_again: list[int] = []  # though a server was at it or had it
        self.redrawn: list[int] = []  # drawn though a server still had it
        self.repeated_texts = 0
        self.forgotten = 0  # finished, and lost with its server
        self._kept: dict[int, str] = {}
        self._at: dict[int, str] = {}  # the server that began an image, while it runs
        self._written: set[int] = set()

    def begin(self, number: int, server: str = "") -> None:
        """Record that a server begins with a request; a named server goes on until it dies."""
        if self._at.get(number) == server:
            self.begun_again.append(number)
        if server:
            self._at[number] = server
        if self.finished_before(number):
            self.again.append(number)
        self.began.append((number, time.time()))

    def drawn(self, number: int, server: str) -> None:
        """Record that a server has drawn an image, and keeps it until it dies."""
        if number in self._kept:
            self.redrawn.append(number)
        self._kept[number] = server

    def written(self, number: int) -> None:
        """Record that a server has written a whole answer, which it does not keep."""
        self.repeated_texts += number in self._written
        self._written.add(number)

    def forget(self, server: str) -> None:
        """Record that a server died with all that it kept."""
        kept = {number for number, at in self._kept.items() if at == server}
        self.forgotten += sum(not self.finished_before(number) for number in kept)
        self._kept = {n: at for n, at in self._kept.items() if n not in kept}
        self._at = {n: at for n, at in self._at.items() if at != server}


def number_in(text: str) -> int | None:
    """Return the number in a prompt or an answer; in a conversation, the newest question's."""
    found = _NUMBER.findall(text)
    return int(found[-1]) if found else None


def painted(number: int) -> bytes:
    """Return an image in the colour of a number."""
    colour = (number >> 16 & 255, number >> 8 & 255, number & 255)
    out = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), colour).save(out, "PNG")
    return out.getvalue()


def number_of_image(data: bytes) -> int:
    """Return the number an image was painted for."""
    with Image.open(io.BytesIO(data)) as image:
        pixel = image.convert("RGB").getpixel((SIDE // 2, SIDE // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = (int(part) for part in pixel)
    return red << 16 | green << 8 | blue


def answer_words(number: int) -> Sequence[str]:
    """Return the words of the answer to a request."""
    return ("This", "answers", "number", str(number), *WORDS, *_ENDS.split())


def shown_number(seen: Seen) -> int | None:
    """Return the number of the request whose result a message shows, or None."""
    if seen.images and "Cancel" not in seen.buttons:  # a preview is no result
        first = seen.images[0]
        if not is_video(mime_of(first)):
            return number_of_image(first)
        return number_in(seen.text)  # of its caption
    if "This answers" in seen.text and _ENDS in seen.text:
        return number_in(seen.text.partition("This answers")[2])
    return None


class CountingComfyUI(FakeComfyUI):
    """A ComfyUI that records what it draws."""

    def __init__(self, records: ServerRecords, name: str, **how: Any) -> None:
        super().__init__(**how)
        self.name = name
        self._records = records

    async def _run(self, item: _Item) -> None:
        number = number_in(json.dumps(item.graph))
        if number is None:  # the shortest image there is, drawn to load a model
            await super()._run(item)
            return
        self._records.begin(number, self.name)
        await super()._run(item)
        if self.history[item.key]["status"]["completed"]:
            self._records.drawn(number, self.name)

    def _save(self, item: _Item, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
        self.image = painted(number_in(json.dumps(item.graph)) or 0)
        return super()._save(item, kind, inputs)

    async def kill(self) -> None:
        await super().kill()
        self._records.forget(self.name)


class CountingLlm(FakeLlm):
    """An LM Studio that answers each request with its number, improves prompts, and embeds."""

    def __init__(
        self, records: ServerRecords, models: Sequence[str], *, embeds: str, pace_s: float
    ) -> None:
        self._to_say: ContextVar[Sequence[str]] = ContextVar("answer", default=WORDS)
        embedding = Model(embeds, chats=False, embeds=True)
        super().__init__("lmstudio", [*(Model(name) for name in models), embedding])
        self._records = records
        self.pace_s = pace_s
        self.improved = 0

    @property
    def words(self) -> Sequence[str]:
        return self._to_say.get()

    @words.setter
    def words(self, _: Sequence[str]) -> None:
        """Ignore the fake's own words."""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = json.dumps(await request.json())
        number = number_in(asked)
        if number is None:
            return await super()._chat(request)
        if OPENING in asked:
            self._to_say.set(("A", "better", "request", "number", str(number)))
            self.improved += 1
            return await super()._chat(request)
        self._to_say.set(answer_words(number))
        self._records.begin(number)
        response = await super()._chat(request)
        self._records.written(number)
        return response

    async def pick(
        self, name: str, request: web.Request
    ) -> tuple[Model | None, web.Response | None]:
        if name in self.models and self.models[name].embeds:
            number = number_in(await request.text())
            assert number is not None
            self._records.begin(number)
        return await super().pick(name, request)

    async def kill(self) -> None:
        """Die as by SIGKILL: every connection ends at once, nothing stays loaded."""
        if self._runner is not None and self._runner.server is not None:
            for connection in self._runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await self.stop()
        for model in self.models.values():
            model.running, model.copies = 0, []
