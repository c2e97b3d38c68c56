"""Progress on its way to other processes: what is reported within a moment goes as one frame.

A text model reports each token, and writing and sending an event costs many times what the token
itself does. The first report after a pause goes at once, so that an answer begins without delay.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from bot.app.cluster.progress_news import News, ProgressNews
from queueing.core.events import Progressed
from queueing.core.requests import Progress

EVERY_S = 0.02
"""The shortest time between two frames of progress."""


class ProgressPushes:
    """Collects the progress of all jobs; `push` is given the news of each frame."""

    def __init__(self, push: Callable[[Sequence[News]], None]) -> None:
        self._push = push
        self._waiting: dict[int, list[Progress]] = {}
        self._news = ProgressNews()
        self._pushed_at = -EVERY_S
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: Progressed) -> None:
        """Push a report, within a moment."""
        self._waiting.setdefault(event.job_id, []).append(event.progress)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time(), self._pushed_at + EVERY_S)
            self._timer = loop.call_at(at, self.push_all)

    def before_change(self, job_id: int) -> None:
        """Push what a job reported before it changed."""
        if job_id in self._waiting:
            self._send({job_id: self._waiting.pop(job_id)})
        self._news.forget(job_id)

    def begin_anew(self) -> None:
        """Push what waits; whoever comes now is told the next reports whole, as all others."""
        self.push_all()
        self._news.forget_all()

    def push_all(self) -> None:
        """Push all that waits now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._send(self._waiting)
            self._waiting = {}
            self._pushed_at = asyncio.get_running_loop().time()

    def drop(self) -> None:
        """Forget what waits: it has no reader."""
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
    """Return several reports of one attempt as one: nothing that only one of them says is lost."""
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
