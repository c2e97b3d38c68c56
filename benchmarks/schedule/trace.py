"""The format of a trace and of a replay's outcome, as plain records; reads a trace from its file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from queueing.core.catalog import Catalog
from queueing.core.requests import Capability
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec, Timeouts, divided, parts

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Megabytes = Annotated[int, Field(ge=0)]

NO_BOUND = 2**31  # on parallel jobs of a server: a trace limits only its models
NO_TIMEOUTS = Timeouts(load_s=1e9, first_s=None, idle_s=None, total_s=None)


class BadTrace(Exception):
    """A trace that cannot be replayed; the text is a sentence for the person who wrote it."""


class Record(BaseModel):
    """Base of the records; ignores unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Given(Record):
    """Base of the records of a trace: a null key is one left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if value is not None}


class TraceBackend(Given):
    """A server. A `serial` one does one thing at a time, including loads."""

    name: str
    serial: bool = False

    def spec(self) -> BackendSpec:
        """Return the server as the queue knows it."""
        parallel = 1 if self.serial else NO_BOUND
        return BackendSpec(name=self.name, kind="trace", serial=self.serial, parallel=parallel)


class TraceHost(Given):
    """A memory budget: `vram_mb` times `margin`.

    A job takes longer by the share `slows` for each other job running there when it begins. Hosts of
    one `machine` are its GPUs; a server listed under several of them spans these.
    """

    name: str
    machine: str = ""
    vram_mb: Megabytes
    margin: float = Field(default=0.8, gt=0, le=1)
    slows: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    backends: tuple[TraceBackend, ...]

    def spec(self) -> HostSpec:
        """Return the host as the queue knows it."""
        backends = tuple(backend.spec() for backend in self.backends)
        return HostSpec(**self.model_dump(exclude={"slows", "backends"}), backends=backends)


class TraceModel(Given):
    """A model; `load_s` is exact, `service_s` only what the configuration would say.

    A host may hold up to `copies`, each on a different server. `split` divides the model among the
    GPUs of a server that spans them; the default is an even split.
    """

    name: str
    vram_mb: Megabytes
    load_s: Seconds
    service_s: Seconds
    parallel: int = Field(default=1, ge=1)
    copies: int = Field(default=1, ge=1)
    backends: tuple[str, ...]
    split: tuple[float, ...] = ()

    def spec(self, max_waiting: int) -> ModelSpec:
        """Return the model as the queue knows it."""
        return ModelSpec(
            **dict(self),
            capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
            max_waiting=max_waiting,
            timeouts=NO_TIMEOUTS,
        )


class Resident(Given):
    """A copy that is in memory when the trace begins."""

    backend: str
    model: str


class TraceJob(Given):
    """A request; `service_s` is its real duration.

    At `cancel_at` it leaves its queue, or stops if it runs; after its end, this has no effect.
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
        models = [model.spec(max_waiting=len(self.jobs) + 1) for model in self.models]
        return Catalog(models, [host.spec() for host in self.hosts])

    def hosts_of(self) -> dict[str, tuple[str, ...]]:
        """Return the hosts of every server, by its name."""
        found: dict[str, tuple[str, ...]] = {}
        for host in self.hosts:
            for backend in host.backends:
                found[backend.name] = (*found.get(backend.name, ()), host.name)
        return found

    def shares(self, model: TraceModel, backend: str) -> dict[str, int]:
        """Return the memory a model takes at a server, by host."""
        hosts = self.hosts_of()[backend]
        return dict(divided(model.vram_mb, parts(hosts, model.split if len(hosts) > 1 else ())))


class JobOutcome(Record):
    """What happened to one job, in seconds since the trace's start.

    One that was cancelled while it ran has the times of a run; `finished_s` is that of the cancel.
    `estimate_s` is when it was expected to finish at its acceptance, `range_s` between which moments.
    """

    index: int
    model: str
    backend: str | None = None
    ready_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    estimate_s: float | None = None
    range_s: tuple[float, float] | None = None
    state: str


class LoadOutcome(Record):
    """One load; the models `evicted` left when it started."""

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
    forecast_ms_per_job: float = 0.0  # processor time for the estimates at acceptance


def read(path: Path) -> Trace:
    """Return the trace of a file. Raises `BadTrace`."""
    try:
        trace = Trace.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadTrace(f"{path}: it cannot be read: {error.strerror or error}.") from error
    except ValidationError as error:
        raise BadTrace(f"{path}: {_first(error)}.") from error
    mistake = next(_mistakes(trace), None)
    if mistake is not None:
        raise BadTrace(f"{path}: {mistake}.")
    return trace


def _first(error: ValidationError) -> str:
    problem, *others = error.errors(include_url=False, include_context=False, include_input=False)
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])
    more = f", and {len(others)} more such" if others else ""
    return f"{where.removeprefix('.')}: {problem['msg']}{more}".removeprefix(": ")


def _mistakes(trace: Trace) -> Iterator[str]:
    """Yield contradictions between values that are valid on their own."""
    yield from _twice("host", (host.name for host in trace.hosts))
    machines = ({(b.name, h.machine or h.name) for b in h.backends} for h in trace.hosts)
    places = dict.fromkeys(place for machine in machines for place in machine)
    yield from _twice("backend", (name for name, _ in places))
    for host in trace.hosts:
        yield from _twice(f"backend on {host.name}", (b.name for b in host.backends))
    yield from _twice("model", (model.name for model in trace.models))
    hosts = trace.hosts_of()
    for model in trace.models:
        for name in model.backends:
            if name not in hosts:
                yield f"the model {model.name} names the backend {name}, which no host has"
            elif model.split and 1 < (gpus := len(hosts[name])) != len(model.split):
                yield f"the split of {model.name} has {len(model.split)} parts for {gpus} GPUs"
    yield from _wrong_residents(trace)
    yield from _wrong_jobs(trace)


def _twice(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"there are {times} {kind}s of the name {name}"


def _wrong_residents(trace: Trace) -> Iterator[str]:
    models = {model.name: model for model in trace.models}
    held: Counter[str] = Counter()
    for resident in trace.resident:
        if resident.model not in models:
            yield f"the model {resident.model} is resident, but no such model is described"
        elif resident.backend not in models[resident.model].backends:
            yield f"{resident.model} is resident on {resident.backend}, which it cannot run on"
        else:
            held.update(trace.shares(models[resident.model], resident.backend))
    yield from _twice("resident", (f"{r.model} on {r.backend}" for r in trace.resident))
    for host in trace.hosts:
        if held[host.name] > (budget_mb := host.spec().usable_mb):
            yield (
                f"the residents of {host.name} take {held[host.name]} MB,"
                f" more than the {budget_mb} MB of its budget"
            )


def _wrong_jobs(trace: Trace) -> Iterator[str]:
    budgets_mb = {host.name: host.spec().usable_mb for host in trace.hosts}
    models = {model.name: model for model in trace.models}
    fitting = {
        model.name
        for model in trace.models
        for name in model.backends
        if all(mb <= budgets_mb[host] for host, mb in trace.shares(model, name).items())
    }
    for index, job in enumerate(trace.jobs):
        if job.model not in models:
            yield f"jobs[{index}] asks for {job.model}, and no such model is described"
        elif job.model not in fitting:
            yield f"jobs[{index}] asks for {job.model}, which fits on none of its hosts"
