"""Compares what people are shown with the truth, which the queue's events tell."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from bot.chat.api.content import Content
from bot.chat.texts import plain
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobEvent

FIRST = 10  # places of a line that are watched most

_PLACE = re.compile(r"#(\d+) in line")


@dataclass
class Places:
    """The true place of every waiting job beside the one its message shows.

    A shown place is stale from the moment it ceases to be true until it is true again; its age
    counts for the first ten of a line, private chats only, and apart from that for all others.
    """

    _lines: dict[str, list[int]] = field(default_factory=dict)
    _true: dict[int, int] = field(default_factory=dict)
    _shown: dict[int, int | None] = field(default_factory=dict)
    _wrong_since: dict[int, float] = field(default_factory=dict)
    _group_jobs: set[int] = field(default_factory=set)
    _accepted_at: dict[int, float] = field(default_factory=dict)
    _ended_at: dict[int, float] = field(default_factory=dict)
    _counting: bool = False
    _changes: int = 0
    _ages: dict[str, list[float]] = field(default_factory=dict)

    def begin(self) -> None:
        """Count from now on."""
        self._counting = True

    def end(self) -> dict[str, float]:
        """Return the figures; what is still stale or not delivered counts as it stands now."""
        for job_id in list(self._wrong_since):
            self._close(job_id)
        for job_id in list(self._ended_at):
            self._note("final", _now() - self._ended_at.pop(job_id))
        return {
            "stale_s_max_first10_private": _most(self._ages.get("first", ())),
            "final_s_p50": round(median(self._ages.get("final", [0.0])), 2),
            "final_s_max": _most(self._ages.get("final", ())),
            "edits_naive": self._changes,
            "edits_of_places": len(self._ages.get("place_edits", ())),
            "stale_s_p50_further_back": round(median(self._ages.get("further", [0.0])), 2),
            "stale_s_max_further_back": _most(self._ages.get("further", ())),
            "stale_s_max_first10_group": _most(self._ages.get("group", ())),
            "first_answer_s_p50": round(median(self._ages.get("answer", [0.0])), 2),
            "first_answer_s_max": _most(self._ages.get("answer", ())),
            "jobs_ended": len(self._ages.get("final", ())),
        }

    def on_event(self, event: Event) -> None:
        """Follow the lines."""
        if not isinstance(event, JobChanged):
            return
        job = event.job
        line = self._lines.setdefault(job.model, [])
        match event.event:
            case None:
                line.append(job.id)
                self._true[job.id] = len(line)
                self._accepted_at[job.id] = _now()
            case JobEvent.START:
                line.remove(job.id)
                self._close(job.id)
                del self._true[job.id]
                self._renumber(line)
            case JobEvent.COMPLETE:
                self._ended_at[job.id] = _now()
            case JobEvent.RELEASE:
                self._counting = False  # the bot stops, and gives back what ran
            case other:
                raise AssertionError(f"nothing of that kind was to happen: {other}")

    def _renumber(self, line: list[int]) -> None:
        for place, job_id in enumerate(line, start=1):
            if self._true[job_id] != place:
                self._true[job_id] = place
                self._changes += self._counting
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
        # A model that is being loaded is shown in place of its first job's number.
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
        if self._counting:
            self._ages.setdefault(kind, []).append(seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _most(ages: Iterable[float]) -> float:
    return round(max(ages, default=0.0), 2)
