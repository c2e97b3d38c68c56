"""Traces for `benchmarks/schedule.py`: what is read, what is written, as plain records."""

from pydantic import BaseModel, ConfigDict, Field

from queueing.catalog import BackendSpec, Catalog, HostSpec, ModelSpec, Timeouts
from queueing.requests import Capability

NO_TIMEOUTS = Timeouts(load_s=1e9, first_s=None, idle_s=None, total_s=None)


class Record(BaseModel):
    """Base of the records of a trace; keys it does not know are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TraceBackend(Record):
    """A server. A `serial` one does one thing at a time, loads included."""

    name: str
    serial: bool = False


class TraceHost(Record):
    """A memory budget: the margin's share of `vram_mb`."""

    name: str
    vram_mb: int
    margin: float = 0.8
    backends: tuple[TraceBackend, ...]


class TraceModel(Record):
    """A model; `load_s` is exact, `service_s` only what the configuration would say."""

    name: str
    vram_mb: int
    load_s: float
    service_s: float
    parallel: int = 1
    backends: tuple[str, ...]


class Resident(Record):
    """A copy that is in memory when the trace begins."""

    backend: str
    model: str


class TraceJob(Record):
    """A request; `service_s` is what it really takes."""

    at: float = Field(ge=0)
    model: str
    service_s: float
    user: str = "u1"
    lane: str = "normal"
    cancel_at: float | None = None


class Trace(Record):
    """Everything a replay needs."""

    hosts: tuple[TraceHost, ...]
    models: tuple[TraceModel, ...]
    resident: tuple[Resident, ...] = ()
    jobs: tuple[TraceJob, ...]

    def catalog(self) -> Catalog:
        """Return the installation the trace describes, with no timeouts and no limits."""
        return Catalog(
            [_model(model, len(self.jobs)) for model in self.models],
            [_host(host) for host in self.hosts],
        )


def _model(model: TraceModel, jobs: int) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        backends=model.backends,
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        vram_mb=model.vram_mb,
        parallel=model.parallel,
        load_s=model.load_s,
        service_s=model.service_s,
        max_waiting=jobs + 1,
        timeouts=NO_TIMEOUTS,
    )


def _host(host: TraceHost) -> HostSpec:
    return HostSpec(
        name=host.name,
        vram_mb=host.vram_mb,
        margin=host.margin,
        backends=tuple(
            BackendSpec(
                name=backend.name,
                kind="trace",
                serial=backend.serial,
                parallel=1 if backend.serial else 64,
            )
            for backend in host.backends
        ),
    )


class JobOutcome(Record):
    """What became of one job; moments in seconds from the trace's start."""

    index: int
    model: str
    backend: str | None
    ready_s: float | None
    started_s: float | None
    finished_s: float | None
    estimate_s: float | None
    state: str


class LoadOutcome(Record):
    """One load; `evicted` left, in no time, when it started."""

    backend: str
    model: str
    started_s: float
    finished_s: float
    evicted: tuple[str, ...]


class Outcome(Record):
    """What happened on a trace."""

    jobs: tuple[JobOutcome, ...]
    loads: tuple[LoadOutcome, ...]
    peak_vram_mb: dict[str, int]
    decisions: int
    decision_us_mean: float
