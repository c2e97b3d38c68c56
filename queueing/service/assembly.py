"""Assembly: makes the parts of a queue and ties them together; what they do is theirs.

In three steps, each from what the one before has made: what the queue knows, what it does, and
what it answers. What one part causes outside itself goes through the bus.
"""

from collections.abc import Callable
from dataclasses import dataclass

from queueing.core.catalog import Catalog
from queueing.core.ports import Backend, CardWatch, Clock, Machines, MemoryProbe
from queueing.core.snapshot import Rules
from queueing.engine.attempt_sender import Sending
from queueing.engine.change_tracker import DeepLines
from queueing.engine.deferred_jobs import Later
from queueing.engine.event_bus import EventBus
from queueing.engine.fair.fair_queues import FairLines
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Checkpoint, Times
from queueing.engine.health_checker import Health
from queueing.engine.host_power import Sleepers
from queueing.engine.job_runner import Processor
from queueing.engine.loader import Loader, Sizing
from queueing.engine.outcomes import Outcomes
from queueing.engine.preloader import Preloads
from queueing.engine.program_watcher import OtherPrograms
from queueing.engine.scheduler import Router
from queueing.engine.snapshot_builder import Snapshots
from queueing.service.deadlines import Moments, Urgency
from queueing.service.estimator import Eta
from queueing.service.host_watcher import HostWatch
from queueing.service.job_submitter import Erasure, Intake
from queueing.service.model_reader import OfferedModels
from queueing.service.queue_admin import Control
from queueing.service.queue_status import Reports
from queueing.service.shown_estimates import Promises
from queueing.store.jobs.job_store import JobStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a queue is made from."""

    store: JobStore
    catalog: Catalog
    backends: dict[str, Backend]
    clock: Clock
    rules: Rules
    memory: MemoryProbe | None
    cards: CardWatch | None
    machines: Machines | None
    runner: str
    bus: EventBus
    deep_line: Callable[[], int]
    held: Callable[[], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Knowledge:
    """What a queue knows of its servers and of times, and keeps across a restart."""

    fleet: Fleet
    times: Times
    checkpoint: Checkpoint
    health: Health
    others: OtherPrograms


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """What is at work while a queue runs."""

    fleet: Fleet
    times: Times
    health: Health
    others: OtherPrograms
    sending: Sending
    loader: Loader
    processor: Processor
    snapshots: Snapshots
    router: Router
    fair: FairLines
    later: Later


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The parts that callers use; `queueing.service.job_queue` offers them."""

    intake: Intake
    models: OfferedModels
    eta: Eta
    reports: Reports
    control: Control
    preloads: Preloads
    erasure: Erasure
    promises: Promises
    hosts: HostWatch
    moments: Moments


def assemble(given: Given) -> tuple[Engine, Answers]:
    """Return the parts of a queue, none of them at work yet."""
    engine = _engine(given, _knowledge(given))
    answers = _answers(given, engine)
    given.bus.subscribe(engine.fair.on_event)
    given.bus.subscribe(engine.router.on_event)
    given.bus.subscribe(answers.moments.on_event)
    given.bus.subscribe(answers.eta.on_event)
    given.bus.watch_fleet(engine.router.wake)
    given.bus.watch_fleet(answers.control.look)
    engine.others.gone = answers.control.rested
    given.bus.watch_fleet(answers.hosts.look)
    engine.router.on_step = answers.hosts.observe
    return engine, answers


def _knowledge(given: Given) -> Knowledge:
    fleet = Fleet(given.catalog, given.backends, given.clock, changed=given.bus.fleet_changed)
    times = Times(fleet, given.clock)
    fleet.rests.sleep.usual_s, fleet.rests.sleep.learned = times.wake_s, times.woke
    health = Health(fleet=fleet, backends=given.backends, memory=given.memory, clock=given.clock)
    return Knowledge(
        fleet=fleet,
        times=times,
        checkpoint=Checkpoint(store=given.store, fleet=fleet, times=times),
        health=health,
        others=OtherPrograms(fleet=fleet, cards=given.cards, clock=given.clock),
    )


def _engine(given: Given, known: Knowledge) -> Engine:
    store, clock, fleet, times = given.store, given.clock, known.fleet, known.times
    outcomes = Outcomes(jobs=store, clock=clock, bus=given.bus)
    sending = Sending(
        jobs=store, fleet=fleet, backends=given.backends, clock=clock, held=given.held
    )
    loader = Loader(
        fleet=fleet,
        backends=given.backends,
        sizing=Sizing(fleet=fleet, health=known.health, others=known.others),
        outcomes=outcomes,
        times=times,
        checkpoint=known.checkpoint,
        bus=given.bus,
    )
    processor = Processor(
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
    fair = FairLines(store, fleet=fleet, times=times, clock=clock, rules=given.rules)
    later = Later(fleet, times, clock)
    snapshots = Snapshots(
        fleet=fleet,
        backends=given.backends,
        processor=processor,
        times=times,
        clock=clock,
        rules=given.rules,
        later=later,
        fair=fair,
    )
    sleepers = Sleepers(fleet=fleet, health=known.health, machines=given.machines, clock=clock)
    router = Router(
        fleet=fleet,
        loader=loader,
        processor=processor,
        times=times,
        checkpoint=known.checkpoint,
        snapshots=snapshots,
        sleepers=sleepers,
        clock=clock,
        bus=given.bus,
        fair=fair,
        deep_lines=DeepLines(given.deep_line),
    )
    return Engine(
        fleet=fleet,
        times=times,
        health=known.health,
        others=known.others,
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
    intake = Intake(
        jobs=store,
        fleet=fleet,
        times=times,
        processor=engine.processor,
        clock=clock,
        bus=given.bus,
    )
    promises = Promises()
    eta = Eta(router=engine.router, fleet=fleet, times=times, clock=clock, fair=engine.fair)
    control = Control(
        jobs=store,
        fleet=fleet,
        loader=engine.loader,
        router=engine.router,
        health=engine.health,
        clock=clock,
        bus=given.bus,
    )
    return Answers(
        intake=intake,
        models=OfferedModels(
            fleet=fleet,
            times=times,
            router=engine.router,
            backends=given.backends,
            clock=clock,
            bus=given.bus,
        ),
        eta=eta,
        reports=Reports(
            jobs=store,
            lines=engine.fair,
            fleet=fleet,
            router=engine.router,
            eta=eta,
            times=times,
            clock=clock,
            weights=given.rules.lane_weights,
            promises=promises,
            later=engine.later,
        ),
        control=control,
        preloads=Preloads(
            fleet=fleet,
            loader=engine.loader,
            router=engine.router,
            snapshots=engine.snapshots,
            health=engine.health,
        ),
        erasure=Erasure(jobs=store, intake=intake, bus=given.bus),
        promises=promises,
        hosts=HostWatch(fleet),
        moments=Moments(
            jobs=store,
            intake=intake,
            control=control,
            later=engine.later,
            urgency=Urgency(
                router=engine.router,
                snapshots=engine.snapshots,
                fleet=fleet,
                times=times,
                clock=clock,
            ),
            clock=clock,
        ),
    )
