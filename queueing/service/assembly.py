"""Creates the parts of a queue and connects them.

There are two steps: the `Engine`, and the `Answers` for callers. A part affects other parts only
through the event bus.
"""

from collections.abc import Callable
from dataclasses import dataclass

from queueing.core.catalog import Catalog, Offers
from queueing.core.ports import Backend, Clock, GpuWatch, HostControl, MemoryProbe
from queueing.core.snapshot import Rules
from queueing.engine.attempt_sender import AttemptSender
from queueing.engine.change_tracker import ChangeTracker
from queueing.engine.deferred_jobs import DeferredJobs
from queueing.engine.event_bus import EventBus
from queueing.engine.fair.fair_queues import FairQueues
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Checkpoint, LearnedTimes
from queueing.engine.health_checker import HealthChecker
from queueing.engine.host_power import HostPower
from queueing.engine.job_runner import JobRunner
from queueing.engine.loader import Loader, LoadMeasurement
from queueing.engine.outcomes import Outcomes
from queueing.engine.preloader import Preloader
from queueing.engine.program_watcher import ProgramWatcher
from queueing.engine.scheduler import Scheduler
from queueing.engine.snapshot_builder import SnapshotBuilder
from queueing.service.deadlines import DeadlineWatcher, Slack
from queueing.service.estimator import Estimator
from queueing.service.host_watcher import HostWatcher
from queueing.service.job_submitter import LocalJobEraser, LocalJobSubmitter
from queueing.service.model_reader import LocalModelReader
from queueing.service.queue_admin import LocalQueueAdmin
from queueing.service.queue_status import LocalQueueStatus
from queueing.service.shown_estimates import Promises
from queueing.store.jobs.job_store import JobStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The inputs from which a queue is made."""

    store: JobStore
    catalog: Catalog
    backends: dict[str, Backend]
    clock: Clock
    rules: Rules
    memory: MemoryProbe | None
    gpus: GpuWatch | None
    machines: HostControl | None
    runner: str
    bus: EventBus
    long_queue: Callable[[], int]
    offers: Offers
    held: Callable[[], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """The parts that work while a queue runs."""

    fleet: Fleet
    times: LearnedTimes
    health: HealthChecker
    others: ProgramWatcher
    sending: AttemptSender
    loader: Loader
    processor: JobRunner
    snapshots: SnapshotBuilder
    router: Scheduler
    fair: FairQueues
    later: DeferredJobs


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The parts that callers use; `queueing.service.job_queue` exposes them."""

    submitter: LocalJobSubmitter
    models: LocalModelReader
    eta: Estimator
    status: LocalQueueStatus
    admin: LocalQueueAdmin
    preloads: Preloader
    erasure: LocalJobEraser
    promises: Promises
    hosts: HostWatcher
    moments: DeadlineWatcher


def assemble(given: Given) -> tuple[Engine, Answers]:
    """Create the parts of a queue without starting any of them."""
    engine = _engine(given)
    answers = _answers(given, engine)
    given.bus.subscribe(engine.fair.on_event)
    given.bus.subscribe(engine.router.on_event)
    given.bus.subscribe(answers.moments.on_event)
    given.bus.subscribe(answers.eta.on_event)
    given.bus.watch_fleet(engine.router.wake)
    given.bus.watch_fleet(answers.admin.look)
    engine.others.gone = answers.admin.rested
    given.bus.watch_fleet(answers.hosts.look)
    engine.router.on_step = answers.hosts.observe
    return engine, answers


