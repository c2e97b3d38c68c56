"""Fleet: what is in which memory and what runs where.

Memory only, changed by the loader, the job runner and the health checker; the router reads it as
part of a `World`. It never calls a server or the store.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from queueing.core.catalog import Catalog, HostSpec, ModelSpec
from queueing.core.divided import Shares, divided
from queueing.core.jobs import Job
from queueing.core.paused import Paused
from queueing.core.ports import Backend, Clock
from queueing.core.quick import altering
from queueing.core.quiet_hours import Quiet
from queueing.core.world import Copy, HostView, Reason, Residency
from queueing.engine.backend_health import BackendHealth
from queueing.engine.gpu_meter import GpuMeter
from queueing.engine.load_failures import LoadFailures
from queueing.engine.machine_sleep import MachineSleep
from queueing.planning.memory_budget import Budget
from queueing.planning.rests import why_rests

_altered = altering(Copy)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A job's place on a backend, from before its start is stored until the server has finished."""

    job: Job
    backend: str
    ends_at: float
    held: bool = False  # by other clients' prompts in the server's own queue
    began_at: float = 0.0


class Fleet:
    """Keeps copies, running jobs, health and free memory; calls `changed` after every change."""

    def __init__(
        self,
        catalog: Catalog,
        backends: Mapping[str, Backend],
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.catalog = catalog
        self.health = BackendHealth(catalog.backends.values(), clock, changed)
        self.health.may_sleep = self._may_sleep
        self.load_failures = LoadFailures(clock, changed)
        self.meter = GpuMeter(clock)
        self.sleep = MachineSleep(clock)
        self.paused = Paused()
        self.pins: set[tuple[str, str]] = set()  # (model, backend) an admin wants kept loaded
        self.epochs: Counter[str] = Counter()  # by backend: grows whenever its copies change
        self.copies_changed = False  # since the last checkpoint
        self.busy: Counter[tuple[str, str]] = Counter()  # running jobs by model and backend
        self.turned: set[str] = set()  # backends where a model began or ceased to run, or moved
        self._backends = backends
        self._clock = clock
        self._changed = changed
        self._copies: dict[tuple[str, str], Copy] = {}
        self._loaded_as: dict[tuple[str, str], ModelSpec] = {}
        self._found: set[tuple[str, str]] = set()
        self._view: tuple[Copy, ...] | None = None  # `copies`, until something changes
        self._yields: dict[str, float] = {}  # by host: since when another program has its card
        self._draining: set[tuple[str, str]] = set()
        self._dropped: set[tuple[str, str]] = set()  # pins whose server has unloaded the model
        self._slots: dict[int, Slot] = {}
        self._left_at: dict[str, float] = {}
        self.budget = Budget()
        self._weightless: dict[str, bool] = {}  # models that take no memory anywhere

    # ------------------------------------------------------------ another catalog

    def adopt(self, catalog: Catalog, moved: Collection[str]) -> None:
        """Go on with another catalog; jobs run to their ends, and what no longer fits leaves.

        `moved` are the backends that are another server now: what they held idle is out of sight.
        """
        self.catalog = catalog
        self.health.know(catalog.backends.values(), moved)
        self.load_failures.forget()
        self.budget.forget_lent(catalog.hosts_of)
        self._weightless.clear()
        self.pins = {(m, b) for m, b in self.pins if b in self._backends_of(m)}
        for backend in moved:
            self.forget_idle(backend)
            for copy in self.copies:
                if copy.backend == backend and copy.residency is Residency.READY:
                    self.drain(copy.model, backend)
        for key, copy in self._copies.items():
            spec = catalog.models.get(copy.model)
            if spec is not None:
                idle_s = catalog.idle_unload_s(*key)
                self._copies[key] = replace(
                    copy,
                    vram_mb=self.vram_mb(spec),
                    shares=self.shares(spec, copy.backend),
                    idle_unload_s=idle_s,
                )
        self._view, self.copies_changed = None, True
        self.expel()

    def expel(self) -> bool:
        """Drain every ready copy that the catalog no longer has in this form or place.

        Returns whether such copies are there, on their way in or out as well.
        """
        found = False
        for (model, backend), copy in tuple(self._copies.items()):
            spec, loaded = self.catalog.models.get(model), self._loaded_as[model, backend]
            fits = spec is not None and backend in spec.backends and spec.options == loaded.options
            found = found or not fits
            if copy.residency is Residency.READY and not fits:
                self.budget.doubt(model)
                self.drain(model, backend)
        return found

    def _backends_of(self, model: str) -> tuple[str, ...]:
        spec = self.catalog.models.get(model)
        return () if spec is None else spec.backends

    def loaded_as(self, model: str, backend: str) -> ModelSpec:
        """Return a model as it was when its copy there was loaded: it may have changed since."""
        return self._loaded_as.get((model, backend)) or self.catalog.spec_of(model)

    # ------------------------------------------------------------ copies

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All copies, with what they run now."""
        if self._view is None:
            ends: dict[tuple[str, str], list[float]] = {}
            for slot in self._slots.values():
                ends.setdefault((slot.job.model, slot.backend), []).append(slot.ends_at)
            self._view = tuple(
                self._shown(copy, ends.get(key, ()), pinned=key in self.pins)
                for key, copy in self._copies.items()
            )
        return self._view

    @staticmethod
    def _shown(copy: Copy, ends: Sequence[float], *, pinned: bool) -> Copy:
        if not ends and not pinned:
            return copy
        return replace(copy, running=len(ends), pinned=pinned, ends_at=tuple(ends))

    def copy(self, model: str, backend: str) -> Copy | None:
        """Return the copy of a model on a backend, or None."""
        return next((c for c in self.copies if (c.model, c.backend) == (model, backend)), None)

    def copies_of(self, model: str) -> tuple[Copy, ...]:
        """Return the copies of a model anywhere."""
        return tuple(copy for copy in self.copies if copy.model == model)

    def copies_on(self, host: str) -> tuple[Copy, ...]:
        """Return the copies of any model in the memory of a host."""
        if self.catalog.has_cards:
            return tuple([copy for copy in self.copies if host in self.hosts_of(copy)])
        host_of = self.catalog.host_of
        return tuple([copy for copy in self.copies if host_of[copy.backend] == host])

    def hosts_of(self, copy: Copy) -> tuple[str, ...]:
        """Return the hosts a copy lies on: several where it spans cards."""
        if copy.shares:
            return tuple([host for host, _ in copy.shares])
        return (self.catalog.host_of[copy.backend],)

    def lies_on(self, model: str, backend: str, host: str) -> bool:
        """Return whether a model of one of a host's backends lies on that very host."""
        if not self.catalog.has_cards:
            return True
        return host in self.catalog.parts_of(self.catalog.spec_of(model), backend)

    def mb_on(self, host: str) -> int:
        """Return what all copies together take on a host."""
        return sum(
            dict(copy.shares)[host] if copy.shares else copy.vram_mb
            for copy in self.copies_on(host)
        )

    def idle_copies(self, host: str, *, pinned: bool = False) -> tuple[Copy, ...]:
        """Return the ready copies of a host that run nothing and may be unloaded.

        Copies that an admin keeps loaded are included only with `pinned`.
        """
        return tuple(
            copy
            for copy in self.copies_on(host)
            if copy.residency is Residency.READY
            and self.may_leave(copy)
            and (pinned or not any(other.pinned for other in self.leaving_with(copy)))
            and self._backends[copy.backend].can_unload
        )

    def leaving_with(self, copy: Copy) -> tuple[Copy, ...]:
        """Return the copies one unload frees: this one, or all of a server that frees everything."""
        if not self._backends[copy.backend].unloads_together:
            return (copy,)
        return tuple(
            other
            for other in self.copies
            if other.backend == copy.backend
            and (other.model == copy.model or other.residency is not Residency.LOADING)
            and (other.vram_mb or other.model == copy.model)
        )

    def may_leave(self, copy: Copy) -> bool:
        """Return whether unloading this copy would disturb neither a job nor a load."""
        if not self._backends[copy.backend].unloads_together:
            return not copy.running
        return not any(
            other.running or (other.residency is Residency.LOADING and other.model != copy.model)
            for other in self.copies
            if other.backend == copy.backend
        )

    def loading(self, spec: ModelSpec, backend: str, *, expected_s: float) -> None:
        """Note that a load begins; its memory counts from now on."""
        self._put(spec, backend, Residency.LOADING, ready_at=self._clock.now() + expected_s)

    def ready(self, spec: ModelSpec, backend: str) -> None:
        """Note that a copy has just been loaded and is usable."""
        self.load_failures.worked(spec.name)
        self._put(spec, backend, Residency.READY, ready_at=self._clock.now())

    def found(self, spec: ModelSpec, backend: str) -> None:
        """Note that a copy is in a server's memory, or was when an earlier run ended."""
        self.ready(spec, backend)
        self._found.add((spec.name, backend))

    def is_unused(self, copy: Copy) -> bool:
        """Return whether a copy was loaded in this run and nothing has begun on it since."""
        if copy.residency is not Residency.READY or copy.running:
            return False
        return copy.idle_since == copy.ready_at and (copy.model, copy.backend) not in self._found

    def leaving(self, model: str, backend: str) -> None:
        """Note that a copy is being unloaded; nothing starts on it, its memory still counts."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = replace(copy, residency=Residency.UNLOADING)
            self._copies_moved(backend)

    def drain(self, model: str, backend: str) -> None:
        """Start nothing more on a busy copy; it is `drained` once it runs nothing."""
        self._draining.add((model, backend))
        self.leaving(model, backend)

    def take_drained(self) -> tuple[Copy, ...]:
        """Return the drained copies that can be unloaded now, each once."""
        drained = tuple(
            copy
            for copy in self.copies
            if (copy.model, copy.backend) in self._draining and self.may_leave(copy)
        )
        self._draining -= {(copy.model, copy.backend) for copy in drained}
        return drained

    def forget_idle(self, backend: str) -> None:
        """Note that what a server held idle is lost: it has been away too long."""
        for copy in self.copies:
            if copy.backend == backend and copy.residency is Residency.READY and not copy.running:
                self.gone(copy.model, backend)

    def gone(self, model: str, backend: str) -> None:
        """Note that a copy is no longer in memory. Idempotent."""
        copy = self._copies.pop((model, backend), None)
        self._loaded_as.pop((model, backend), None)
        if copy is not None:
            if copy.residency is not Residency.LOADING:
                self._left_at[model] = self._clock.now()
            self._copies_moved(backend)

    def dropped(self, model: str, backend: str) -> None:
        """Note that a server that was up all the while has unloaded an idle copy by itself.

        It has its reasons, such as a time-out of its own: a pinned one returns with the next job.
        """
        self._dropped.add((model, backend))
        self.gone(model, backend)

    def _put(self, spec: ModelSpec, backend: str, residency: Residency, *, ready_at: float) -> None:
        self._found.discard((spec.name, backend))
        self._dropped.discard((spec.name, backend))
        self._loaded_as[spec.name, backend] = spec
        self._copies[spec.name, backend] = Copy(
            model=spec.name,
            backend=backend,
            residency=residency,
            ready_at=ready_at,
            vram_mb=self.vram_mb(spec),
            idle_since=self._clock.now(),
            idle_unload_s=self.catalog.idle_unload_s(spec.name, backend),
            shares=self.shares(spec, backend),
        )
        self._copies_moved(backend)

    def _copies_moved(self, backend: str) -> None:
        self._view = None
        self.epochs[backend] += 1
        self.turned.add(backend)
        self.copies_changed = True
        self._changed()

    def pin(self, model: str, backend: str) -> None:
        """Keep a model loaded there, and load it if it is not."""
        self.pins.add((model, backend))
        self._dropped.discard((model, backend))
        self._copies_moved(backend)

    def unpin(self, model: str, backend: str) -> None:
        """Allow a model to be evicted again when its memory is needed. Idempotent."""
        self.pins.discard((model, backend))
        self._copies_moved(backend)

    def pause(self, paused: Paused) -> None:
        """Replace what is paused: it starts and loads nothing; everything else may again."""
        self.paused = paused
        self._changed()

    # ------------------------------------------------------------ running jobs

    def occupy(self, job: Job, backend: str, ends_at: float, *, taken_s: float = 0.0) -> None:
        """Give a job a slot on a backend until it is vacated; `ends_at` is only an expectation.

        `taken_s` is what the same attempt took of the card before the last restart.
        """
        hosts = self.catalog.parts_of(self.catalog.spec_of(job.model), backend)
        self.meter.begin(job.id, tuple(hosts), taken_s=taken_s)
        began_at = self._clock.now() if job.started_at is None else job.started_at
        self._free(job.id)
        self._slots[job.id] = Slot(job=job, backend=backend, ends_at=ends_at, began_at=began_at)
        self.busy[job.model, backend] += 1
        if self.busy[job.model, backend] == 1:
            self.turned.add(backend)
        self._view = None
        self._changed()

    def begun(self, job: Job) -> None:
        """Note that a job's start is stored."""
        slot = self._slots.get(job.id)
        if slot is not None:
            self._slots[job.id] = replace(slot, job=job)

    def expect(self, job_id: int, ends_at: float) -> None:
        """Correct when a running job is expected to end, from its own progress."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = replace(slot, ends_at=ends_at, held=False)
            self.meter.go_on(job_id)
            self._view = None

    def hold(self, job_id: int) -> None:
        """Note that a job waits in its server's own queue for an unknown time."""
        slot = self._slots.get(job_id)
        if slot is not None:
            self._slots[job_id] = replace(slot, held=True)
            self.meter.rest(job_id)
            self._view = None

    def last_to_end(self, host: str, *, apart_from: str) -> str | None:
        """Return, of the other models that run on a host, the one whose jobs end last."""
        running = [
            (slot.ends_at, slot.job.model)
            for slot in self._slots.values()
            if host in self.catalog.hosts_of[slot.backend] and slot.job.model != apart_from
        ]
        return max(running)[1] if running else None

    def vacate(self, job_id: int) -> None:
        """Free a job's slot. Idempotent."""
        if (slot := self._free(job_id)) is not None:
            self._rests(slot.job.model, slot.backend)
            self.meter.rest(job_id)
            self._view = None
            self._changed()

    def _free(self, job_id: int) -> Slot | None:
        slot = self._slots.pop(job_id, None)
        if slot is not None:
            key = slot.job.model, slot.backend
            self.busy[key] -= 1
            if not self.busy[key]:
                del self.busy[key]
                self.turned.add(slot.backend)
        return slot

    def _rests(self, model: str, backend: str) -> None:
        """Note that a copy has just been used: from now on it may be idle."""
        copy = self._copies.get((model, backend))
        if copy is not None:
            self._copies[model, backend] = _altered(copy, idle_since=self._clock.now())

    @property
    def slots(self) -> Mapping[int, Slot]:
        """The occupied slots, by job id."""
        return self._slots

    def running_on(self, backend: str) -> tuple[Job, ...]:
        """Return the jobs that occupy slots of a backend."""
        return tuple(slot.job for slot in self._slots.values() if slot.backend == backend)

    # ------------------------------------------------------------ who can serve what

    def lost(self, model: str, backend: str) -> None:
        """Note that a server reports not holding a copy that was believed ready.

        It is unloaded all the same, because it may be half loaded.
        """
        copy = self._copies.get((model, backend))
        if copy is not None and copy.residency is Residency.READY:
            self.drain(model, backend)
            if (model, backend) not in self._found:  # otherwise no load of this run has failed
                self.load_failures.lost(model, copy.ready_at)

    def spec(self, model: str, backend: str) -> ModelSpec:
        """Return a model for its server, with `preload` where an admin wants it kept there."""
        spec = self.catalog.spec_of(model)
        pinned = (model, backend) in self.pins
        return spec if pinned == spec.preload else replace(spec, preload=pinned)

    def unmet_pins(self) -> list[tuple[str, str]]:
        """Return the pins (model, backend) without a copy, in order."""
        return sorted(self.pins - self._copies.keys()) if self.pins else []

    def wanted_pins(self) -> list[tuple[str, str]]:
        """Return those of them whose model is to be loaded without a job: no server dropped it."""
        return [pin for pin in self.unmet_pins() if pin not in self._dropped]

    def serving(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the backends that can serve a model, in the configuration's order."""
        is_able = self.load_failures.is_able
        known = self._backends
        return tuple([b for b in spec.backends if b in known and is_able(spec.name, b)])

    def can_ever_serve(self, spec: ModelSpec) -> bool:
        """Return whether any configured host could run a model if it were empty and up.

        A server that offloads can run one larger than its card.
        """
        return any(
            self.catalog.backends[name].offloads or self.catalog.fits(spec, name)
            for name in self.serving(spec)
        )

    def left_at(self, model: str) -> float:
        """Return when a model was last evicted anywhere, 0 for never."""
        return self._left_at.get(model, 0.0)

    # ------------------------------------------------------------ memory

    def quiet(self, host: str, *, but: str = "") -> bool:
        """Return whether nothing runs, loads or unloads on a host, apart from one model's load."""
        return all(
            copy.residency is Residency.READY and not copy.running
            for copy in self.copies_on(host)
            if copy.model != but
        )

    def measured(self, host: str, total_mb: int, free_mb: int) -> None:
        """Take a measurement of a host's card into account."""
        ours_mb = self.mb_on(host)
        # The configured memory may be a part of the card: the rest is there for other programs.
        theirs_mb = max(0, total_mb - self.catalog.hosts[host].vram_mb)
        used_mb, quiet = max(0, total_mb - free_mb - theirs_mb), self.quiet(host)
        if self.budget.measured(host, used_mb=used_mb, ours_mb=ours_mb, quiet=quiet):
            self._changed()

    def lent(self, backend: str, mb: int, on: Collection[str]) -> None:
        """Take into account what a server holds for other programs, on those of its cards.

        They are those that nothing measures. What models of others are divided by is not known: as
        the server's own are, therefore.
        """
        shares = dict(self.catalog.spread(mb, backend))
        news = [self.budget.lent(host, backend, shares[host]) for host in on]
        if any(news):
            self._changed()

    def _may_sleep(self, backend: str) -> bool:
        return self.catalog.hosts[self.catalog.host_of[backend]].wake is not None

    def host_view(self, name: str) -> HostView:
        """Return a host in the planner's terms."""
        host, now = self.catalog.hosts[name], self._clock.now()
        return HostView(
            name=name,
            usable_mb=self.usable_mb(name),
            budget_mb=host.usable_mb,
            machine=host.machine,
            paused=self.paused.stops_host(name),
            quiet=self._quiet_of(host, now),
            yields_since=None if self.paused.is_awake(name, now) else self._yields.get(name),
            longest_open_s=host.quiet.longest_open_s(now) if host.quiet else inf,
            asleep=self.sleep.is_asleep(host),
            overslept=self.sleep.of(host).overslept,
            waking_until=self.sleep.waking_until(host),
        )

    def _quiet_of(self, host: HostSpec, now: float) -> tuple[Quiet, ...]:
        """Return the quiet hours that are kept: an admin may have put the host to work until some end."""
        if host.quiet is None:
            return ()
        spans = host.quiet.coming(now)
        awake_until = self.paused.awake.get(host.name, now)
        return tuple(span for span in spans if span.ends_at > awake_until)

    def yields(self, host: str, since: float | None) -> None:
        """Note since when another program has a host's card, None for no longer."""
        if since is None:
            self._yields.pop(host, None)
        else:
            self._yields[host] = since
        self._changed()

    def awake_until(self, host: str) -> float | None:
        """Return until when a host works because an admin wants it to, None if it need not."""
        awake = self.paused.is_awake(host, self._clock.now())
        return self.paused.awake[host] if awake else None

    def rests_until(self, host: str) -> float | None:
        """Return until when a host rests, as if no admin had put it to work: None if it does not.

        `inf` while another program has its card.
        """
        view = replace(
            self.host_view(host),
            yields_since=self._yields.get(host),
            asleep=False,
            waking_until=None,
        )
        reason = why_rests(view, self._clock.now())
        return None if reason is None else reason.until or inf

    def why_rests(self, host: str) -> Reason | None:
        """Return why a host does nothing now, a pause by an admin aside; None if it does not rest."""
        return why_rests(self.host_view(host), self._clock.now())

    def usable_mb(self, host: str) -> int:
        """Return how much memory models may take together on a host now."""
        return self.budget.usable_mb(self.catalog.hosts[host])

    def vram_mb(self, spec: ModelSpec) -> int:
        """Return what a copy takes; one of unknown size takes all that may become free on a host."""
        known_mb = self.known_vram_mb(spec)
        if known_mb is not None:
            return known_mb
        places = {tuple(self.catalog.parts_of(spec, name)) for name in self.serving(spec)}
        rooms = (sum(self._unknown_mb(host) for host in hosts) for hosts in places)
        return max(rooms, default=0)

    def shares(self, spec: ModelSpec, backend: str) -> Shares:
        """Return what a copy takes on each host there; empty where it takes all on the only one."""
        if len(self.catalog.hosts_of[backend]) == 1:
            return ()
        parts = self.catalog.parts_of(spec, backend)
        known_mb = self.known_vram_mb(spec)
        if known_mb is not None:
            return divided(known_mb, parts)
        return tuple((host, self._unknown_mb(host)) for host in parts)

    def _unknown_mb(self, host: str) -> int:
        return self.budget.unknown_mb(self.catalog.hosts[host], self._kept_mb(host))

    def _kept_mb(self, host: str) -> int:
        """Return what copies of known size take on a host that never leave it for another model.

        Nothing can be left beside one of unknown size, so those do not count.
        """
        return sum(
            dict(copy.shares)[host] if copy.shares else copy.vram_mb
            for (model, backend), copy in self._copies.items()
            if host in self.hosts_of(copy)
            and ((model, backend) in self.pins or self._keeps(backend))
            and (spec := self.catalog.models.get(model)) is not None
            and self.known_vram_mb(spec) is not None
        )

    def _keeps(self, backend: str) -> bool:
        """Return whether a server drops no model, neither on request nor for another one."""
        bound = self.catalog.backends[backend].max_models
        return bound is None and not self._backends[backend].can_unload

    def known_vram_mb(self, spec: ModelSpec) -> int | None:
        """Return what a copy takes, None until it is measured."""
        return 0 if self._is_weightless(spec) else self.budget.known_mb(spec)

    def _is_weightless(self, spec: ModelSpec) -> bool:
        known = self._weightless.get(spec.name)
        if known is None:
            servers = [self._backends[name] for name in spec.backends if name in self._backends]
            known = bool(servers) and all(server.weightless(spec) for server in servers)
            self._weightless[spec.name] = known
        return known
