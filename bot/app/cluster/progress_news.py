"""Progress as it travels: only what differs from the last report of the same job.

A server tells the whole answer again and again, and its pieces differ by a word each.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from queueing.core.events import Progressed
from queueing.core.requests import File, Progress

Piece = tuple[int, int, str]
"""How many characters at the start and at the end of the last text remain, and what is between."""


class News(NamedTuple):
    """A report of a job, its texts as pieces; a tuple, because its JSON names no fields.

    `rest` is all else that was reported, None if nothing was, without a preview that was told before.
    """

    job_id: int
    text: Piece | None
    chunks: tuple[Piece, ...]
    same_preview: bool
    rest: Progress | None

    def outline(self) -> "News | None":
        """Return how far the job is, without words and pictures; None if that is not new."""
        rest = _NOTHING if self.rest is None else replace(self.rest, preview=None)
        return None if rest == _NOTHING else News(self.job_id, None, (), False, rest)


_NOTHING = Progress()


@dataclass(slots=True)
class _Last:
    text: str = ""
    chunk: str = ""
    preview: File | None = None


class ProgressNews:
    """What one end knows of the last reports; both ends of a connection know the same."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}

    def of(self, event: Progressed) -> News:
        """Return what is new in a report."""
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
        """Return the report that was told."""
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
        """Forget all, so that the next reports are whole: somebody has not heard the last ones."""
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
    """Return how many characters both begin with, found by halving."""
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
