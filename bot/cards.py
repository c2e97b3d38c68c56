"""A card is what the presenter knows of one job's status message; a desk holds a chat's cards.

Which card of a chat is served next, and when, is decided here; nothing here sends.
"""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bot.pacer import Pace, patience_s, stretch
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
    `written` is as far as an answer has come; a stopped one stays to be read.
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
    hold_until: float = 0.0
    failures: int = 0

    @property
    def out_of_date(self) -> bool:
        """Whether the message may no longer show what is true."""
        return self.changed or ((self.advanced or self.moved) and not self.job.state.final)

    def due(self, now: float, pace: Pace, turn_s: float, crowd: int) -> float:
        """Return when this card may be served next.

        `turn_s` is its share of the chat's budget, `crowd` how many jobs are open everywhere.
        """
        final = self.job.state.final
        if self.respond is not None and pace.free_answers:
            return self.hold_until
        at = max(self.hold_until, pace.earliest(now, final=final))
        if final or (self.ref is None and self.shown is None):
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
        self.written = progress.text or ""

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


@dataclass(eq=False, kw_only=True, slots=True)
class Desk:
    """The cards of one chat and their common budget."""

    pace: Pace
    cards: dict[int, Card] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    served: bool = False

    def next_card(self, now: float, crowd: int) -> tuple[Card, float] | None:
        """Return the card to serve next and when; None when every message is up to date."""
        turn_s = self.pace.turn_s(len(self.cards))
        waiting = [(card, card.due(now, self.pace, turn_s, crowd)) for card in self._stale()]
        if not waiting:
            return None
        due_now = [card for card, at in waiting if at <= now]
        if due_now:
            return min(due_now, key=Card.urgency), now
        return min(waiting, key=lambda each: each[1])

    def _stale(self) -> Iterable[Card]:
        return (card for card in self.cards.values() if card.out_of_date)
