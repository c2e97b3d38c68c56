"""Random worlds in which several servers share each GPU."""

import random
from dataclasses import replace

from queueing.core.snapshot import BackendView, Copy, HostView, ModelView, Snapshot
from tests.queueing.planning.worlds import GB, host

GPUS = ("h0", "h1")
SERVERS = ("b0", "b1", "b2", "b3")  # two on each GPU


def on_shared_gpus(rng: random.Random, snapshot: Snapshot, *, serial: bool) -> Snapshot:
    """Return a world of the same models and queues where two servers share each of two GPUs."""
    servers = {
        name: BackendView(name=name, host=GPUS[index // 2], serial=serial)
        for index, name in enumerate(SERVERS)
    }
    models = {
        name: replace(view, backends=tuple(rng.sample(SERVERS, rng.choice([1, 2, 2, 4]))))
        for name, view in snapshot.models.items()
    }
    copies = _moved(rng, snapshot, models, servers)
    hosts: dict[str, HostView] = {name: host(name, 24 * GB) for name in GPUS}
    servers = {
        name: replace(view, busy=sum(copy.running for copy in copies if copy.backend == name))
        for name, view in servers.items()
    }
    return replace(snapshot, models=models, hosts=hosts, backends=servers, copies=copies)


def _moved(
    rng: random.Random,
    snapshot: Snapshot,
    models: dict[str, ModelView],
    servers: dict[str, BackendView],
) -> tuple[Copy, ...]:
    """Return the copies on servers that have their models, as far as they fit there."""
    copies: list[Copy] = []
    used_mb = dict.fromkeys(GPUS, 0)
    for copy in snapshot.copies:
        server = servers[rng.choice(models[copy.model].backends)]
        taken = server.serial and any(other.backend == server.name for other in copies)
        if taken or used_mb[server.host] + copy.vram_mb > 24 * GB:
            continue
        used_mb[server.host] += copy.vram_mb
        running = min(copy.running, 1) if server.serial else copy.running
        ends_at = copy.ends_at[:running]
        copies.append(replace(copy, backend=server.name, running=running, ends_at=ends_at))
    return tuple(copies)