def _engine(given: Given) -> Engine:
    store, clock = given.store, given.clock
    fleet = Fleet(given.catalog, given.backends, clock, changed=given.bus.fleet_changed)
    times = LearnedTimes(fleet, clock)
    fleet.rests.sleep.usual_s, fleet.rests.sleep.learned = times.wake_s, times.woke
    checkpoint = Checkpoint(store=store, fleet=fleet, times=times)
    health = HealthChecker(fleet=fleet, backends=given.backends, memory=given.memory, clock=clock)
    others = ProgramWatcher(fleet=fleet, gpus=given.gpus, clock=clock)
    outcomes = Outcomes(jobs=store, clock=clock, bus=given.bus)
    sending = AttemptSender(
        jobs=store, fleet=fleet, backends=given.backends, clock=clock, held=given.held
    )
    loader = Loader(
        fleet=fleet,
        backends=given.backends,
        sizing=LoadMeasurement(fleet=fleet, health=health, others=others),
        outcomes=outcomes,
        times=times,
        checkpoint=checkpoint,
        bus=given.bus,
    )
    processor = JobRunner(
        jobs=store,
        fleet=fleet,
        clock=clock,
        sending=sending,
        outcomes=outcomes,
        loader=loader,
        times=times,
        bus=given.bus,
        runner=given.runner,
    )
    fair = FairQueues(store, fleet=fleet, times=times, clock=clock, rules=given.rules)
    later = DeferredJobs(fleet, times, clock)
    snapshots = SnapshotBuilder(
        fleet=fleet,
        backends=given.backends,
        processor=processor,
        times=times,
        clock=clock,
        rules=given.rules,
        later=later,
        fair=fair,
        offers=given.offers,
    )
    sleepers = HostPower(fleet=fleet, health=health, machines=given.machines, clock=clock)
    router = Scheduler(
        fleet=fleet,
        loader=loader,
        processor=processor,
        times=times,
        checkpoint=checkpoint,
        snapshots=snapshots,
        sleepers=sleepers,
        clock=clock,
        fair=fair,
        changes=ChangeTracker(bus=given.bus, fair=fair, long_queue=given.long_queue),
    )
    return Engine(
        fleet=fleet,
        times=times,
        health=health,
        others=others,
        sending=sending,
        loader=loader,
        processor=processor,
        snapshots=snapshots,
        router=router,
        fair=fair,
        later=later,
    )


def _answers(given: Given, engine: Engine) -> Answers:
    store, clock, fleet, times = given.store, given.clock, engine.fleet, engine.times
    submitter = LocalJobSubmitter(
        jobs=store,
        fleet=fleet,
        times=times,
        processor=engine.processor,
        clock=clock,
        bus=given.bus,
    )
    promises = Promises()
    eta = Estimator(router=engine.router, fleet=fleet, times=times, clock=clock, fair=engine.fair)
    admin = LocalQueueAdmin(
        jobs=store,
        fleet=fleet,
        loader=engine.loader,
        router=engine.router,
        health=engine.health,
        clock=clock,
        bus=given.bus,
    )
    return Answers(
        submitter=submitter,
        models=LocalModelReader(
            fleet=fleet,
            times=times,
            router=engine.router,
            backends=given.backends,
            clock=clock,
            bus=given.bus,
        ),
        eta=eta,
        status=LocalQueueStatus(
            jobs=store,
            queues=engine.fair,
            fleet=fleet,
            router=engine.router,
            eta=eta,
            times=times,
            clock=clock,
            weights=given.rules.lane_weights,
            promises=promises,
            later=engine.later,
        ),
        admin=admin,
        preloads=Preloader(
            fleet=fleet,
            loader=engine.loader,
            router=engine.router,
            snapshots=engine.snapshots,
            health=engine.health,
        ),
        erasure=LocalJobEraser(jobs=store, submitter=submitter, bus=given.bus),
        promises=promises,
        hosts=HostWatcher(fleet),
        moments=DeadlineWatcher(
            jobs=store,
            submitter=submitter,
            admin=admin,
            later=engine.later,
            urgency=Slack(
                router=engine.router,
                snapshots=engine.snapshots,
                fleet=fleet,
                times=times,
                clock=clock,
            ),
            clock=clock,
        ),
    )
