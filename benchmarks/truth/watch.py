"""Looks at every open message once a second, next to `/queue` and the servers."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import quantiles

from benchmarks.truth.claims import Claim, Truth, claims
from benchmarks.truth.promises import KEPT_SHARE, Promise, by_lane
from bot.chat.api.content import Body, Content, Moment
from bot.chat.texts import plain
from queueing.core.jobs import Job
from queueing.core.standings import Standing
from tests.fakes.chat import FakeChat
from tests.fakes.strict_chats import StrictChat
from tests.simulation.bot_installation import Bot

LOOK_S = 1.0
DIFFERS_S, PASSED_S, UNTRUE_S = 5.0, 3.0, 5.0
FIRST = 10
LONG_S = 60.0

_JOB = re.compile(r"(?m)^(\d+) · (.*(?:\n(?!\d+ · ).*)*)")
_PLACE = re.compile(r"#(\d+) in line")
_STEPS = re.compile(r" · step \d+/\d+ \S+| · \d+ % \S+")
_BEGINS = re.compile("[⏳📦🎨✍]")


@dataclass(eq=False, kw_only=True)
class Shown:
    """An open job's message, as people see it now."""

    chat: StrictChat
    room: str
    job: Job
    content: Content
    since: float
    first_at: float
    times: list[tuple[float, float]] = field(default_factory=list)  # when shown, and what

    @property
    def body(self) -> str:
        """What it says about place, reason and time."""
        text = flat(self.content.body)
        found = _BEGINS.search(text)
        return _STEPS.sub("", text[found.start() :] if found else text)

    @property
    def moments(self) -> list[Moment]:
        """The moments it names."""
        return [part for part in self.content.body if isinstance(part, Moment)]


def flat(body: Body) -> str:
    """Return a body as text with exact moments."""
    return "".join(
        f"<{part.at:.0f}±{part.spread_s:g}>" if isinstance(part, Moment) else plain((part,))
        for part in body
    )


@dataclass(slots=True)
class _Age:
    """How long something has been wrong, and for how much of that an edit was allowed."""

    since: float
    seen_at: float
    allowed_s: float = 0.0
    first_allowed: float | None = None
    counted: bool = False


class Ages:
    """Adds up, for each wrong thing, the time in which it could have been corrected."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._open: dict[object, _Age] = {}
        self.cases: list[object] = []
        self.waits: list[float] = []

    def note(
        self, key: object, now: float, *, wrong: bool, free: bool, since: float, seen: object = ""
    ) -> None:
        """Record what a look has found; `free` says whether the chat's budget allows an edit."""
        if not wrong:
            if (age := self._open.pop(key, None)) is not None and age.first_allowed is None:
                self.waits.append(now - age.since)
            return
        age = self._open.setdefault(key, _Age(since, since))
        if free:
            if age.first_allowed is None:
                age.first_allowed = now
                self.waits.append(now - age.since)
            age.allowed_s += now - age.seen_at
        age.seen_at = now
        if age.allowed_s > self._most_s and not age.counted:
            age.counted = True
            self.cases.append((key, round(age.since, 1), seen))


