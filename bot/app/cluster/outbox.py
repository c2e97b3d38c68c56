"""Outgoing frames of a connection, with progress reports in compact form.

A server repeats the whole answer in each report, so only the difference is sent. Text models report
every token, but an event costs many times more than a token, so reports are sent in batches. The
first report after a pause is sent at once, so that answers start without delay.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from bot.app.cluster.transport import Wire, WireBroken
from queueing.core.events import Progressed
from queueing.core.requests import File, Progress

PUSHED_LIMIT = 64_000_000
"""Bytes of events and copies queued for a slow reader. Beyond that, the connection is closed."""
ANSWERED_LIMIT = 64_000_000
"""Bytes of answers queued for a slow reader. Beyond that, further calls wait with their answers."""


def _always() -> None:
    """Allow every frame; the default check."""


class Outbox:
    """Frames to send over a wire. `check` raises `WireBroken` if nothing may be sent any longer."""

    def __init__(self, wire: Wire, check: Callable[[], None] = _always) -> None:
        self._wire = wire
        self._check = check
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._answered = 0
        self._pushed = 0
        self._ended: str | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, frame: bytes) -> None:
        """Queue a call or an answer."""
        self._add(frame, pushed=False)
        if self._answered > ANSWERED_LIMIT:
            self._room.clear()

    def push(self, frame: bytes) -> None:
        """Queue a frame that was not requested. Ends the connection if too much is queued."""
        if self._pushed > PUSHED_LIMIT:
            self.end("it reads too slowly")
        else:
            self._add(frame, pushed=True)

    def end(self, why: str) -> None:
        """Stop sending. `run` then raises `WireBroken`."""
        self._ended = self._ended or why
        self._waiting.clear()
        self._news.set()

    async def room(self) -> None:
        """Wait while too many answers are unsent."""
        await self._room.wait()

    async def run(self) -> None:
        """Send queued frames until cancelled. Raises `WireBroken`."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                self._check()
                frame, pushed = self._waiting.popleft()
                await self._wire.send(frame)
                self._sent(len(frame), pushed=pushed)
            if self._ended is not None:
                raise WireBroken(self._ended)

    def _add(self, frame: bytes, *, pushed: bool) -> None:
        if self._ended is None:
            self._waiting.append((frame, pushed))
            self._count(len(frame), pushed=pushed)
            self._news.set()

    def _sent(self, size: int, *, pushed: bool) -> None:
        self._count(-size, pushed=pushed)
        if self._answered <= ANSWERED_LIMIT:
            self._room.set()

    def _count(self, size: int, *, pushed: bool) -> None:
        if pushed:
            self._pushed += size
        else:
            self._answered += size


Piece = tuple[int, int, str]
"""A changed text: the lengths of its unchanged start and end, and the new text in between."""


class News(NamedTuple):
    """A progress report in which texts are differences from the previous report.

    It is a tuple, because then its JSON has no field names. `rest` is the content other than text,
    or None if there is none. It omits a preview that has been sent already.
    """

    job_id: int
    text: Piece | None
    chunks: tuple[Piece, ...]
    same_preview: bool
    rest: Progress | None

    def outline(self) -> "News | None":
        """Return the report without text and images, or None if nothing else is new."""
        rest = _NOTHING if self.rest is None else replace(self.rest, preview=None)
        return None if rest == _NOTHING else News(self.job_id, None, (), False, rest)


_NOTHING = Progress()


@dataclass(slots=True)
class _Last:
    text: str = ""
    chunk: str = ""
    preview: File | None = None


class ProgressNews:
    """The last reports of each job. Both ends of a connection keep the same state."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}

    def of(self, event: Progressed) -> News:
        """Reduce a report to its differences."""
        last, told = self._last.setdefault(event.job_id, _Last()), event.progress
        text, chunks = None, []
        if told.text is not None:
            text, last.text = _piece(last.text, told.text), told.text
        for chunk in told.chunks:
            chunks.append(_piece(last.chunk, chunk))
            last.chunk = chunk
        same = told.preview is not None and told.preview == last.preview
        last.preview = told.preview or last.preview
        rest = replace(told, text=None, chunks=(), preview=None if same else told.preview)
        return News(event.job_id, text, tuple(chunks), same, None if rest == _NOTHING else rest)

    def report(self, news: News) -> Progressed:
        """Rebuild a complete report from its differences."""
        last, told = self._last.setdefault(news.job_id, _Last()), news.rest or _NOTHING
        if news.text is not None:
            last.text = _whole(last.text, news.text)
        chunks = []
        for piece in news.chunks:
            last.chunk = _whole(last.chunk, piece)
            chunks.append(last.chunk)
        last.preview = told.preview or last.preview
        text = None if news.text is None else last.text
        preview = last.preview if news.same_preview else told.preview
        progress = replace(told, text=text, chunks=tuple(chunks), preview=preview)
        return Progressed(job_id=news.job_id, progress=progress)

    def forget(self, job_id: int) -> None:
        """Forget the reports of a job that has changed."""
        self._last.pop(job_id, None)

    def forget_all(self) -> None:
        """Forget all reports, so that the next ones are complete.

        Needed when a reader missed some.
        """
        self._last.clear()


def _piece(before: str, text: str) -> Piece:
    first = _common(before, text)
    rest, new = before[first:], text[first:]
    last = _common(rest[::-1], new[::-1])
    return first, last, new[: len(new) - last]


def _whole(before: str, piece: Piece) -> str:
    first, last, new = piece
    return before[:first] + new + before[len(before) - last :]


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix, by binary search."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


EVERY_S = 0.02
"""The shortest time between two progress frames, in seconds."""


class ProgressBatch:
    """Batches the progress reports of all jobs. `push` receives the content of each frame."""

    def __init__(self, push: Callable[[Sequence[News]], None]) -> None:
        self._push = push
        self._waiting: dict[int, list[Progress]] = {}
        self._news = ProgressNews()
        self._pushed_at = -EVERY_S
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: Progressed) -> None:
        """Add a report, to be pushed shortly."""
        self._waiting.setdefault(event.job_id, []).append(event.progress)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time(), self._pushed_at + EVERY_S)
            self._timer = loop.call_at(at, self.push_all)

    def before_change(self, job_id: int) -> None:
        """Push a job's pending reports before its change is sent."""
        if job_id in self._waiting:
            self._send({job_id: self._waiting.pop(job_id)})
        self._news.forget(job_id)

    def begin_anew(self) -> None:
        """Push pending reports and send complete ones from now on, for a new reader."""
        self.push_all()
        self._news.forget_all()

    def push_all(self) -> None:
        """Push all pending reports now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._send(self._waiting)
            self._waiting = {}
            self._pushed_at = asyncio.get_running_loop().time()

    def drop(self) -> None:
        """Discard pending reports, because there is no reader."""
        self._waiting = {}
        self.begin_anew()

    def _send(self, reports: dict[int, list[Progress]]) -> None:
        self._push(
            [
                self._news.of(Progressed(job_id=job_id, progress=merged(each)))
                for job_id, each in reports.items()
            ]
        )


def merged(reports: Sequence[Progress]) -> Progress:
    """Merge the reports of an attempt into one. The latest value of each field is kept."""
    if len(reports) == 1:
        return reports[0]
    chunks = tuple(chunk for each in reports for chunk in each.chunks)
    return replace(reduce(_later, reports), chunks=chunks)


def _later(first: Progress, second: Progress) -> Progress:
    return replace(
        second,
        fraction=first.fraction if second.fraction is None else second.fraction,
        text=first.text if second.text is None else second.text,
        preview=first.preview if second.preview is None else second.preview,
    )
