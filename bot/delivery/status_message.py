"""What the presenter knows of one job's status message, and when it is due.

Nothing here sends.
"""

import math
from dataclasses import dataclass, replace

from bot.core.content import Content, Moment, Period
from bot.core.origin import Origin
from bot.core.platform import MessageRef, Respond
from bot.delivery.rate_limit import RateLimit, stretch
from bot.delivery.result_renderer import Fallback
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Progress
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Standing

Kind = tuple[WaitCause, str | None, str | None] | None
"""What a wait is attributed to, on which host, to which other model; counts and moments only tick
on.
"""

_GOES_ON = frozenset({WaitCause.QUEUED, WaitCause.STARTING})  # come and go with every job
_OTHERS_TURN = frozenset({WaitCause.ROOM_BUSY, WaitCause.RESERVED, WaitCause.GATED})
_NEWS = frozenset(  # shown at once, whatever the message said before
    {
        WaitCause.LOADING,
        WaitCause.OFFLINE,
        WaitCause.LOAD_PAUSE,
        WaitCause.RETRY_PAUSE,
        WaitCause.PAUSED,
        WaitCause.QUIET,
        WaitCause.QUIET_SOON,
        WaitCause.YIELDING,
        WaitCause.WAKING,
        WaitCause.SUSPECT,
    }
)


def kind_of(reason: Reason | None) -> Kind:
    """Return what a reason says apart from numbers; None if others of the queue are ahead."""
    if reason is None or reason.why in _GOES_ON:
        return None
    why = WaitCause.ROOM_BUSY if reason.why in _OTHERS_TURN else reason.why
    return (why, reason.host, reason.other)


def _expires(content: Content, asked_at: float) -> float:
    """Return when the first of the moments or periods that were still ahead has passed.

    It may have passed by now: an edit takes its time.
    """
    moments = [part.at for part in content.body if isinstance(part, Moment)]
    moments += [part.ends_at for part in content.body if isinstance(part, Period)]
    ahead = [moment for moment in moments if moment > asked_at]
    return min(ahead, default=math.inf)


