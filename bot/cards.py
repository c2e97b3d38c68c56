"""A card is what the presenter knows of one job's status message, and when it is due.

Nothing here sends.
"""

import math
from dataclasses import dataclass, replace

from bot.pacer import Pace, patience_s, stretch
from bot.parcels import Rung
from bot.platforms.base import Content, MessageRef, Respond
from bot.records import Origin
from queueing.jobs import Job, JobState
from queueing.reports import Standing
from queueing.requests import Progress
from queueing.world import Blocked

Why = tuple[Blocked, str | None] | None
"""What makes the reason of a wait another one; its moments only tick on."""

_GOES_ON = frozenset({Blocked.IN_LINE, Blocked.STARTING})  # come and go with every job
_REASON_PATIENCE_S = 30.0
_STEADY_S = 10.0
_STEADY_SHARE = 0.2


def _wandered(old: float, new: float, now: float) -> bool:
    return abs(new - old) > max(_STEADY_S, _STEADY_SHARE * (old - now))


@dataclass(eq=False, kw_only=True, slots=True)
class Card:
    """One job's status message. Mutable, and touched by the presenter alone.

    `changed` asks for an edit soon (a new state, a new reason), `advanced` as often as its chat
    and the crowd allow (a step), `moved` when convenient (a place in line).
    `written` is as far as an answer has come; a stopped one stays to be read. `muted`: its message
    was deleted, only its end makes a new one. `rung` is how far a refused result was cut down.
    `dropped`: nothing more is to be shown.
    """

    job: Job
    origin: Origin
    respond: Respond | None = None
    ref: MessageRef | None = None
    sent_at: float | None = None
    looked_up: bool = False
    shown: Content | None = None
    edited_at: float = -math.inf
    position: int | None = None
    why: Why = None
    why_shown: Why = None
    moment: float | None = None
    progress: Progress | None = None
    written: str = ""
    changed: bool = True
    advanced: bool = False
    moved: bool = False
    muted: bool = False
    dropped: bool = False
    rung: Rung = Rung.WHOLE
    hold_until: float = 0.0
    failures: int = 0

    def take_marks(self) -> tuple[bool, bool, bool]:
        """Return what asks for an edit, and clear it: what comes from now on asks anew."""
        marks = (self.changed, self.advanced, self.moved)
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

    def free(self, pace: Pace) -> bool:
        """Tell whether the next request for this card is on nobody's account."""
        answers = self.ref is None and self.respond is not None and pace.free_answers
        return answers and self.origin.request is None  # a message is answered by a message

    def due(self, now: float, pace: Pace, turn_s: float, crowd: int) -> float:
        """Return when this card may be served next.

        `turn_s` is its share of the chat's budget, `crowd` how many jobs are open everywhere.
        """
        if self.free(pace):
            return self.hold_until
        urgent = self.job.state.final or (self.ref is None and self.shown is None)
        at = max(self.hold_until, pace.earliest(now, urgent=urgent))
        if urgent:
            return at
        age = None if self.sent_at is None else now - self.sent_at
        least_s = pace.edit_gap_s(age)
        if not self.changed:
            least_s = max(self._gap_s(least_s, crowd), turn_s)
        return max(at, self.edited_at + least_s)

    def _gap_s(self, least_s: float, crowd: int) -> float:
        """Return the time between two edits; an answer that is being written is read along."""
        if self.advanced and self.written:
            return least_s
        if self.advanced:
            return least_s * stretch(crowd)
        if self.why != self.why_shown:
            return max(least_s, min(_REASON_PATIENCE_S, patience_s(self.position, crowd)))
        return max(least_s, patience_s(self.position, crowd))

    def stand(self, standing: Standing) -> None:
        """Take where the job stands now."""
        reason = standing.reason
        self.position = standing.position
        if reason is None or reason.why in _GOES_ON:
            self.why = None
        else:
            self.why = (reason.why, reason.host)

    def advance(self, progress: Progress) -> None:
        """Take a progress; the last preview stays until there is a newer one."""
        if progress.preview is None and self.progress is not None:
            progress = replace(progress, preview=self.progress.preview)
        self.progress, self.advanced = progress, True
        self.written = progress.text or self.written

    def urgency(self) -> tuple[int, float]:
        """Order cards of a chat: calls, ends, first messages, running jobs, then by place in line.

        A call that is not answered within seconds is lost on some platforms, so it comes first.
        """
        if self.respond is not None:
            return (0, self.job.id)
        if self.job.state.final:
            return (1, self.job.id)
        if self.ref is None:
            return (2, self.job.id)
        if self.job.state is JobState.PROCESSING:
            return (3, self.edited_at)
        return (4, self.position or math.inf)

    def steady(self, moment: float | None, now: float) -> float | None:
        """Return the moment to show: the old one while it is still about right.

        A moment that wanders by a second with every look would cost an edit each time.
        """
        old = self.moment
        if moment is None or old is None or old <= now or _wandered(old, moment, now):
            self.moment = moment
        return self.moment
