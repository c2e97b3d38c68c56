"""Assembly: makes the parts of a job queue and ties them together; what they do is theirs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from queueing.core.catalog import Catalog
from queueing.core.events import Event
from queueing.core.ports import Backend, Clock, MemoryProbe, Store
from queueing.core.world import Rules
from queueing.engine.attempts import Sending
from queueing.engine.checkpoint import Checkpoint
from queueing.engine.durations import Times
from queueing.engine.fleet import Fleet
from queueing.engine.health_checker import Health
from queueing.engine.job_runner import Processor
from queueing.engine.loader import Loader
from queueing.engine.outcomes import Outcomes
from queueing.engine.preloads import Preloads
from queueing.engine.scheduler import Router
from queueing.engine.snapshots import Snapshots
from queueing.service.admin import Control
from queueing.service.eta import Eta
from queueing.service.status import Reports


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueParts:
    """What a queue is made of, as far as its front door and its start have to do with it."""

    fleet: Fleet
    times: Times
    health: Health
    loader: Loader
    sending: Sending
    processor: Processor
    router: Router
    preloads: Preloads
    control: Control
    reports: Reports


def assemble(
    *,
    store: Store,
    catalog: Catalog,
    backends: Mapping[str, Backend],
    clock: Clock,
    rules: Rules,
    memory: MemoryProbe | None,
    runner: str,
    changed: Callable[[], None],
    publish: Callable[[Event], None],
) -> QueueParts:
    """Return the parts of a queue, none of them at work yet.

    `changed` is called after every change of the fleet, `publish` with every event.
    """
    fleet = Fleet(catalog, backends, clock, changed=changed)
    times = Times(fleet, clock)
    checkpoint = Checkpoint(store=store, fleet=fleet, times=times)
    health = Health(fleet=fleet, backends=backends, memory=memory, clock=clock)
    outcomes = Outcomes(store=store, clock=clock, publish=publish)
    sending = Sending(store=store, fleet=fleet, backends=backends, clock=clock)
    loader = Loader(
        fleet=fleet,
        backends=backends,
        measure=health.free_mb,
        fail_waiting=outcomes.fail_waiting,
        loaded=times.loaded,
        write_checkpoint=checkpoint.write,
    )
    processor = Processor(
        store=store,
        fleet=fleet,
        clock=clock,
        sending=sending,
        outcomes=outcomes,
        publish=publish,
        relieve=loader.relieve,
        ended=times.job_ended,
        wake=changed,
        runner=runner,
    )
    snapshots = Snapshots(
        store=store,
        fleet=fleet,
        backends=backends,
        processor=processor,
        times=times,
        clock=clock,
        rules=rules,
    )
    router = Router(
        store=store,
        fleet=fleet,
        loader=loader,
        processor=processor,
        times=times,
        checkpoint=checkpoint,
        snapshots=snapshots,
        clock=clock,
        publish=publish,
    )
    return QueueParts(
        fleet=fleet,
        times=times,
        health=health,
        loader=loader,
        sending=sending,
        processor=processor,
        router=router,
        preloads=Preloads(
            fleet=fleet,
            loader=loader,
            router=router,
            snapshots=snapshots,
            looked=health.first_looked,
        ),
        control=Control(
            store=store,
            fleet=fleet,
            loader=loader,
            clock=clock,
            publish=publish,
            moved=router.moved,
            looked=health.first_looked,
        ),
        reports=Reports(
            store=store,
            fleet=fleet,
            router=router,
            eta=Eta(router=router, fleet=fleet, times=times, clock=clock),
            times=times,
            clock=clock,
            weights=rules.lane_weights,
        ),
    )
