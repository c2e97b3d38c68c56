"""Tracks which queues a scheduler step changes, publishes them and logs why they wait."""

import logging
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from queueing.core.events import JobChanged, QueuesMoved
from queueing.core.jobs import Job, JobEvent
from queueing.core.snapshot import Plan, Reason, Snapshot, WaitCause
from queueing.engine.event_bus import EventBus
from queueing.engine.fair.fair_queues import FairQueues
from queueing.planning.hosts import lies_on, waiting_on

log = logging.getLogger(__name__)

CALM_SHARE = 0.5  # of the bound: a queue is warned about again after it has been shorter than this


def news(
    before: Snapshot | None, now: Snapshot, moved: Collection[str], turned: Collection[str]
) -> QueuesMoved | None:
    """Return the changes to publish after a step, or None if there are none.

    `moved` are the queues whose positions or reasons changed, `turned` those with a new reason.
    """
    changed = _changed_hosts(before, now)
    turned = {*turned, *waiting_on(now, changed)}
    models = frozenset(moved) | turned
    hosts = changed.union(*(_hosts_of(now, model) for model in models)) if models else changed
    outlooks = waiting_on(now, hosts) - models
    if not models and not outlooks:
        return None
    return QueuesMoved(models=models, outlooks=outlooks, turned=frozenset(turned))


def _changed_hosts(before: Snapshot | None, now: Snapshot) -> set[str]:
    """Return the hosts where a load began or ended, a copy left, or a server went up or down."""
    if before is None:
        return set()
    states = _states(before) ^ _states(now)
    return {
        host
        for name, model, _ in states
        if name in now.backends
        for host in lies_on(now, model, name)
    }


def _states(snapshot: Snapshot) -> set[tuple[str, str, str]]:
    """Return the state of all copies and servers as (server, model, state)."""
    copies = {(copy.backend, copy.model, copy.residency.value) for copy in snapshot.copies}
    return copies | {(view.name, "", str(view.up)) for view in snapshot.backends.values()}


def _hosts_of(snapshot: Snapshot, model: str) -> set[str]:
    view = snapshot.models.get(model)
    names = () if view is None else view.backends
    return {
        host
        for name in names
        if name in snapshot.backends
        for host in lies_on(snapshot, model, name)
    }


class LongQueues:
    """Warns about queues that reach `bound` jobs; 0 turns the warnings off."""

    def __init__(self, bound: Callable[[], int]) -> None:
        self._bound = bound
        self._touched: set[str] | None = None  # None until the first check, which covers all queues
        self._deep: set[str] = set()

    def touch(self, model: str) -> None:
        """Record a change in a model's queue."""
        if self._touched is not None:
            self._touched.add(model)

    def look(self, snapshot: Snapshot, plan: Plan) -> None:
        """Warn about queues that have become long."""
        models = snapshot.models.keys() if self._touched is None else self._touched
        bound = self._bound()
        for model in sorted(models):
            view = snapshot.models.get(model)
            waiting = sum(lane.count for lane in view.waiting) if view else 0
            if model in self._deep:
                if waiting < bound * CALM_SHARE or not bound:
                    self._deep.discard(model)
            elif bound and waiting >= bound:
                self._deep.add(model)
                reason = plan.reasons.get(model)
                why = f": {code(reason)}" if reason is not None else ""
                log.warning("%d jobs wait for %s%s", waiting, model, why)
        self._touched = set()


_Gist = tuple[WaitCause, str | None, str | None]


class ChangeTracker:
    """Collects the queues whose positions or reasons change, and publishes them after each step."""

    def __init__(self, *, bus: EventBus, fair: FairQueues, long_queue: Callable[[], int]) -> None:
        """Create it; a queue of `long_queue()` jobs causes a warning in the log."""
        self._bus = bus
        self._fair = fair
        self._long_queues = LongQueues(long_queue)
        self._moved: set[str] = set()
        self._seen: Snapshot | None = None  # at the beginning of the last step
        self._reasons: Mapping[str, Reason] = {}  # after the last step
        self._logged: dict[str, _Gist | None] = {}

    def moved(self, models: Iterable[str]) -> None:
        """Announce these models' queues after the next step: positions in them have changed."""
        self._moved.update(models)

    def reconsidered(self) -> None:
        """Announce every queue that has a reason to wait, because that reason may change."""
        self.moved(self._reasons)

    def on_change(self, event: JobChanged, snapshot: Snapshot | None) -> None:
        """Record the queues in which a committed change moves jobs.

        A new job moves jobs in other lanes of its model. A completed job moves none, unless a job
        enters its queue from the overflow. Any other change may move some.
        """
        job = event.job
        self._long_queues.touch(job.model)
        if event.entered is not None:
            self._long_queues.touch(event.entered)
            self._moved.add(event.entered)
        if event.event is None:
            if self._fair.is_on or _has_jobs_in_other_lanes(job, snapshot):
                self._moved.add(job.model)
        elif self._fair.is_on and snapshot is not None:
            self._moved.update(name for name, view in snapshot.models.items() if view.waiting)
        if event.event not in {None, JobEvent.COMPLETE}:
            self._moved.add(job.model)

    def step(self, seen: Snapshot, snapshot: Snapshot, plan: Plan) -> None:
        """Publish and log the changes of a step.

        `seen` is the snapshot at the beginning of the step. `snapshot` and `plan` exclude the starts
        that it made.
        """
        self._long_queues.look(snapshot, plan)
        before, reasons = self._reasons, plan.reasons
        changed = {
            model
            for model in before.keys() | reasons.keys()
            if before.get(model) is not reasons.get(model)
            and _identity(before.get(model)) != _identity(reasons.get(model))
        }
        report = news(self._seen, seen, self._moved | changed, changed)
        self._seen, self._reasons, self._moved = seen, reasons, set()
        self._log_reasons(reasons)
        if report is not None:
            self._bus.publish(report)

    def _log_reasons(self, reasons: Mapping[str, Reason]) -> None:
        """Log why a model's queue waits, once per reason instead of at every step.

        A queue that moves job by job alternates between `STARTING` and its reason, so the reason is
        remembered until the queue is empty.
        """
        for model in self._logged.keys() - reasons.keys():
            del self._logged[model]
        for model, reason in reasons.items():
            gist = _identity(reason)
            if reason.why is not WaitCause.STARTING and self._logged.get(model) != gist:
                self._logged[model] = gist
                log.info("%s waits: %s", model, code(reason))


def _has_jobs_in_other_lanes(job: Job, snapshot: Snapshot | None) -> bool:
    """Return whether the job's model had jobs in other lanes at the last step."""
    view = snapshot.models.get(job.model) if snapshot else None
    return view is not None and any(queue.lane != job.lane for queue in view.waiting)


def _identity(reason: Reason | None) -> _Gist | None:
    """Return the parts of a reason that identify it. Its times are left out: they only advance."""
    return None if reason is None else (reason.why, reason.host, reason.other)


def code(reason: Reason) -> str:
    """Return the reason for the log, such as `room-busy host=gpu-1 other=sdxl`.

    The cause comes first, then each known field; the log's "queue" field names the model. Times
    carry this machine's UTC offset, because logs are read elsewhere.
    """
    fields = {"host": reason.host, "backend": reason.backend, "other": reason.other}
    fields |= {"since": _clock(reason.since), "until": _clock(reason.until)}
    known = [f"{name}={shlex.quote(value)}" for name, value in fields.items() if value]
    return " ".join((reason.why, *known))


def _clock(moment: float | None) -> str | None:
    if not moment:
        return None
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z")
