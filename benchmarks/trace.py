"""Traces for `benchmarks/schedule.py`: what is read, what is written, as plain records."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from queueing.core.catalog import BackendSpec, Catalog, HostSpec, ModelSpec, Timeouts
from queueing.core.divided import divided, parts
from queueing.core.requests import Capability

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Megabytes = Annotated[int, Field(ge=0)]

NO_BOUND = 2**31  # on what a server runs at once: a trace speaks of its models' slots only
NO_TIMEOUTS = Timeouts(load_s=1e9, first_s=None, idle_s=None, total_s=None)


class Record(BaseModel):
    """Base of the records of a trace; keys it does not know are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Given(Record):
    """Base of what a trace is made of: a key that is null is one left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if value is not None}


class TraceBackend(Given):
    """A server. A `serial` one does one thing at a time, loads included."""

    name: str
    serial: bool = False


class TraceHost(Given):
    """A memory budget: the margin's share of `vram_mb`.

    A job takes longer by the share `slows` for each other one that runs there as it begins. Hosts of
    one `machine` are its cards; a server listed under several of them spans these.
    """

    name: str
    machine: str = ""
    vram_mb: Megabytes
    margin: float = Field(default=0.8, gt=0, le=1)
    slows: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    backends: tuple[TraceBackend, ...]

    @property
    def usable_mb(self) -> int:
        """What models may take together."""
        return _host(self).usable_mb


class TraceModel(Given):
    """A model; `load_s` is exact, `service_s` only what the configuration would say.

    `copies` is how many one host may hold, each on a server of its own. `split` is how it is divided
    among the cards of a server that spans them, evenly without one.
    """

    name: str
    vram_mb: Megabytes
    load_s: Seconds
    service_s: Seconds
    parallel: int = Field(default=1, ge=1)
    copies: int = Field(default=1, ge=1)
    backends: tuple[str, ...]
    split: tuple[float, ...] = ()


class Resident(Given):
    """A copy that is in memory when the trace begins."""

    backend: str
    model: str


class TraceJob(Given):
    """A request; `service_s` is what it really takes.

    `cancel_at` takes it out of its line, or stops it where it runs; later than its end it does nothing.
    """

    at: Seconds
    model: str
    service_s: Seconds
    user: str = "u1"
    lane: str = "normal"
    cancel_at: float | None = Field(default=None, allow_inf_nan=False)


class Trace(Given):
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

    def hosts_of(self) -> dict[str, tuple[str, ...]]:
        """Return the hosts of every server, by its name."""
        found: dict[str, tuple[str, ...]] = {}
        for host in self.hosts:
            for backend in host.backends:
                found[backend.name] = (*found.get(backend.name, ()), host.name)
        return found

    def shares(self, model: TraceModel, backend: str) -> dict[str, int]:
        """Return what a model takes at a server, by host."""
        hosts = self.hosts_of()[backend]
        return dict(divided(model.vram_mb, parts(hosts, model.split if len(hosts) > 1 else ())))


def _model(model: TraceModel, jobs: int) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        backends=model.backends,
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        vram_mb=model.vram_mb,
        parallel=model.parallel,
        copies=model.copies,
        split=model.split,
        load_s=model.load_s,
        service_s=model.service_s,
        max_waiting=jobs + 1,
        timeouts=NO_TIMEOUTS,
    )


def _host(host: TraceHost) -> HostSpec:
    return HostSpec(
        name=host.name,
        machine=host.machine,
        vram_mb=host.vram_mb,
        margin=host.margin,
        backends=tuple(
            BackendSpec(
                name=backend.name,
                kind="trace",
                serial=backend.serial,
                parallel=1 if backend.serial else NO_BOUND,
            )
            for backend in host.backends
        ),
    )


class JobOutcome(Record):
    """What became of one job; moments in seconds from the trace's start.

    One that was cancelled while it ran has the moments of a run; `finished_s` is that of the cancel.
    """

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
    forecast_ms_per_job: float = 0.0  # processor time for what each was promised
