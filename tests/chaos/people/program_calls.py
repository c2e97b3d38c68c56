"""Programs' calls: each is repeated until it has the whole answer, or is told that there is none.

A call is recognised by its `Idempotency-Key` or, like those of OpenAI's packages, by its words and
the count of its retries. What must never happen is recorded in `faults`.
"""

import asyncio
import base64
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any

import aiohttp

from tests.chaos.servers import answer_words
from tests.fakes.llm.llm_embeddings import vector_of

AGAIN_S = (0.1, 0.6)
HANGS_UP = 0.25  # of the calls that may come again
HANGS_UP_S = (0.02, 0.8)  # at the latest: while it is accepted, or while it waits or is answered
CURIOUS = 0.3  # of the calls with a key: repeated though they are answered
PATIENCE_S = 600.0
LATER = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
SERVER_LOST, STOPPING = "server_lost", "stopping"  # codes of errors


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramRequest:
    """What a program asks for: `headers` are the caller's, `others` another person's."""

    number: int
    model: str
    prompt: str
    headers: Mapping[str, str]
    others: Mapping[str, str]

    @property
    def conversation(self) -> list[dict[str, str]]:
        """The prompt as a conversation."""
        return [{"role": "user", "content": self.prompt}]


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a call got in the end: an answer, or a statement that there is none."""

    text: str = ""
    images: tuple[bytes, ...] = ()


class Refusal(Exception):
    """The API refused, with an error of this code or status."""


@dataclass(kw_only=True, eq=False)
class ProgramCall(ABC):
    """A call from the first try to its end; `given` is its result, and `job` the job it became."""

    wish: ProgramRequest
    session: aiohttp.ClientSession
    urls: Sequence[str]
    random: Random
    keyed: bool
    faults: list[str]
    given: Given | None = None
    job: int | None = None
    broken: bool = False
    tries: int = 0
    _key: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def url(self) -> str:
        """One of the addresses of the API."""
        return self.urls[0] if len(self.urls) == 1 else self.random.choice(self.urls)

    async def go(self) -> None:
        """Call until there is an answer, or a refusal."""
        impatient = self.hangs_up and self.random.random() < HANGS_UP
        while self.given is None:
            most_s = self.random.choice(HANGS_UP_S)
            patience_s = self.random.uniform(0.0, most_s) if impatient else PATIENCE_S
            impatient = False
            try:
                async with asyncio.timeout(patience_s):
                    self.given = await self.once()
            except Refusal as refusal:
                self.given = Given(text=f"refused: {refusal}")
            except (aiohttp.ClientError, TimeoutError):
                await self._pause()
        if self.keyed and not self.broken and self.random.random() < CURIOUS:
            await self._again()

    async def _again(self) -> None:
        """Repeat the key of a finished call: it must be the same job with the same answer."""
        given = None
        while given is None:
            try:
                given = await self.once()
            except Refusal as refusal:
                given = Given(text=f"refused: {refusal}")
            except (aiohttp.ClientError, TimeoutError):
                await self._pause()
        if given != self.given:
            self.faults.append(f"call {self.wish.number} got {self.given}, with its key {given}")

    async def _pause(self) -> None:
        self.tries += 1
        await asyncio.sleep(self.random.uniform(*AGAIN_S))

    @property
    def hangs_up(self) -> bool:
        """Whether it may leave and come again: streams and other people's calls end by that."""
        return not self.keyed

    @abstractmethod
    async def once(self) -> Given | None:
        """Call once; None if the call must be made again. Raises `Refusal`."""

    async def cancel(self) -> bool:
        """Record that it is to be cancelled; return whether hanging up does so."""
        return True

    # ------------------------------------------------------------ what its parts share

    @property
    def _headers(self) -> dict[str, str]:
        how = {"Idempotency-Key": self._key}
        if not self.keyed:
            how = {"x-stainless-retry-count": str(self.tries), "x-stainless-read-timeout": "600"}
        return {**self.wish.headers, **how}

    def is_job(self, job: int) -> None:
        """Record the job of a call: with a key it is the same each time.

        A retry without a key may begin again; `accepted_twice` tells after what.
        """
        if self.keyed and self.job not in {None, job}:
            self.faults.append(f"call {self.wish.number} was job {self.job}, then {job}")
        self.job = job

    async def _refused(self, response: aiohttp.ClientResponse) -> bool:
        """Return whether to call again later. Raises `Refusal`."""
        if response.ok:
            self.is_job(int(response.headers["x-usher-job"]))
            return False
        error = (await response.json())["error"]
        if response.status in LATER and response.headers.get("x-should-retry") != "false":
            await self._pause()
            return True
        raise Refusal(f"{response.status} {error['code']} {error['message']}")


