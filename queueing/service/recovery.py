"""Restores the state of the last run, however that ended.

Runs once, before the first plan. It starts no job that was not running already.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping

from queueing.core.concurrency import TaskGroup
from queueing.engine.fleet.fleet import Fleet
from queueing.service.assembly import Engine
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)


async def recover(store: JobStore, engine: Engine, work: TaskGroup) -> None:
    """Restore pauses, learned times, pins, running jobs and the known copies in memory.

    Waiting jobs need nothing: the store has their places. Raises `StoreError`.
    """
    fleet = engine.fleet
    fleet.rests.pause(await store.paused())
    engine.times.restore(await store.learned(), await store.scores())
    fleet.memory.budget.restore(await store.sizes())
    noted = await _noted_copies(store, fleet)
    pin_configured(fleet)
    running = await store.processing()
    if engine.fair.is_wanted:
        used, passed = await store.gpu_quarters(0.0), await store.overtaking()
        engine.fair.begin(used, running, passed)
    for job in running:
        log.info("job %d was running on %s; asking that server for it", job.id, job.backend)
        engine.processor.recover(job, work)
    for job in await store.abandoned():
        work.create_task(engine.sending.abandon(job), name=f"abandoned job {job.id}")
    await engine.health.first_look(noted)
    await engine.others.first_look()
    _clear_half_loads(fleet, noted)


async def _noted_copies(store: JobStore, fleet: Fleet) -> Mapping[str, frozenset[str]]:
    """Restore the pins. Returns the copies of the last run as models by backend."""
    noted: defaultdict[str, set[str]] = defaultdict(set)
    for model, backend, pinned in await store.residency():
        spec = fleet.catalog.models.get(model)
        if spec is not None and backend in fleet.serving(spec):
            noted[backend].add(model)
            if pinned:
                fleet.copies.pins.add(model, backend)
    return {backend: frozenset(models) for backend, models in noted.items()}


def _clear_half_loads(fleet: Fleet, noted: Mapping[str, frozenset[str]]) -> None:
    """Unload everything that was being loaded: it may use memory although no server reports it."""
    for backend in sorted(noted):
        for model in sorted(noted[backend]):
            if fleet.health.of(backend).up and fleet.copies.get(model, backend) is None:
                fleet.copies.loading(fleet.catalog.models[model], backend, expected_s=0.0)
                fleet.copies.drain(model, backend)


def pin_configured(fleet: Fleet) -> None:
    """Pin every model with `preload: true` somewhere, unless an admin has done so already."""
    pinned = {model for model, _ in fleet.copies.pins}
    for spec in fleet.catalog.models.values():
        backends = fleet.serving(spec)
        if spec.preload and backends and spec.name not in pinned:
            fleet.copies.pins.add(spec.name, backends[0])
