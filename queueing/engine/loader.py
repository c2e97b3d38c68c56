"""Loads and unloads models, measures what a load takes, and updates the fleet.

The scheduler and admins decide what is loaded where. On a GPU that nothing measures, a load does
not wait for free memory, and the model's size is not learned.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from queueing.core.concurrency import TaskGroup, timeout
from queueing.core.errors import (
    BackendError,
    ModelCrashed,
    OutOfMemory,
    Refused,
    ShortOfMemory,
    StoreError,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.events import CopyLeft, LoadCause, LoadEnded
from queueing.core.ports import Backend
from queueing.core.snapshot import Copy, Evict, EvictionCause, Load, Residency
from queueing.core.specs import ModelSpec, whole_mb
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import Checkpoint, LearnedTimes
from queueing.engine.fleet.pins import Place
from queueing.engine.health_checker import HealthChecker
from queueing.engine.outcomes import Outcomes
from queueing.engine.program_watcher import ProgramWatcher
from queueing.planning.retry import given_up

ROOM_S = 30.0  # how long freed memory may take to show up, as drivers report it late
ROOM_POLL_S = 0.5
STIRRED_MB = 256  # desktop programs may change their memory use by this much during a load


@dataclass(frozen=True, slots=True)
class Before:
    """Memory per host before a load: free, and held by the largest other program."""

    free_mb: Mapping[str, int]
    others_mb: Mapping[str, int | None]  # None if usage per process is unknown


@dataclass(kw_only=True, eq=False, repr=False)
class LoadMeasurement:
    """Measures the memory of GPUs before and after each load."""

    fleet: Fleet
    health: HealthChecker
    others: ProgramWatcher

    async def room(self, spec: ModelSpec, backend: str) -> Before | None:
        """Wait until there is enough free memory on every host and return what was measured.

        Returns None if a host is not measured. Raises `OutOfMemory` if the memory does not become
        free within `ROOM_S`.
        """
        needs = self._needs(spec, backend)
        free: dict[str, int] = {}
        for host, needed_mb in needs.items():
            free_mb = await self._room(host, min(needed_mb, self.fleet.memory.usable_mb(host)))
            if free_mb is not None:
                free[host] = free_mb
        if len(free) < len(needs):
            return None
        return Before(free, {host: await self.others.held_mb(host) for host in free})

    def _needs(self, spec: ModelSpec, backend: str) -> dict[str, int]:
        """Return the memory that a model takes on each of its hosts, in MB."""
        shares = dict(self.fleet.memory.shares(spec, backend))
        hosts = self.fleet.catalog.parts_of(spec, backend)
        return {host: shares.get(host, self.fleet.memory.vram_mb(spec)) for host in hosts}

    async def learn(self, spec: ModelSpec, backend: str, before: Before | None) -> None:
        """Correct a model's size from a measured load, unless other memory use changed during it.

        For a model that spans GPUs, the size follows from the part that most exceeds its share, so
        that no GPU overflows.
        """
        if before is None:
            return
        if not all(self.fleet.memory.quiet(host, but=spec.name) for host in before.free_mb):
            return
        taken: dict[str, int] = {}
        for host, free_mb in before.free_mb.items():
            after_mb = await self.health.free_mb(host)
            if after_mb is None or await self._others_changed(host, before.others_mb[host]):
                return
            taken[host] = max(0, free_mb - after_mb)
        if any(taken.values()):
            parts = self.fleet.catalog.parts_of(spec, backend)
            self.fleet.memory.budget.learn(spec.name, whole_mb(taken, parts))

    async def _others_changed(self, host: str, before_mb: int | None) -> bool:
        """Return whether another program took or freed memory during the load.

        Otherwise a game that starts during a load would permanently inflate the model's learned
        size, until it might fit nowhere.
        """
        now_mb = None if before_mb is None else await self.others.held_mb(host)
        return before_mb is not None and now_mb is not None and abs(now_mb - before_mb) > STIRRED_MB

    async def _room(self, host: str, need_mb: int) -> int | None:
        """Wait until the memory is measured as free. Returns it, or None if nothing measures it."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + ROOM_S
        while (free_mb := await self.health.free_mb(host)) is not None and free_mb < need_mb:
            if loop.time() >= give_up_at:
                raise OutOfMemory(f"{need_mb} MB needed on {host}, {free_mb} MB free")
            await asyncio.sleep(ROOM_POLL_S)
        return free_mb


