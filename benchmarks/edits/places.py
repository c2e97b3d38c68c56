"""Compares the places that messages show with the queue's events."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from bot.core.content import Content
from bot.texts.catalogue import plain
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobEvent

FIRST = 10  # places of a queue that are watched most

_PLACE = re.compile(r"#(\d+) in line")


class Places:
    """The true place of every waiting job, and the one its message shows.

    A shown place is stale from the moment it ceases to be true until it is true again. Ages of the
    first ten places of a queue in private chats are counted apart from all others.
    """

    def __init__(self) -> None:
        self._queues: defaultdict[str, list[int]] = defaultdict(list)
        self._true: dict[int, int] = {}
        self._shown: dict[int, int | None] = {}
        self._wrong_since: dict[int, float] = {}
        self._group_jobs: set[int] = set()
        self._accepted_at: dict[int, float] = {}
        self._ended_at: dict[int, float] = {}
        self.counting = False
        self._changes = 0
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    def end(self) -> dict[str, float]:
        """Return the figures; what is still stale or not delivered counts as of now."""
        for job_id in list(self._wrong_since):
            self._close(job_id)
        for job_id in list(self._ended_at):
            self._note("final", _now() - self._ended_at.pop(job_id))
        return {
            "stale_s_max_first10_private": _most(self._seconds["first"]),
            "final_s_p50": _median(self._seconds["final"]),
            "final_s_max": _most(self._seconds["final"]),
            "edits_naive": self._changes,
            "edits_of_places": len(self._seconds["place_edits"]),
            "stale_s_p50_further_back": _median(self._seconds["further"]),
            "stale_s_max_further_back": _most(self._seconds["further"]),
            "stale_s_max_first10_group": _most(self._seconds["group"]),
            "first_answer_s_p50": _median(self._seconds["answer"]),
            "first_answer_s_max": _most(self._seconds["answer"]),
            "jobs_ended": len(self._seconds["final"]),
        }

    def on_event(self, event: Event) -> None:
        """Follow the queues."""
        if not isinstance(event, JobChanged):
            return
        job = event.job
        queue = self._queues[job.model]
        match event.event:
            case None:
                queue.append(job.id)
                self._true[job.id] = len(queue)
                self._accepted_at[job.id] = _now()
            case JobEvent.START:
                queue.remove(job.id)
                self._close(job.id)
                del self._true[job.id]
                self._renumber(queue)
            case JobEvent.COMPLETE:
                self._ended_at[job.id] = _now()
            case JobEvent.RELEASE:
                self.counting = False  # the bot stops, and gives back what ran
            case other:
                raise AssertionError(f"unexpected: {other}")

    def _renumber(self, queue: list[int]) -> None:
        for place, job_id in enumerate(queue, start=1):
            if self._true[job_id] != place:
                self._true[job_id] = place
                self._changes += self.counting
                self._compare(job_id)

    def show(self, chat: str, content: Content) -> None:
        """Take a content that has just become visible."""
        if not content.buttons:
            return  # a ping
        button = content.buttons[0][0]
        if chat.startswith("g"):
            self._group_jobs.add(button.job_id)
        if button.command != "cancel":
            if button.job_id in self._ended_at:
                self._note("final", _now() - self._ended_at.pop(button.job_id))
            return
        if button.job_id in self._accepted_at:
            self._note("answer", _now() - self._accepted_at.pop(button.job_id))
        found = _PLACE.search(plain(content.body))
        if found:
            self._note("place_edits", 0.0)
        self._shown[button.job_id] = int(found[1]) if found else None
        self._compare(button.job_id)

    def _compare(self, job_id: int) -> None:
        if job_id not in self._shown or job_id not in self._true:
            return
        # The first job of a model that is loading shows the load and not its place.
        right = (self._shown[job_id] or 1) == self._true[job_id]
        if right:
            self._close(job_id)
        else:
            self._wrong_since.setdefault(job_id, _now())

    def _close(self, job_id: int) -> None:
        since = self._wrong_since.pop(job_id, None)
        if since is None:
            return
        if self._true[job_id] > FIRST:
            self._note("further", _now() - since)
        else:
            self._note("group" if job_id in self._group_jobs else "first", _now() - since)

    def _note(self, kind: str, seconds: float) -> None:
        if self.counting:
            self._seconds[kind].append(seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _median(seconds: Sequence[float]) -> float:
    return round(median(seconds or [0.0]), 2)


def _most(seconds: Sequence[float]) -> float:
    return round(max(seconds, default=0.0), 2)
