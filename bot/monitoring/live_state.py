"""The current state for operators: hosts with their memory, servers and jobs, and the queues.

Pure. Contains the same as `/status`, `/queue` and `/models`, from the same snapshot.

    {"at": 1795400000.0, "mode": "open",
     "hosts": [{"name": "gpu-1", "mode": "open",
       "memory": {"total_mb": 24576, "usable_mb": 21000, "resident_mb": 9000, "loading_mb": 4000,
                  "foreign_mb": 1200, "free_mb": 10376},
       "copies": [{"model": "flux", "backend": "comfy", "state": "ready", "mb": 9000,
                   "pinned": true, "running": 1, "ready_at": 1795400010.0}],
       "servers": [{"name": "comfy", "kind": "comfyui", "url": "http://…", "up": true,
                    "since": 1795390000.0, "description": "ComfyUI 0.3.40", "error": null}],
       "running": [{"job": 812, "model": "flux", "backend": "comfy", "user": "telegram:42",
                    "name": "telegram:42", "began_at": 1795399990.0, "fraction": 0.4,
                    "ends": {"earliest": 1795400018.0, "latest": 1795400025.0, …}}]}],
     "queues": [{"model": "flux", "waiting": 3, "running": 1, "oldest_s": 12.5,
       "next_ends": {"earliest": 1795400080.0, "latest": 1795400120.0, …}, "reason": {…} or null,
       "paused": false, "mb": 9000, "troubles": [{"backend": "comfy", "cause": "…",
                                                  "again_at": 1795400300.0}]}],
     "idle_models": ["sdxl"]}

A reason is a `queueing.core.snapshot.Reason`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from queueing.core.snapshot import Reason, Residency
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    Estimate,
    HostStatus,
    ModelStatus,
    Rest,
    RunningStatus,
    StatusReport,
    Trouble,
)

Mode = Literal["open", "draining", Rest]
"""`draining`: paused, but jobs are still running or copies are still unloading."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryNow:
    """The memory of a host in MB.

    `total_mb` is the configured total and `usable_mb` what models may use together at present. The
    other four add up to the total. If more is used than exists, `free_mb` is 0.
    """

    total_mb: int
    usable_mb: int
    resident_mb: int
    loading_mb: int
    foreign_mb: int
    free_mb: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyNow:
    """A model in a host's memory. `ready_at` is when it became ready or is expected to.

    It loads `ahead` if nobody has requested it yet.
    """

    model: str
    backend: str
    state: Residency
    mb: int
    pinned: bool
    running: int
    ready_at: float
    ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerNow:
    """A server, since when it is up or down, and its last error while it is down.

    Before its first check it is not up, and `error` is None.
    """

    name: str
    kind: str
    url: str
    up: bool
    since: float
    description: str
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningNow:
    """A running job. `name` is the owner's display name, or `user` if unknown.

    `fraction` is None if the server reports no progress, `ends` if there is no estimate.
    """

    job: int
    model: str
    backend: str
    user: str
    name: str
    began_at: float
    fraction: float | None
    ends: Estimate | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNow:
    """A host with its memory, models, servers and jobs.

    `rest` is why it takes no work although no admin paused it, such as its quiet hours.
    `awake_until` is until when it works anyway because an admin wants it to. `unmeasured_since` is
    set if the memory use of other programs was measured before but is unknown at present.
    """

    name: str
    mode: Mode
    memory: MemoryNow
    copies: tuple[CopyNow, ...]
    servers: tuple[ServerNow, ...]
    running: tuple[RunningNow, ...]
    rest: Reason | None = None
    awake_until: float | None = None
    unmeasured_since: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueNow:
    """A model in use and its queue.

    `oldest_s` is how long the first job in the queue has waited. `next_ends` is when a job accepted
    at this moment would end, or None if unknown. `mb` is None until the model has been measured.
    """

    model: str
    waiting: int
    running: int
    oldest_s: float | None
    next_ends: Estimate | None
    reason: Reason | None
    paused: bool
    mb: int | None
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveState:
    """Everything at one moment. Hosts and models are in the order of the configuration.

    `queues` are the models that have waiting or running jobs, are in memory, are paused, or could
    not be loaded. `idle_models` are all others.
    """

    at: float
    mode: Literal["open", "paused"]
    hosts: tuple[HostNow, ...]
    queues: tuple[QueueNow, ...]
    idle_models: tuple[str, ...]


