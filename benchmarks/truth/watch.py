"""Looks at every open message twice a second, next to what `/queue` tells and to the servers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.truth.claims import Claim, Truth, claims
from benchmarks.truth.crowd import ROOMS
from benchmarks.truth.promises import Promise, Run
from benchmarks.truth.reading import Fault, is_read, moment_fault, place_fault, said_in
from bot.core.content import Body, Content, Moment, Period
from bot.texts import status
from bot.texts.catalogue import plain
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import Job
from queueing.core.status import Standing
from tests.fakes.strict_chats import StrictChat
from tests.simulation.bot_installation import Bot

LOOK_S = 0.5
DIFFERS_S, PASSED_S, UNTRUE_S = 5.0, 3.0, 5.0
FIRST = 10

_PLACE = re.compile(r"#(\d+) in line")
_STEPS = re.compile(r" · step \d+/\d+ \S+| · \d+ % \S+")
_BEGINS = re.compile("[⏳📦🎨✍]")


@dataclass(eq=False, kw_only=True)
class Shown:
    """An open job's message, as people see it now."""

    chat: StrictChat
    room: str
    content: Content
    since: float
    first_at: float

    @property
    def moments(self) -> set[float]:
        """The moments it names, and the end of its range."""
        parts = (part for part in self.content.body if isinstance(part, Moment | Period))
        return {part.at if isinstance(part, Moment) else part.ends_at for part in parts}


def flat(body: Body) -> str:
    """Return what a body says about place, reason and time, with exact moments."""
    text = "".join(
        f"<{part.at:.0f}>" if isinstance(part, Moment) else plain((part,)) for part in body
    )
    found = _BEGINS.search(text)
    return _STEPS.sub("", text[found.start() :] if found else text).rstrip()


@dataclass(slots=True)
class Age:
    """How long something has been wrong, and for how much of that an edit was allowed."""

    key: object
    since: float
    seen_at: float
    seen: object
    allowed_s: float = 0.0

    def __str__(self) -> str:
        """Return a line for people."""
        lasted = f"{self.seen_at - self.since:g} s, {self.allowed_s:g} s of it free for an edit"
        return f"{self.key}: {lasted}, since {self.since:.0f} {self.seen}"


class Ages:
    """Adds up, for each wrong thing, the time in which it could have been corrected."""

    def __init__(self, most_s: float = 0.0) -> None:
        self._most_s = most_s
        self._open: dict[object, Age] = {}
        self.all: list[Age] = []

    @property
    def cases(self) -> list[Age]:
        """What stayed wrong for too long."""
        return [age for age in self.all if age.allowed_s > self._most_s]

    def note(
        self, key: object, now: float, *, wrong: bool, free: bool, since: float, seen: object = ""
    ) -> None:
        """Record what a look has found; `free` says whether the chat's budget allows an edit."""
        if not wrong:
            self._open.pop(key, None)
            return
        if (age := self._open.get(key)) is None:
            age = self._open[key] = Age(key, since, since, seen)
            self.all.append(age)
        age.allowed_s += (now - age.seen_at) * free
        age.seen_at = now


