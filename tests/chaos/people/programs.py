"""The programs of a trial, which use the HTTP API: one with a person's key, one with none.

To the crowd they are chats: an open call shows the button "Cancel", which hangs up.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from random import Random
from typing import Any, Self

import aiohttp

from tests.chaos.people.chats import Asked, Seen, Words
from tests.chaos.people.program_calls import (
    Given,
    ImageCall,
    ProgramCall,
    ProgramRequest,
    StreamedCall,
    VectorCall,
    WholeCall,
)
from tests.chaos.people.program_jobs import NativeJob, NativeText
from tests.chaos.people.program_media import (
    SPEAKS,
    VIDEOS,
    WRITES,
    SpokenCall,
    VideoJob,
    WrittenCall,
)
from tests.fakes.ports import port_of

VECTORS = "vectors"
EMBEDS = 0.2
MEDIA = 0.3  # of what is not embedded
HUNG_UP = Given(text="hung up, and so cancelled")

_TEXTS: tuple[type[ProgramCall], ...] = (StreamedCall, StreamedCall, WholeCall, NativeText)
_IMAGES: tuple[type[ProgramCall], ...] = (ImageCall, NativeJob)
_MEDIA: Mapping[str, type[ProgramCall]] = {
    VIDEOS: VideoJob,
    SPEAKS: SpokenCall,
    WRITES: WrittenCall,
}


class OnApi:
    """Programs, each with as many simultaneous calls as it likes; a call is a chat of its own."""

    keeps_calls = False

    def __init__(
        self,
        random: Random,
        key: Callable[[], str | None],
        *,
        processes: int = 1,
    ) -> None:
        self.ports = [port_of(self) for _ in range(processes)]
        self.faults: list[str] = []
        self.kinds: Counter[str] = Counter()
        self._random = random
        self._key = key
        self._numbers = count(1)
        self._calls: dict[ProgramCall, tuple[Asked, asyncio.Task[None]]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = await aiohttp.ClientSession(timeout=timeout).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for _, task in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    @property
    def broken(self) -> int:
        """How many streams ended with the message that their server was lost."""
        return sum(call.broken for call in self._calls)

    # ------------------------------------------------------------ as the crowd uses it

    def is_there(self) -> bool:
        return True

    def someone(self, number: int, *, in_group: bool) -> tuple[Any, str]:
        key = self._key()
        named = {"Authorization": f"Bearer {key}"} if key else {}
        both: list[Mapping[str, str]] = [named, {}]
        mine = both[number % 2]
        return (mine, both[1 - number % 2]), f"api {next(self._numbers)}"

    async def ask(self, request: Asked, words: Words) -> None:
        if self._random.random() < EMBEDS:
            request.model = VECTORS
        elif self._random.random() < MEDIA:
            request.model = self._random.choice(list(_MEDIA))
        kind = self._kind(request, words)
        self.kinds[kind.__name__] += 1
        headers, others = request.person
        wish = ProgramRequest(
            number=request.number,
            model=request.model,
            prompt=words.prompt,
            headers=headers,
            others=others,
        )
        assert self._session is not None
        call = kind(
            wish=wish,
            session=self._session,
            urls=[f"http://127.0.0.1:{port}/v1" for port in self.ports],
            random=self._random,
            keyed=self._is_keyed(kind),
            faults=self.faults,
        )
        request.call = call
        self._calls[call] = (request, asyncio.create_task(call.go()))

    def replies(self, request: Asked) -> list[Seen]:
        call: ProgramCall = request.call
        if call.given is HUNG_UP and request.job is None:
            return []  # the caller left before it was accepted
        return [self._seen(call, request)]

    async def press_cancel(self, request: Asked, message: Seen) -> None:
        call: ProgramCall = request.call
        assert call.given is None, "it ended at the last moment"
        if await call.cancel():
            call.given = HUNG_UP
            _, task = self._calls[call]
            task.cancel()

    def everything(self) -> Iterator[Seen]:
        for call, (request, _) in self._calls.items():
            yield self._seen(call, request)

    def unread(self) -> int:
        return sum(not task.done() for _, task in self._calls.values())

    def _kind(self, request: Asked, words: Words) -> type[ProgramCall]:
        if request.model == VECTORS:
            return VectorCall
        if request.model in _MEDIA:
            return _MEDIA[request.model]
        return self._random.choice(_IMAGES if words.command == "image" else _TEXTS)

    def _is_keyed(self, kind: type[ProgramCall]) -> bool:
        """Return whether a call has a key; another process cannot tell that a caller has gone."""
        several = len(self.ports) > 1
        return several or issubclass(kind, NativeJob) or self._random.random() < 0.5

    def _seen(self, call: ProgramCall, request: Asked) -> Seen:
        if call.broken:
            request.pressed = True  # the end of a stream that was told to have broken
        given = call.given or Given()
        text = f"stopped: {given.text}" if call.broken else given.text
        return Seen(
            chat=request.chat,
            text=text,
            images=given.images,
            buttons=() if call.given else ("Cancel",),
            raw=call,
        )

    def broke_down(self) -> list[str]:
        """Return a sentence for each call that ended by a bug of its program, and all faults."""
        ended = [task for _, task in self._calls.values() if task.done() and not task.cancelled()]
        bugs = [f"a program broke down: {bug!r}" for task in ended if (bug := task.exception())]
        return [*self.faults, *bugs]
