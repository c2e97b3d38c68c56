"""The state of one job's status message, and when it is due for an edit.

Sends nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.core.content import Content, Moment, Period
from bot.core.origin import Origin
from bot.core.platform import MessageRef, Respond
from bot.delivery.rate_limit import RateLimit, stretch
from bot.delivery.result_renderer import Fallback
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Progress
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Estimate, Standing

Kind = tuple[WaitCause, str | None, str | None] | None
"""What a wait is attributed to, on which host, and to which other model.

Leaves out counts and times.
"""

_LATE_S = 15.0  # an expected end delays an update by this much at most

_GOES_ON = frozenset({WaitCause.QUEUED, WaitCause.STARTING})  # these change with every job
_OTHERS_TURN = frozenset({WaitCause.ROOM_BUSY, WaitCause.RESERVED, WaitCause.GATED})
_NEWS = frozenset(  # shown at once, whatever the message showed before
    {
        WaitCause.LOADING,
        WaitCause.OFFLINE,
        WaitCause.KEY,
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
    """Return a reason without its numbers; None if the job only waits for its queue to move."""
    if reason is None or reason.why in _GOES_ON:
        return None
    why = WaitCause.ROOM_BUSY if reason.why in _OTHERS_TURN else reason.why
    return (why, reason.host, reason.other)


def _expires(content: Content, asked_at: float) -> float:
    """Return when the first moment or period that was still ahead at `asked_at` passes.

    This may already be in the past, because an edit takes time.
    """
    moments = [part.at for part in content.body if isinstance(part, Moment)]
    moments += [part.ends_at for part in content.body if isinstance(part, Period)]
    ahead = [moment for moment in moments if moment > asked_at]
    return min(ahead, default=math.inf)


@dataclass(eq=False, kw_only=True, slots=True)
class StatusMessage:
    """One job's status message. Mutable; only the presenter and its parts change it.

    - `changed`: needs an edit at once (a new state, an ended reason, a time that has passed).
    - `advanced`: needs an edit as often as the chat and the crowd allow (progress).
    - `moved`: needs an edit when convenient (a new position).
    - `expires`: when the first time shown in the message passes.
    - `drawn`: the inputs of the last content drawn, and that content.
    - `asked_at`: when the edit in progress read the job's standing.
    - `written`: the answer as far as it was generated; a stopped one stays readable.
    - `longest`: the longest answer of any attempt, kept if all attempts fail.
    - `muted`: its message was deleted; only the job's end creates a new one.
    - `fallback`: how far a refused result was cut down.
    - `step`: the open job that transcribes its recording or reads its answer aloud.
    - `answer_shown`: the answer itself has been shown.
    - `urgent_edit`: the edit in progress may not wait.
    - `taken`: the marks that the edit in progress took.
    - `ends`: when its job will probably end, if that is known.
    - `ping_by`: its end is delivered, and until then a ping may follow.
    - `draft`: what is shown below the message, until a new message takes the place of both.
    - `dropped`: nothing more is to be shown.
    """

    job: Job
    origin: Origin
    respond: Respond | None = None
    in_time: Callable[[], bool] = lambda: True
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
    forgotten: bool = False  # its job was deleted
    removed: bool = False  # its person had its messages deleted
    urgent_edit: bool = False
    taken: tuple[bool, bool, bool] = (False, False, False)
    ends: Estimate | None = None
    ping_by: float | None = None
    draft: Content | None = None
    fallback: Fallback = Fallback.WHOLE
    delayed_until: float = 0.0
    failures: int = 0
    step: Job | None = None
    answer_shown: bool = False

    @property
    def current(self) -> Job:
        """The job to show: the open step of this job if there is one, otherwise the job itself."""
        return self.step or self.job

    def take(self, newer: Job) -> None:
        """Replace the job to show with a newer version of it."""
        if self.step is None:
            self.job = newer
        else:
            self.step = newer

    def take_marks(self) -> None:
        """Clear the marks that request an edit. Later changes set them again."""
        self.taken = (self.changed, self.advanced, self.moved)
        self.urgent_edit = self.changed
        self.changed = self.advanced = self.moved = False

    def restore_marks(self) -> None:
        """Restore the marks that were taken last, because they were not shown."""
        changed, advanced, moved = self.taken
        self.changed |= changed
        self.advanced |= advanced
        self.moved |= moved

    @property
    def out_of_date(self) -> bool:
        """Whether the message may need an edit, or a ping below it."""
        passing = (self.advanced or self.moved) and not self.job.state.final
        return self.changed or passing or self.ping_by is not None

    @property
    def untold(self) -> bool:
        """Whether its job has ended and the end is not delivered yet."""
        return self.current.state.final and self.ping_by is None

    @property
    def shows_draft(self) -> bool:
        """Whether the draft is what was shown last, and not an edit of the message above it."""
        return self.shown is not None and replace(self.shown, buttons=()) == self.draft

    @property
    def notified(self) -> bool:
        """Whether the message was sent after its job's end, so that its person has heard of it.

        In a group a new message need not concern them.
        """
        ended_at = self.job.finished_at
        if self.origin.group or self.sent_at is None or ended_at is None:
            return False
        return self.sent_at >= ended_at

    @property
    def awaited(self) -> bool:
        """Whether its job has an outcome that its person waits for."""
        return self.job.state in {JobState.COMPLETED, JobState.FAILED}

    @property
    def first(self) -> bool:
        """Whether its job is open and has shown nothing yet."""
        return not self.job.state.final and self.ref is None and self.shown is None

    @property
    def ready(self) -> bool:
        """Whether its job has ended and the end is still to be shown."""
        return self.job.state.final and self.changed and self.ping_by is None

    def free(self, rate_limit: RateLimit) -> bool:
        """Return whether the next request for this message uses no budget."""
        can_answer = self.respond is not None and self.in_time()
        answers = self.ref is None and can_answer and rate_limit.free_answers
        # A request sent as a message is answered by a message.
        return answers and self.origin.request is None

    def ends_by(self, at: float) -> bool:
        """Return whether the job's end may have to be shown by then."""
        if self.job.state.final:
            return self.ready
        if self.ends is not None:
            return self.ends.earliest <= at or self.expires <= at
        return self.job.state is JobState.PROCESSING or self.expires <= at

    def due(
        self, now: float, rate_limit: RateLimit, turn_s: float, crowd: int, ending: int = 0
    ) -> float:
        """Return when this message may be served next.

        `turn_s` is its share of the chat's budget, `crowd` the number of open jobs in all chats,
        and `ending` the number of ends that this chat may have to show first.
        """
        if self.free(rate_limit):
            return self.delayed_until
        if self.ping_by is not None:
            spare_at = rate_limit.earliest(now, urgent=False, burst=True, ending=ending)
            return min(self.ping_by, spare_at)
        urgent = self.job.state.final or self.first
        others = 0 if self.job.state.final else ending
        earliest = rate_limit.earliest(
            now, urgent=urgent, burst=self.awaited, soon=self.changed, ending=others
        )
        at = max(self.delayed_until, earliest)
        if urgent:
            return at
        age = None if self.sent_at is None else now - self.sent_at
        if self.changed:
            return max(at, self.edited_at + rate_limit.news_gap_s(age))
        at = max(at, self.edited_at + self._gap_s(rate_limit, age, turn_s, crowd))
        return max(at, self._end_before(at, rate_limit.turn_s(1)))

    def _end_before(self, at: float, within_s: float) -> float:
        """Return when its job will end, if an update at that moment would come just before it.

        An end that is late holds up no update for long.
        """
        end = -math.inf if self.ends is None else self.ends.at
        late = at - self.edited_at > _LATE_S
        return end if at < end <= at + within_s and not late else at

    def _gap_s(self, rate_limit: RateLimit, age: float | None, turn_s: float, crowd: int) -> float:
        """Return the minimum time between two edits. A growing answer is edited most often."""
        least_s = rate_limit.news_gap_s(age) if self.draft else rate_limit.edit_gap_s(age)
        if not self.advanced:
            return max(rate_limit.news_gap_s(age), rate_limit.patience_s(self.position, crowd))
        return max(least_s if self.written else least_s * stretch(crowd), turn_s)

    def stand(self, standing: Standing) -> None:
        """Record the job's standing."""
        self.position, self.kind = standing.position, kind_of(standing.reason)
        self.ends = standing.ends
        self.stood = True

    def show(self, content: Content, kind: Kind, now: float) -> None:
        """Record the content the message shows, and the kind of wait it names."""
        self.shown, self.kind_shown = content, kind
        self.edited_at, self.expires = now, _expires(content, self.asked_at)

    def outdated(self, now: float) -> bool:
        """Return whether the content is wrong, rather than slightly out of date."""
        if self.expires <= now:
            return True
        turned = self.kind != self.kind_shown
        ended = self.kind_shown is not None
        return turned and (ended or (self.kind is not None and self.kind[0] in _NEWS))

    def advance(self, progress: Progress) -> None:
        """Record progress. The last preview stays until a newer one arrives."""
        if progress.preview is None and self.progress is not None:
            progress = replace(progress, preview=self.progress.preview)
        self.progress, self.advanced = progress, True
        self.written = progress.text or self.written
        self.longest = max(self.longest, self.written, key=len)

    @property
    def left(self) -> str:
        """The partial answer of a job that ended without a complete one."""
        return self.longest if self.job.state is JobState.FAILED else self.written

    def urgency(self, rate_limit: RateLimit, crowd: int) -> tuple[int, float]:
        """Return a sort key: free answers, ends, first messages, news, the longest overdue, pings.

        Free answers delay no one, and their platform drops a call that is not answered within
        seconds. Ends come in the order of their requests.
        """
        if self.free(rate_limit):
            return (0, self.job.id)
        if self.ping_by is not None:
            return (5, self.job.id)
        if self.job.state.final:
            return (1, self.job.id)
        if self.ref is None:
            return (2, self.job.id)
        if self.changed:
            return (3, self.edited_at)
        return (4, self.edited_at + rate_limit.patience_s(self.position, crowd))