class Watch:
    """Reads what the chats show, asks what `/queue` would tell, and counts what is untrue."""

    def __init__(self, running: Bot, truth: Truth, run: Run) -> None:
        self._running = running
        self._truth = truth
        self._run = run
        self._jobs: dict[int, Job] = {}
        self._read: dict[int, tuple[float, float]] = {}  # the first range in a message
        self._measured: dict[int, bool] = {}
        self._claims: dict[tuple[int, Claim], list[tuple[float, bool, bool | None]]] = {}
        self.open: dict[int, Shown] = {}
        self._said: dict[int, str] = {}  # by `/queue`, at the last look
        self.looks = 0
        self.differs, self.passed, self.untrue = Ages(DIFFERS_S), Ages(PASSED_S), Ages(UNTRUE_S)
        self.misread = Ages()

    def on_event(self, event: Event) -> None:
        """Follow the jobs."""
        if isinstance(event, JobChanged):
            self._jobs[event.job.id] = event.job

    def show(self, chat: StrictChat, room: str, content: Content) -> None:
        """Take a content that has just become visible."""
        if not content.buttons:
            return
        button, now = content.buttons[0][0], self._now()
        if button.command != "cancel" or button.job_id not in self._jobs:
            self.open.pop(button.job_id, None)
            return
        job_id = button.job_id
        if (shown := self.open.get(job_id)) is None:
            shown = Shown(chat=chat, room=room, content=content, since=now, first_at=now)
            self.open[job_id] = shown
        shown.content, shown.since = content, now
        self.mended(job_id, flat(content.body), now)
        said = said_in(content.body)
        if said.latest is not None:
            self._read.setdefault(job_id, (said.earliest or now, said.latest))

    async def look(self) -> None:
        """Compare every open message with `/queue` and with the servers."""
        jobs = [self._jobs[job_id] for job_id in self.open]
        standings = await self._running.queue.status.standings(jobs) if jobs else {}
        for job_id, shown in list(self.open.items()):
            if (standing := standings.get(job_id)) is not None:
                self._look_at(shown, standing)

    def _look_at(self, shown: Shown, standing: Standing) -> None:
        now, job, text = self._now(), standing.job, flat(shown.content.body)
        free = self._free(shown, now)
        roughly = said_in(shown.content.body).at_most
        content = status.open_message(standing, None, "en", previews=False, rarely=roughly)
        told = flat(content.body)
        if standing.ends is not None:
            self._measured.setdefault(job.id, standing.ends.measured)
        self._judge(shown, standing, text, told, free=free)
        if job.state.final:
            return
        self.compare(job.id, text, told, now, free=free)
        for moment in shown.moments:
            if moment > shown.since:  # it was ahead when it was shown
                wrong = moment < now
                self.passed.note((job.id, moment), now, wrong=wrong, free=free, since=moment)
        for claim in claims(text, _prompt(job), job.model):
            seen = self._claims.setdefault((job.id, claim), [])
            seen.append((now, free, self._truth.holds(claim)))

    def _judge(self, shown: Shown, standing: Standing, text: str, told: str, *, free: bool) -> None:
        """Count whether place and moment are true as a person reads them now."""
        said, room, now = said_in(shown.content.body), ROOMS.get(shown.room, "private"), self._now()
        found: dict[str, Fault | None] = {}
        if is_read(said, standing):
            found["place"] = place_fault(said, standing)
        if is_read(said, standing) or said.latest is not None:
            found["moment"] = moment_fault(said, standing, now)
        for what in ("place", "moment"):
            why = found.get(what)
            self._run.reads[what, room] += what in found
            if why is not None:
                self._run.untrue[what, room, why] += 1
            for fault in Fault:
                key, wrong = (room, what, fault.value, standing.job.id), why is fault
                self.misread.note(key, now, wrong=wrong, free=free, since=now, seen=(text, told))

    def mended(self, job_id: int, shown: str, now: float) -> None:
        """Note a new text: a difference ends if it is what `/queue` said at the last look.

        If that has changed again by the next look, another difference begins there.
        """
        if shown == self._said.get(job_id):
            self.differs.note(job_id, now, wrong=False, free=False, since=now)

    def compare(self, job_id: int, shown: str, said: str, now: float, *, free: bool) -> None:
        """Compare them; a job that falls behind the first ten and returns is counted anew."""
        place = _PLACE.search(said)
        first = place is None or int(place[1]) <= FIRST
        self.looks += first
        wrong = first and said != shown
        self._said[job_id] = said
        self.differs.note(job_id, now, wrong=wrong, free=free, since=now, seen=(shown, said))

    def _free(self, shown: Shown, now: float) -> bool:
        """Whether the chat's budget allows an edit of that message now."""
        presenter = self._running.presenter
        channel = presenter._channels.at(shown.chat.name, shown.room)  # noqa: SLF001
        rate_limit = channel.rate_limit
        gap_s = rate_limit.news_gap_s(now - shown.first_at)
        return (
            rate_limit.earliest(now, urgent=False, ending=channel.ending(now)) <= now
            and now - shown.since >= gap_s
        )

    def _now(self) -> float:
        return self._running.clock.now()

    def close(self, start: float) -> None:
        """Put what was seen into the run; `start` is the clock's time when the loop's was zero."""
        for key, seen in self._claims.items():
            last = seen[0][0]
            for at, free, holds in seen:
                so = self._truth.came_true(key[1], at - start) if holds is None else holds
                if at - last > 1.5 * LOOK_S:  # it was not made in between
                    self.untrue.note(key, at, wrong=False, free=free, since=at)
                self.untrue.note(key, at, wrong=not so, free=free, since=at)
                last = at
        self._run.counts |= {
            "looks": self.looks,
            "contradictions": len(self.differs.cases),
            "past_moments": len(self.passed.cases),
            "untrue_reasons": len(self.untrue.cases),
        }
        self._run.promises = list(self._promises(start))
        ends = [self._truth.ended_at(_prompt(job)) for job in self._jobs.values()]
        done = sum(ended is not None for ended in ends)
        self._run.counts["never_told"] = done - len(self._run.promises)

    def _promises(self, start: float) -> Iterator[Promise]:
        """Yield the first range of each job that a server has done."""
        for job_id, promised in self._running.queue.promises.given.items():
            job = self._jobs[job_id]
            ended, read = self._truth.ended_at(_prompt(job)), self._read.get(job_id)
            if ended is not None and read is not None:
                yield Promise(
                    lane=job.lane,
                    at=promised.given_at,
                    earliest=promised.earliest,
                    latest=promised.latest,
                    ended=ended + start,
                    read=read,
                    measured=self._measured.get(job_id, True),
                )


def _prompt(job: Job) -> str:
    return str(getattr(job.request, "prompt", ""))