log = logging.getLogger(__name__)

UNLOAD_S = 60.0  # a server that takes longer to unload counts as down
STORE_PAUSE_S = 5.0
_COSTLY = "its last load failed for an unknown reason, and another try would evict other models"


@dataclass(kw_only=True, eq=False, repr=False)
class Loader:
    """Runs loads and unloads, each in its own task."""

    fleet: Fleet
    backends: Mapping[str, Backend]
    sizing: LoadMeasurement
    outcomes: Outcomes
    times: LearnedTimes
    checkpoint: Checkpoint
    bus: EventBus
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _stopped: bool = field(default=False, init=False)
    _loads: dict[Place, tuple[Load, asyncio.Task[None]]] = field(  # the last of each place
        default_factory=dict, init=False
    )
    _waiters: dict[tuple[str, str], list[asyncio.Future[None]]] = field(
        default_factory=dict, init=False
    )

    # ------------------------------------------------------------ loading

    def begin(self, load: Load, expected_s: float, work: TaskGroup) -> None:
        """Reserve the memory immediately and load in a new task.

        Refuses a load that would evict other models if the model's last load failed for an unknown
        reason.
        """
        spec = self.fleet.catalog.models[load.model]
        if load.evict and self.fleet.load_failures.of(load.model).unknown:
            self.fleet.load_failures.unable(load.model, load.backend, _COSTLY)
            self._spawn(self._refuse_retry(spec, load.backend), f"no load of {load.model}", work)
            return
        for victim in load.evict:
            self.fleet.copies.leaving(victim.model, victim.backend)
        cause = self._cause(load)
        self.fleet.copies.loading(spec, load.backend, expected_s=expected_s, ahead=load.ahead)
        name = f"load {load.model} on {load.backend}"
        task = self._spawn(self._load(spec, load, cause), name, work)
        self._loads[load.model, load.backend] = load, task

    def give_way(self, copy: Copy, work: TaskGroup) -> None:
        """Stop the load of a copy that nobody has requested; its memory counts until it is free."""
        self.fleet.copies.leaving(copy.model, copy.backend)
        load, task = self._loads[copy.model, copy.backend]
        name = f"stop loading {copy.model} on {copy.backend}"
        self._spawn(self._give_way(load, task), name, work)

    async def _give_way(self, load: Load, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.wait([task])
        for each in (Evict(model=load.model, backend=load.backend), *load.evict):
            copy = self.fleet.copies.get(each.model, each.backend)
            if copy is not None and copy.residency is Residency.UNLOADING:  # not ready just in time
                await self.leave(each)

    def _cause(self, load: Load) -> LoadCause:
        if load.ahead:
            return LoadCause.AHEAD
        if (load.model, load.backend) in self.fleet.copies.pins:
            return LoadCause.PRELOAD
        copies = self.fleet.copies.of(load.model)
        stays = any(copy.residency is not Residency.UNLOADING for copy in copies)
        return LoadCause.COPY if stays else LoadCause.REQUEST

    def stop(self) -> None:
        """Cancel loads and unloads in progress and accept no further ones."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    def _spawn(
        self, steps: Coroutine[None, None, None], name: str, work: TaskGroup
    ) -> asyncio.Task[None]:
        task = work.create_task(_guarded(steps, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def outcome(self, model: str, backend: str) -> None:
        """Wait for the next load of a model on a backend. Raises `BackendError` if it fails."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault((model, backend), []).append(future)
        await future

    def give_up(self, model: str, backend: str, error: Refused) -> None:
        """Notify callers waiting for a load that it is no longer wanted."""
        self._settle(model, backend, error)

    async def _load(self, spec: ModelSpec, load: Load, cause: LoadCause) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._store_load()
            await self._leave(load.evict)
            await self._load_making_room(spec, load.backend)
        except asyncio.CancelledError:
            copy = self.fleet.copies.get(spec.name, load.backend)
            if copy is not None and copy.residency is Residency.LOADING:  # else it gives way
                self.fleet.copies.gone(spec.name, load.backend)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a load raises, it has failed
            self._publish_end(load, cause, loop.time() - began, failed=True)
            costly = bool(load.evict)
            await self._failed(spec, load.backend, error, costly=costly, ahead=load.ahead)
        else:
            seconds = loop.time() - began
            log.info("loaded %s on %s in %.1f s", spec.name, load.backend, seconds)
            self.fleet.copies.ready(spec, load.backend)
            self.times.loaded(spec.name, load.backend, seconds)
            self._publish_end(load, cause, seconds)
            self._settle(spec.name, load.backend, None)

    def _publish_end(
        self, load: Load, cause: LoadCause, seconds: float, *, failed: bool = False
    ) -> None:
        ended = LoadEnded(
            model=load.model,
            backend=load.backend,
            hosts=self.fleet.catalog.gpus_of(load.model, load.backend),
            cause=cause,
            seconds=seconds,
            failed=failed,
        )
        self.bus.publish(ended)

    async def _store_load(self) -> None:
        """Store the load before it begins, so that a restart after a crash knows of its memory."""
        while True:
            try:
                return await self.checkpoint.write()
            except StoreError as error:
                log.warning("loading waits for the database: %s", error)
                await asyncio.sleep(STORE_PAUSE_S)

    async def _load_making_room(self, spec: ModelSpec, backend: str) -> None:
        try:
            await self._attempt(spec, backend)
        except OutOfMemory as error:
            log.warning(
                "loading %s on %s: %s; unloading all idle models", spec.name, backend, error
            )
            for host in self.fleet.catalog.parts_of(spec, backend):
                await self.relieve(host)
            await self._attempt(spec, backend)

    async def _attempt(self, spec: ModelSpec, backend: str) -> None:
        before = await self.sizing.room(spec, backend)
        async with timeout(spec.timeouts.load_s):
            await self.backends[backend].load(self.fleet.spec(spec.name, backend))
        await self.sizing.learn(spec, backend, before)

    # ------------------------------------------------------------ failed loads

    async def _refuse_retry(self, spec: ModelSpec, backend: str) -> None:
        await self._failed(spec, backend, UnknownFailure(_COSTLY), costly=True)

    async def _failed(
        self, spec: ModelSpec, backend: str, error: Exception, *, costly: bool, ahead: bool = False
    ) -> None:
        """Handle a failed load; `costly` if other models were evicted for it.

        One that began `ahead` of requests is not tried again before there is one, whose tries it
        leaves alone.
        """
        if isinstance(error, BackendError | TimeoutError):
            log.warning(
                "loading %s on %s failed: %s: %s", spec.name, backend, type(error).__name__, error
            )
        else:
            log.error("loading %s on %s failed", spec.name, backend, exc_info=error)
        await self._clear(spec, backend)
        if isinstance(error, Unavailable):
            self.fleet.health.failed(backend, error)
        unknown = isinstance(error, UnknownFailure | UnreadableAnswer)
        # A server process that crashes while loading will do so again until somebody fixes the
        # model. After a `ShortOfMemory` the memory has been freed, so a retry evicts nothing.
        short = isinstance(error, ShortOfMemory)
        lasting = isinstance(error, ModelCrashed) or (unknown and costly and not short)
        if lasting or (isinstance(error, BackendError) and not error.retryable):
            self.fleet.load_failures.unable(spec.name, backend, str(error))
        if ahead:
            self.fleet.copies.set_aside(spec.name)
            self._settle(spec.name, backend, error)
            return
        failures = self.fleet.load_failures.failed(spec.name, unknown=unknown)
        self._settle(spec.name, backend, error)
        hopeless = not self.fleet.serving(spec)
        if hopeless or (failures >= spec.max_attempts and not self.fleet.copies.of(spec.name)):
            tried = self.fleet.load_failures.given_up(spec.name)
            why = given_up(error, tried).model_copy(update={"unloadable": spec.name})
            cause = f"loading it on {backend}: {type(error).__name__}: {error}"
            await self.outcomes.fail_waiting(spec.name, why, cause)

    async def _clear(self, spec: ModelSpec, backend: str) -> None:
        """Unload what a failed load may have left: the server may even complete the load later."""
        copy = self.fleet.copies.get(spec.name, backend)
        if copy is not None and self.fleet.copies.may_leave(copy):
            await self.leave(Evict(model=spec.name, backend=backend, why=EvictionCause.FAILURE))
        else:
            self.fleet.copies.gone(spec.name, backend)

    def _settle(self, model: str, backend: str, error: Exception | None) -> None:
        for waiter in self._waiters.pop((model, backend), []):
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # ------------------------------------------------------------ unloading

    def begin_leaving(self, victims: Sequence[Evict], work: TaskGroup) -> None:
        """Mark idle copies as unloading immediately and unload them in a new task."""
        for victim in victims:
            self.fleet.copies.leaving(victim.model, victim.backend)
        self._spawn(self._leave(victims), "unload", work)

    async def relieve(self, host: str) -> None:
        """Unload every idle copy on a host that is not pinned."""
        await self._leave_at_once(self.fleet.copies.idle_on(host), EvictionCause.MEMORY)

    async def empty(self, host: str) -> None:
        """Unload every idle copy on a host, including pinned ones.

        The caller must prevent new starts there.
        """
        await self._leave_at_once(self.fleet.copies.idle_on(host, pinned=True), EvictionCause.ADMIN)

    async def _leave_at_once(self, idle: Sequence[Copy], why: EvictionCause) -> None:
        victims = [Evict(model=copy.model, backend=copy.backend, why=why) for copy in idle]
        for victim in victims:  # mark all first, so that none gets a job while others unload
            self.fleet.copies.leaving(victim.model, victim.backend)
        await self._leave(victims)

    async def _leave(self, victims: Sequence[Evict]) -> None:
        for victim in victims:
            await self.leave(victim)

    async def leave(self, victim: Evict) -> None:
        """Unload an idle copy and the copies that its server frees with it. Idempotent.

        Never raises: a server that fails to unload is marked as down. Does nothing after `stop`: a
        copy that looks idle then may still be running a job, which the next run resumes.
        """
        if self._stopped:
            return
        self.fleet.copies.leaving(victim.model, victim.backend)
        copy = self.fleet.copies.get(victim.model, victim.backend)
        together = () if copy is None else self.fleet.copies.leaving_with(copy)
        for other in together:
            self.fleet.copies.leaving(other.model, other.backend)
        try:
            if copy is not None and await self._unload(victim):
                for each in together:
                    self._publish_left(each, victim.why)
        finally:
            for other in together:
                self.fleet.copies.gone(other.model, other.backend)

    def _publish_left(self, copy: Copy, why: EvictionCause) -> None:
        if why is not EvictionCause.ROOM:
            self.fleet.copies.set_aside(copy.model)
        hosts = self.fleet.copies.hosts_of(copy)
        left = CopyLeft(model=copy.model, backend=copy.backend, hosts=hosts, why=why)
        self.bus.publish(left)

    async def _unload(self, victim: Evict) -> bool:
        """Unload a copy. Returns whether the server did."""
        server = self.backends[victim.backend]
        if not server.can_unload:
            return False
        try:
            async with timeout(UNLOAD_S):
                await server.unload(self.fleet.copies.loaded_as(victim.model, victim.backend))
        except (BackendError, TimeoutError) as error:
            log.warning("unloading %s on %s failed: %s", victim.model, victim.backend, error)
            self.fleet.health.down(victim.backend, str(error) or "unloading timed out")
        except Exception:
            log.exception("unloading %s on %s failed", victim.model, victim.backend)
        else:
            log.info("unloaded %s on %s", victim.model, victim.backend)
            return True
        return False


async def _guarded(steps: Coroutine[None, None, None], name: str) -> None:
    """Log a bug instead of letting it cancel the task group."""
    try:
        await steps
    except Exception:
        log.exception("%s: stopped by a bug", name)