def now_of(snapshot: StatusReport, at: float, names: Mapping[str, str]) -> LiveState:
    """Return the live state of a snapshot. `names` are people's display names by user."""
    used = [model for model in snapshot.models if _is_used(model)]
    return LiveState(
        at=at,
        mode="paused" if snapshot.paused.everything else "open",
        hosts=tuple(_host(host, snapshot, names) for host in snapshot.hosts),
        queues=tuple(_queue(model, at) for model in used),
        idle_models=tuple(model.name for model in snapshot.models if not _is_used(model)),
    )


def _is_used(model: ModelStatus) -> bool:
    stopped = model.paused or model.troubles
    return bool(model.waiting or model.running or model.copies or stopped)


def _host(host: HostStatus, snapshot: StatusReport, names: Mapping[str, str]) -> HostNow:
    servers = [server for server in snapshot.backends if server.is_on(host.name)]
    copies = [
        (model.name, copy)
        for model in snapshot.models
        for copy in model.copies
        if host.name in copy.hosts
    ]
    elsewhere = {
        (model.name, copy.backend)
        for model in snapshot.models
        for copy in model.copies
        if host.name not in copy.hosts
    }
    on_it = {server.name for server in servers}
    running = [
        each
        for each in snapshot.running
        if each.backend in on_it and (each.model, each.backend) not in elsewhere
    ]
    return HostNow(
        name=host.name,
        mode=_mode(host, [copy for _, copy in copies], busy=bool(running)),
        memory=_memory(host, [copy for _, copy in copies]),
        copies=tuple(_copy(model, copy, host.name) for model, copy in copies),
        servers=tuple(_server(server) for server in servers),
        running=tuple(_running(each, names) for each in running),
        rest=None if host.paused else host.rest,
        awake_until=host.awake_until,
        unmeasured_since=host.unmeasured_since,
    )


def _mode(host: HostStatus, copies: list[CopyStatus], *, busy: bool) -> Mode:
    leaving = busy or any(copy.residency is Residency.UNLOADING for copy in copies)
    return "draining" if host.paused and leaving else host.resting or "open"


def _memory(host: HostStatus, copies: list[CopyStatus]) -> MemoryNow:
    here = [(copy.on(host.name), copy.residency) for copy in copies]
    loading = sum(mb for mb, residency in here if residency is Residency.LOADING)
    resident = sum(mb for mb, _ in here) - loading
    return MemoryNow(
        total_mb=host.vram_mb,
        usable_mb=host.usable_mb,
        resident_mb=resident,
        loading_mb=loading,
        foreign_mb=host.foreign_mb,
        free_mb=max(0, host.vram_mb - resident - loading - host.foreign_mb),
    )


def _copy(model: str, copy: CopyStatus, host: str) -> CopyNow:
    return CopyNow(
        model=model,
        backend=copy.backend,
        state=copy.residency,
        mb=copy.on(host),
        pinned=copy.pinned,
        running=copy.running,
        ready_at=copy.ready_at,
        ahead=copy.ahead,
    )


def _server(server: BackendStatus) -> ServerNow:
    return ServerNow(
        name=server.name,
        kind=server.kind,
        url=server.url,
        up=server.up,
        since=server.since,
        description=server.description,
        error=None if server.up else server.error,
    )


def _running(job: RunningStatus, names: Mapping[str, str]) -> RunningNow:
    return RunningNow(
        job=job.job_id,
        model=job.model,
        backend=job.backend,
        user=job.owner,
        name=names.get(job.owner, job.owner),
        began_at=job.began_at,
        fraction=job.fraction,
        ends=job.ends,
    )


def _queue(model: ModelStatus, at: float) -> QueueNow:
    waits = model.waiting > 0
    return QueueNow(
        model=model.name,
        waiting=model.waiting,
        running=model.running,
        oldest_s=max(0.0, at - model.oldest_at) if waits and model.oldest_at is not None else None,
        next_ends=model.next_ends,
        reason=model.reason if waits else None,
        paused=model.paused,
        mb=model.vram_mb,
        troubles=model.troubles,
    )