class StreamedCall(ProgramCall):
    """A chat completion that is read as it is written; hanging up cancels it."""

    hangs_up = False

    async def once(self) -> Given | None:
        body = {"model": self.wish.model, "messages": self.wish.conversation, "stream": True}
        async with self.session.post(
            f"{self.url}/chat/completions", json=body, headers=self._headers
        ) as response:
            if await self._refused(response):
                return None
            return await self._read(response)

    async def _read(self, response: aiohttp.ClientResponse) -> Given | None:
        pieces: list[str] = []
        async for data in _events(response):
            if data == "[DONE]":
                return self._whole("".join(pieces))
            event = json.loads(data)
            if "error" in event:
                await self._broken(event["error"]["code"])
                return None
            pieces += [
                choice["delta"]["content"]
                for choice in event["choices"]
                if choice["delta"].get("content")
            ]
        self.faults.append(f"the stream of {self.wish.number} ended as if complete: {pieces}")
        return Given(text="".join(pieces))

    async def _broken(self, code: str) -> None:
        if code == STOPPING:
            await self._pause()
            return
        self.broken = code == SERVER_LOST
        raise Refusal(f"{code} in the stream")

    def _whole(self, text: str) -> Given:
        if text.split() != list(answer_words(self.wish.number)):
            self.faults.append(f"the stream of {self.wish.number} says [DONE] after {text!r}")
        return Given(text=text)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    async for line in response.content:
        if line.startswith(b"data: "):
            yield line[6:].decode().strip()


class WholeCall(ProgramCall):
    """A chat completion, an image or a vector that arrives as a whole."""

    path = "chat/completions"

    def body(self) -> dict[str, Any]:
        """Return what is sent."""
        return {"model": self.wish.model, "messages": self.wish.conversation}

    def read(self, answer: Any) -> Given:
        """Return the content of an answer."""
        return Given(text=answer["choices"][0]["message"]["content"])

    def sent(self) -> dict[str, Any]:
        """Return the body as `aiohttp` is given it."""
        return {"json": self.body()}

    async def received(self, response: aiohttp.ClientResponse) -> Any:
        """Return an answer in the form that `read` takes."""
        return await response.json()

    async def once(self) -> Given | None:
        async with self.session.post(
            f"{self.url}/{self.path}", headers=self._headers, **self.sent()
        ) as response:
            if await self._refused(response):
                return None
            answer = await self.received(response)
        if "error" in answer:  # after white space: the status was sent before
            if answer["error"]["code"] != STOPPING:
                raise Refusal("{code} {message}".format_map(answer["error"]))
            await self._pause()
            return None
        return self.read(answer)


class ImageCall(WholeCall):
    """An image drawn through OpenAI's API."""

    path = "images/generations"

    def body(self) -> dict[str, Any]:
        return {"model": self.wish.model, "prompt": self.wish.prompt}

    def read(self, answer: Any) -> Given:
        return Given(images=tuple(base64.b64decode(each["b64_json"]) for each in answer["data"]))


class VectorCall(WholeCall):
    """A vector of the prompt; its answer is given the words that other answers have."""

    path = "embeddings"

    def body(self) -> dict[str, Any]:
        return {"model": self.wish.model, "input": [self.wish.prompt]}

    def read(self, answer: Any) -> Given:
        (row,) = answer["data"]
        if row["embedding"] != vector_of(self.wish.prompt):
            self.faults.append(f"call {self.wish.number} got a vector of something else")
        return Given(text=" ".join(answer_words(self.wish.number)))
