"""Health checks: which servers answer, which models they hold, and how much memory is free."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from queueing.core.concurrency import TaskGroup, came, timeout
from queueing.core.errors import BackendError, Busy, KeyRefused
from queueing.core.ports import Backend, Clock, MemoryProbe, ServerInfo
from queueing.core.snapshot import Copy, Residency
from queueing.engine.fleet.fleet import Fleet

log = logging.getLogger(__name__)

EVERY_S = 10.0
KEY_S = 10.0  # to try a key, which a busy server may do late
ANSWER_S = 5.0  # a server that takes longer to identify itself counts as down
FIRST_DOWN_S = 1.0
LONGEST_DOWN_S = 4.0  # people see that the server is down, so its return must be noticed soon
FORGET_S = 30.0


class HealthChecker:
    """Keeps the fleet's view of servers and GPUs up to date, with one task per backend."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        backends: Mapping[str, Backend],
        memory: MemoryProbe | None,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._backends = backends
        self._memory = memory
        self._clock = clock
        self.first_looked = asyncio.Event()  # set once every server has been checked
        self._noted: dict[str, frozenset[str]] = {}
        self._held: dict[str, dict[str, int]] = {}  # by server: MB per model of other programs
        self._measured_at: dict[str, float] = {}  # by host: when it was last measured
        self._reported_at: dict[str, float] = {}  # by server: when it last reported these models
        self._end_watches: dict[str, asyncio.Task[None]] = {}  # by wedged server: waits for its end
        self._again = {name: asyncio.Event() for name in backends}
        self._watches: TaskGroup | None = None
        self._watched: dict[str, asyncio.Task[None]] = {}
        fleet.health.look_soon = lambda name: self._again[name].set()

    async def first_look(self, noted: Mapping[str, frozenset[str]]) -> None:
        """Check all servers once, concurrently, before anything is planned.

        `noted` maps each backend to the models that the last run left there.
        """
        self._noted = dict(noted)
        async with TaskGroup() as looks:
            for name in self._backends:
                looks.create_task(self.look(name))
        self.first_looked.set()

    @contextmanager
    def watching(self, tasks: TaskGroup) -> Iterator[None]:
        """Watch every server in its own task until the block ends."""
        self._watches = tasks
        self.follow()
        try:
            yield
        finally:
            self._watches = None
            for name in tuple(self._watched):
                self._watched.pop(name).cancel()

    def follow(self, renewed: Collection[str] = ()) -> None:
        """Start and stop watches to match the current servers; check `renewed` ones soon."""
        for name in self._watched.keys() - self._backends.keys():
            self._watched.pop(name).cancel()
            del self._again[name]
        for name in self._backends:
            again = self._again.setdefault(name, asyncio.Event())
            if name in renewed:
                again.set()
            if self._watches is not None and name not in self._watched:
                watch = self.watch(name)
                self._watched[name] = self._watches.create_task(watch, name=f"health of {name}")

    async def watch(self, name: str) -> None:
        """Check one server until cancelled; while it is down, soon at first, then less often."""
        pause_s = EVERY_S
        try:
            while True:
                if await self._woken(name, pause_s):
                    pause_s = FIRST_DOWN_S
                    await self._watch_for_end(name)
                    await asyncio.sleep(pause_s)
                await self.look(name)
                await self._watch_for_end(name)
                health = self._fleet.health.of(name)
                pause_s = EVERY_S if health.up else min(pause_s * 2, LONGEST_DOWN_S)
                if health.wedged_until is not None:
                    pause_s = FIRST_DOWN_S  # a proxy may hide a restart except for a moment
        finally:
            await self._stop_watching(name)

    async def _woken(self, name: str, pause_s: float) -> bool:
        """Wait for the pause to end. Returns True if a check was requested before that."""
        if not await came(self._again[name], pause_s):
            return False
        self._again[name].clear()
        return True

    # ------------------------------------------------------------ restarts between two looks

    async def _watch_for_end(self, name: str) -> None:
        """Keep a task that waits for a server's process to end, only while the server is wedged."""
        if self._fleet.health.of(name).wedged_until is None:
            await self._stop_watching(name)
        elif name not in self._end_watches:
            self._end_watches[name] = asyncio.create_task(self._until_gone(name))

    async def _stop_watching(self, name: str) -> None:
        task = self._end_watches.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _until_gone(self, name: str) -> None:
        try:
            await self._backends[name].gone()
        except Exception:
            log.exception("cannot detect the restart of %s; it stays paused", name)
            return
        log.info("%s has stopped", name)
        self._fleet.health.down(name, "it has stopped")
        self._again[name].set()

    # ------------------------------------------------------------ looks

    async def look(self, name: str) -> None:
        """Check one server and record the result. Raises only `CancelledError`."""
        server = self._backends[name]
        try:
            async with timeout(ANSWER_S):
                info = await server.probe()
            if self._fleet.health.of(name).key_doubted:
                async with timeout(KEY_S):
                    await server.admit()
            # Compare before marking the server as up. A server that restarted holds none of its
            # models, and a job started there would seem to have lost its model to another program.
            await self._compare(name, server)
            self._fleet.health.up(name, info)
        except KeyRefused as error:  # it answers, and its models stay in memory
            self._fleet.health.failed(name, error)
        except (BackendError, TimeoutError) as error:
            if isinstance(error, Busy) and self._fleet.health.of(name).up:
                return  # it answers, so nothing has changed
            cause = str(error) or "it does not answer in time"
            self._record_down(name, cause)
        except Exception as error:
            log.exception("checking %s failed", name)
            self._record_down(name, repr(error))
        else:
            await self._measure(name, server, info)

    def _record_down(self, name: str, cause: str) -> None:
        self._fleet.health.down(name, cause)
        if self._clock.now() - self._fleet.health.of(name).since >= FORGET_S:
            # A server that is gone holds no memory, so others on its GPU may use it.
            self._fleet.copies.forget_idle(name)
            self._fleet.memory.lent(name, 0, self._fleet.catalog.hosts_of[name])
            self._held.pop(name, None)

    # ------------------------------------------------------------ copies

    async def _compare(self, name: str, server: Backend) -> None:
        """Detect models that other programs loaded or evicted, or that a restart left or lost."""
        specs = [spec for spec in self._fleet.catalog.models.values() if name in spec.backends]
        epoch = self._fleet.copies.epochs[name]
        async with timeout(ANSWER_S):
            loaded = await server.loaded(specs)
        noted = self._noted.pop(name, frozenset())
        if loaded is None:  # unknown: it likely still holds what the last run left
            for spec in specs:
                if spec.name in noted and self._fleet.copies.get(spec.name, name) is None:
                    self._fleet.copies.found(spec, name)
            return
        if epoch != self._fleet.copies.epochs[name]:
            return  # copies changed during the request, so the answer is outdated
        here = {copy.model: copy for copy in self._fleet.copies if copy.backend == name}
        for copy in here.values():
            idle = copy.residency is Residency.READY and not copy.running
            if idle and copy.model not in loaded:
                self._record_lost(copy)
        for spec in specs:
            if spec.name in loaded and spec.name not in here:
                log.info("found %s already loaded on %s", spec.name, name)
                self._fleet.copies.found(spec, name)

    def _record_lost(self, copy: Copy) -> None:
        """Record a copy that its server unloaded by itself or lost in a restart."""
        health = self._fleet.health.of(copy.backend)
        if health.up and health.since <= copy.ready_at:
            log.info("%s: unloaded by its server %s", copy.model, copy.backend)
            self._fleet.copies.dropped(copy.model, copy.backend)
        else:
            log.info("%s is no longer loaded on %s", copy.model, copy.backend)
            self._fleet.copies.gone(copy.model, copy.backend)

    # ------------------------------------------------------------ memory

    async def _measure(self, name: str, server: Backend, info: ServerInfo) -> None:
        hosts, unmeasured = self._fleet.catalog.hosts_of[name], []
        for host in hosts:
            measured = await self._gpu(host)
            if measured is None and len(hosts) == 1:  # of several, it may have reported any
                measured = _reported(info)
            if measured is None:
                unmeasured.append(host)
                self._expire(host)
            else:
                self._measured_at[host] = self._clock.now()
                self._fleet.memory.measured(host, *measured)
        if unmeasured:
            await self._ask_for_others(name, server, unmeasured)

    def _expire(self, host: str) -> None:
        """Discard the measurement of a host that could not be measured for `FORGET_S`."""
        measured_at = self._measured_at.get(host)
        if measured_at is not None and self._clock.now() - measured_at >= FORGET_S:
            del self._measured_at[host]
            log.warning(
                "%s has not been measured for %.0f s: using its configured memory", host, FORGET_S
            )
            self._fleet.memory.unmeasured(host, measured_at)

    async def _ask_for_others(self, name: str, server: Backend, hosts: Collection[str]) -> None:
        """Ask a server for the memory of other programs' models, on hosts that nothing measures."""
        fleet = self._fleet
        ours = {spec.name: spec for spec in fleet.catalog.served_by(name)}
        ours |= {
            c.model: fleet.copies.loaded_as(c.model, name)
            for c in fleet.copies
            if c.backend == name
        }
        try:
            async with timeout(ANSWER_S):
                held = await server.held_besides(tuple(ours.values()))
        except (BackendError, TimeoutError) as error:
            log.debug("%s does not report what else it holds: %s", name, error)
            if self._clock.now() - self._reported_at.get(name, 0.0) >= FORGET_S:
                fleet.memory.lent(name, 0, hosts)
                self._held.pop(name, None)
            return
        self._reported_at[name] = self._clock.now()
        if held != self._held.get(name, {}):
            listed = ", ".join(f"{model} ({mb} MB)" for model, mb in sorted(held.items()))
            log.info("%s holds for other programs: %s", name, listed or "nothing")
            self._held[name] = dict(held)
        fleet.memory.lent(name, sum(held.values()), hosts)

    async def _gpu(self, host: str) -> tuple[int, int] | None:
        if self._memory is None:
            return None
        try:
            async with timeout(ANSWER_S):
                return await self._memory.free_mb(self._fleet.catalog.hosts[host])
        except Exception as error:  # noqa: BLE001 - a sick driver must not stop the queue
            log.warning("memory of %s cannot be measured: %r", host, error)
            return None

    async def free_mb(self, host: str) -> int | None:
        """Return the free memory of a host in MB, or None if nothing can measure it."""
        measured = await self._gpu(host)
        if measured is not None:
            return measured[1]
        for spec in self._fleet.catalog.hosts[host].backends:
            if len(self._fleet.catalog.hosts_of[spec.name]) > 1:
                continue
            try:
                async with timeout(ANSWER_S):
                    info = await self._backends[spec.name].probe()
            except (BackendError, TimeoutError):
                continue
            if info.free_mb is not None:
                return info.free_mb
        return None


def _reported(info: ServerInfo) -> tuple[int, int] | None:
    if info.total_mb is None or info.free_mb is None:
        return None
    return info.total_mb, info.free_mb
