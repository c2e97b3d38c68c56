"""A client of a chat server that only measures: it reads streams and counts their words."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

LONG = 100_000
"""More tokens than any call of a measurement reads."""
_WORD = re.compile(rb'"content": ?"[^"]')  # real servers leave the space out


@dataclass(frozen=True)
class Client:
    """Calls one address. `paced` and `fast` are its models; both may be the same real one."""

    session: aiohttp.ClientSession
    address: str
    paced: str = "paced"
    fast: str = "fast"
    long: int = LONG

    async def up(self) -> tuple[str, ...]:
        """Wait until the server answers; return the names of its models."""
        async with asyncio.timeout(60):
            while True:
                try:
                    async with self.session.get(f"{self.address}/v1/models") as answer:
                        if answer.status == 200:
                            return tuple(each["id"] for each in (await answer.json())["data"])
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def opened(self, model: str, tokens: int) -> AsyncIterator[aiohttp.ClientResponse]:
        """Begin a stream."""
        said = [{"role": "user", "content": "Go on."}]
        body: dict[str, Any] = {"model": model, "messages": said, "max_tokens": tokens}
        async with self.session.post(
            f"{self.address}/v1/chat/completions", json={**body, "stream": True}
        ) as answer:
            if answer.status != 200:
                raise SystemExit(await answer.text())
            yield answer

    async def embed(self, text: str | list[str], **fields: str) -> None:
        """Read the vector of each text."""
        body = {"model": "words", "input": text, **fields}
        async with self.session.post(f"{self.address}/v1/embeddings", json=body) as answer:
            if answer.status != 200:
                raise SystemExit(await answer.text())
            await answer.read()

    async def read(self, model: str, tokens: int) -> int:
        """Read a stream to its end and return the number of its words."""
        words, rest = 0, b""
        async with self.opened(model, tokens) as answer:
            async for data in answer.content.iter_any():
                text = rest + data
                cut = text.rfind(b"\n") + 1
                rest = text[cut:]
                words += _words(text[:cut])
        if words == 0 or (self.fast == "fast" and words != tokens):
            raise SystemExit(f"{words} of {tokens} words came")
        return words

    async def first_word_ms(self) -> float:
        """Return the time to the first word of a paced answer."""
        began = time.perf_counter()
        text = b""
        async with self.opened(self.paced, 2) as answer:
            async for data in answer.content.iter_any():
                text += data
                if _words(text[: text.rfind(b"\n") + 1]):
                    return (time.perf_counter() - began) * 1000
        raise SystemExit("an answer without a word came")

    async def go_on(self) -> None:
        """Read one long answer after the other, until cancelled."""
        while True:
            async with self.opened(self.paced, self.long) as answer:
                async for _ in answer.content.iter_any():
                    pass


def _words(lines: bytes) -> int:
    return len(_WORD.findall(lines))