class Watch:
    """Reads what the chats show, asks `/queue`, and counts contradictions."""

    def __init__(self, running: Bot, watcher: FakeChat, truth: Truth) -> None:
        self._running = running
        self._watcher = watcher
        self._truth = truth
        self._jobs: dict[int, Job] = {}
        self._accepted: dict[int, tuple[float, Standing]] = {}
        self._claims: dict[tuple[int, Claim], list[tuple[float, bool, bool | None]]] = {}
        self._flips: list[int] = []
        self.open: dict[int, Shown] = {}
        self._said: dict[int, str] = {}  # by `/queue`, at the last look
        self.looks = 0
        self.differs, self.passed, self.untrue = Ages(DIFFERS_S), Ages(PASSED_S), Ages(UNTRUE_S)

    async def accepted(self, job: Job) -> None:
        """Record the estimate for a job."""
        self._jobs[job.id] = job
        self._truth.accepted.setdefault(_prompt(job), asyncio.get_running_loop().time())
        standing = (await self._running.queue.status.standings([job]))[job.id]
        self._accepted[job.id] = (self._now(), standing)

    def show(self, chat: StrictChat, room: str, content: Content) -> None:
        """Take a content that has just become visible."""
        if not content.buttons:
            return
        button, now = content.buttons[0][0], self._now()
        if button.command != "cancel" or button.job_id not in self._jobs:
            gone = self.open.pop(button.job_id, None)
            if gone is not None and now - gone.first_at >= LONG_S:
                self._flips.append(flips(gone.times))
            return
        job = self._jobs[button.job_id]
        if (shown := self.open.get(job.id)) is None:
            shown = Shown(chat=chat, room=room, job=job, content=content, since=now, first_at=now)
            self.open[job.id] = shown
        shown.content, shown.since = content, now
        self.mended(job.id, shown.body, now)
        ahead = [moment.at for moment in shown.moments if not moment.clock]
        if ahead and (not shown.times or shown.times[-1][1] != ahead[0]):
            shown.times.append((now, ahead[0]))

    async def look(self) -> None:
        """Compare every open message with `/queue` and with the servers."""
        by_user = defaultdict(list)
        for shown in self.open.values():
            by_user[shown.job.owner].append(shown)
        for user, messages in by_user.items():
            said = await self._asked(user)
            for shown in messages:
                self._compare(shown, said.get(shown.job.id))

    def _compare(self, shown: Shown, said: str | None) -> None:
        now, job = self._now(), shown.job
        if said is None or self.open.get(job.id) is not shown:
            return  # it ended before the answer came
        free = self._free(shown, now)
        self.compare(job.id, shown.body, said, now, free=free)
        for moment in {moment.at for moment in shown.moments}:
            if moment > shown.since:  # it was ahead when it was shown
                wrong = moment < now
                self.passed.note((job.id, moment), now, wrong=wrong, free=free, since=moment)
        for claim in claims(shown.body, _prompt(job), job.model):
            seen = self._claims.setdefault((job.id, claim), [])
            seen.append((now, free, self._truth.holds(claim)))

    def mended(self, job_id: int, shown: str, now: float) -> None:
        """Note a new text: a difference ends if it is what `/queue` said at the last look.

        If that has changed again by the next look, another difference begins there.
        """
        if shown == self._said.get(job_id):
            self.differs.note(job_id, now, wrong=False, free=False, since=now)

    def compare(self, job_id: int, shown: str, said: str, now: float, *, free: bool) -> None:
        """Compare them; a job that falls behind the first ten and returns is counted afresh."""
        place = _PLACE.search(said)
        first = place is None or int(place[1]) <= FIRST
        self.looks += first
        wrong = first and said != shown
        self._said[job_id] = said
        self.differs.note(job_id, now, wrong=wrong, free=free, since=now, seen=(shown, said))

    def _free(self, shown: Shown, now: float) -> bool:
        """Whether the chat's budget allows an edit of that message now."""
        presenter = self._running.presenter
        rate_limit = presenter._channels.at(shown.chat.name, shown.room).rate_limit  # noqa: SLF001
        gap_s = rate_limit.news_gap_s(now - shown.first_at)
        return rate_limit.earliest(now, urgent=False) <= now and now - shown.since >= gap_s

    async def _asked(self, user: str) -> dict[int, str]:
        """Return what `/queue` says about a person's jobs."""
        answer: asyncio.Future[Content] = asyncio.get_running_loop().create_future()

        async def respond(content: Content, _private: bool) -> None:
            answer.set_result(content)

        await self._running.gate.call(self._watcher.call("/queue", user=user, respond=respond))
        own = flat((await answer).body).partition("\n\n")[0]
        return {int(found[1]): found[2].strip() for found in _JOB.finditer(own)}

    def _now(self) -> float:
        return self._running.clock.now()

    def figures(self, start: float) -> dict[str, object]:
        """Return the figures; `start` is the clock's time when the loop's was zero."""
        for key, seen in self._claims.items():
            last = seen[0][0]
            for at, free, holds in seen:
                so = self._truth.came_true(key[1], at - start) if holds is None else holds
                if at - last > 1.5 * LOOK_S:  # it was not made in between
                    self.untrue.note(key, at, wrong=False, free=free, since=at)
                self.untrue.note(key, at, wrong=not so, free=free, since=at)
                last = at
        waits = self.differs.waits + self.passed.waits
        promises = list(self._promises(start))
        return {
            "looks": self.looks,
            "contradictions": len(self.differs.cases),
            "past_moments": len(self.passed.cases),
            "budget_wait_s_p95": round(quantiles(waits, n=20)[-1], 1) if len(waits) > 1 else 0.0,
            "untrue_reasons": len(self.untrue.cases),
            "flips_per_job": round(sum(self._flips) / max(1, len(self._flips)), 2),
            "kept_by_lane": by_lane(promises, lambda promise: promise.kept),
            "within_spread_by_lane": by_lane(promises, lambda each: each.off_s <= each.spread_s),
            "broken_by_lane": self._truth.broken(promises),
        }

    def _promises(self, start: float) -> Iterator[Promise]:
        """Yield the estimate for each job that a server has done."""
        for job_id, (at, standing) in self._accepted.items():
            job = self._jobs[job_id]
            ended, promise = self._truth.ended_at(_prompt(job)), standing.done_at
            if ended is not None and promise is not None:
                yield Promise(
                    lane=job.lane,
                    model=job.model,
                    prompt=_prompt(job),
                    at=at - start,
                    promised=promise - start,
                    ended=ended,
                    spread_s=standing.done_spread_s or 0.0,
                )


def _prompt(job: Job) -> str:
    return str(getattr(job.request, "prompt", ""))


def flips(times: list[tuple[float, float]]) -> int:
    """Return how often the times a message showed turned back by more than a fifth of the wait."""
    found, direction = 0, 0
    for (_, old), (at, new) in pairwise(times):
        turned = 1 if new > old else -1
        if turned == -direction and abs(new - old) > KEPT_SHARE * max(0.0, old - at):
            found += 1
        direction = turned
    return found
