"""Assembly: makes the parts of a job queue and ties them together; what they do is theirs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from queueing.catalog import Catalog
from queueing.control import Control
from queueing.events import Event
from queueing.fleet import Fleet
from queueing.health import Health
from queueing.ledger import Ledger
from queueing.loader import Loader
from queueing.outcomes import Outcomes
from queueing.outlook import Outlook
from queueing.ports import Backend, Clock, MemoryProbe, Store
from queueing.preloads import Preloads
from queueing.processor import Processor
from queueing.reports import Reports
from queueing.router import Router
from queueing.sending import Sending
from queueing.snapshots import Snapshots
from queueing.times import Times
from queueing.world import Rules


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
    ledger = Ledger(store=store, fleet=fleet, times=times)
    health = Health(fleet=fleet, backends=backends, memory=memory, clock=clock)
    outcomes = Outcomes(store=store, clock=clock, publish=publish)
    sending = Sending(store=store, fleet=fleet, backends=backends, clock=clock)
    loader = Loader(
        fleet=fleet,
        backends=backends,
        measure=health.free_mb,
        fail_waiting=outcomes.fail_waiting,
        loaded=times.loaded,
        write_down=ledger.write,
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
        ledger=ledger,
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
            outlook=Outlook(router=router, fleet=fleet, times=times, clock=clock),
            times=times,
            clock=clock,
            weights=rules.lane_weights,
        ),
    )