@dataclass(eq=False, kw_only=True, slots=True)
class StatusMessage:
    """One job's status message. Mutable, and touched by the presenter alone.

    `changed` asks for an edit at once (a new state, a reason that has ended, a moment that has
    passed), `advanced` as often as its chat and the crowd allow (a step), `moved` when convenient
    (a place in line). `expires` is when the first moment its message names has passed. `drawn` is
    the last content that was made, after what it was made from; `asked_at` is when the edit being
    made read the job's standing. `written` is the answer as far as it has come; a stopped one stays
    readable, and `longest`, the most that an attempt wrote, stays if all have failed. `muted`: its message was deleted, only its end makes a new one. `fallback` is how far
    a refused result was cut down. `step` is the open job that writes down its recording, or reads
    its answer aloud; `told`: the answer itself has been shown. `telling`: the edit being made was asked for at once. `dropped`:
    nothing more is to be shown.
    """

    job: Job
    origin: Origin
    respond: Respond | None = None
    ref: MessageRef | None = None
    sent_at: float | None = None
    looked_up: bool = False
    shown: Content | None = None
    drawn: tuple[tuple[object, ...], Content] | None = None
    asked_at: float = -math.inf
    edited_at: float = -math.inf
    position: int | None = None
    stood: bool = False
    kind: Kind = None
    kind_shown: Kind = None
    expires: float = math.inf
    progress: Progress | None = None
    written: str = ""
    longest: str = ""
    changed: bool = True
    advanced: bool = False
    moved: bool = False
    muted: bool = False
    dropped: bool = False
    forgotten: bool = False  # its job is deleted
    telling: bool = False
    fallback: Fallback = Fallback.WHOLE
    delayed_until: float = 0.0
    failures: int = 0
    step: Job | None = None
    told: bool = False

    @property
    def current(self) -> Job:
        """The job whose place is shown: the open one made for its own, if there is one."""
        return self.step or self.job

    def take(self, newer: Job) -> None:
        """Replace what is known of the job whose place is shown."""
        if self.step is None:
            self.job = newer
        else:
            self.step = newer

    def take_marks(self) -> tuple[bool, bool, bool]:
        """Return what asks for an edit, and clear it: later changes ask again."""
        marks = (self.changed, self.advanced, self.moved)
        self.telling = self.changed
        self.changed = self.advanced = self.moved = False
        return marks

    def mark(self, marks: tuple[bool, bool, bool]) -> None:
        """Ask again for what was taken and not shown."""
        changed, advanced, moved = marks
        self.changed |= changed
        self.advanced |= advanced
        self.moved |= moved

    @property
    def out_of_date(self) -> bool:
        """Whether the message may no longer show what is true."""
        return self.changed or ((self.advanced or self.moved) and not self.job.state.final)

    def free(self, rate_limit: RateLimit) -> bool:
        """Return whether the next request for this message uses no budget."""
        answers = self.ref is None and self.respond is not None and rate_limit.free_answers
        return answers and self.origin.request is None  # a message is answered by a message

    def ends_by(self, at: float) -> bool:
        """Return whether its end may have to be shown by then."""
        return self.job.state is JobState.PROCESSING or self.expires <= at

    def due(
        self, now: float, rate_limit: RateLimit, turn_s: float, crowd: int, ending: int = 0
    ) -> float:
        """Return when this message may be served next.

        `turn_s` is its share of the chat's budget, `crowd` how many jobs are open everywhere, and
        `ending` how many of this chat's are about to end.
        """
        if self.free(rate_limit):
            return self.delayed_until
        urgent = self.job.state.final or (self.ref is None and self.shown is None)
        others = 0 if self.job.state.final else ending
        earliest = rate_limit.earliest(now, urgent=urgent, soon=self.changed, ending=others)
        at = max(self.delayed_until, earliest)
        if urgent:
            return at
        age = None if self.sent_at is None else now - self.sent_at
        if self.changed:
            return max(at, self.edited_at + rate_limit.news_gap_s(age))
        return max(at, self.edited_at + self._gap_s(rate_limit, age, turn_s, crowd))

    def _gap_s(self, rate_limit: RateLimit, age: float | None, turn_s: float, crowd: int) -> float:
        """Return the time between two edits; an answer that is being written is edited as it grows."""
        least_s = rate_limit.edit_gap_s(age)
        if not self.advanced:
            return max(rate_limit.news_gap_s(age), rate_limit.patience_s(self.position, crowd))
        return max(least_s if self.written else least_s * stretch(crowd), turn_s)

    def stand(self, standing: Standing) -> None:
        """Record where the job stands now."""
        self.position, self.kind = standing.position, kind_of(standing.reason)
        self.stood = True

    def show(self, content: Content, kind: Kind, now: float) -> None:
        """Record what the message shows from now on, and which kind of wait it names."""
        self.shown, self.kind_shown = content, kind
        self.edited_at, self.expires = now, _expires(content, self.asked_at)

    def outdated(self, now: float) -> bool:
        """Return whether what is shown is no longer true, rather than only slightly out of date."""
        if self.expires <= now:
            return True
        turned = self.kind != self.kind_shown
        ended = self.kind_shown is not None
        return turned and (ended or (self.kind is not None and self.kind[0] in _NEWS))

    def advance(self, progress: Progress) -> None:
        """Record a progress; the last preview stays until there is a newer one."""
        if progress.preview is None and self.progress is not None:
            progress = replace(progress, preview=self.progress.preview)
        self.progress, self.advanced = progress, True
        self.written = progress.text or self.written
        self.longest = max(self.longest, self.written, key=len)

    @property
    def left(self) -> str:
        """What stays of an answer whose job has ended without it."""
        return self.longest if self.job.state is JobState.FAILED else self.written

    def urgency(self, rate_limit: RateLimit, crowd: int) -> tuple[int, float]:
        """Order messages of a chat: calls, ends, first messages, news, then the longest overdue.

        A call that is not answered within seconds is lost on some platforms, so it comes first.
        """
        if self.respond is not None:
            return (0, self.job.id)
        if self.job.state.final:
            return (1, self.job.id)
        if self.ref is None:
            return (2, self.job.id)
        if self.changed:
            return (3, self.edited_at)
        return (4, self.edited_at + rate_limit.patience_s(self.position, crowd))
