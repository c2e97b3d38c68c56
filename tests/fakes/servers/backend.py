"""A scripted inference server, its GPU, and the adapter through which the queue speaks to it.

The server lives outside the queue: it goes on when a queue is stopped or killed, so that a restart
finds what a real restart would find. It records whatever a queue must never do.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from queueing.core.concurrency import undisturbed
from queueing.core.errors import (
    Busy,
    KeyRefused,
    NotLoaded,
    OutOfMemory,
    Unavailable,
    UnknownFailure,
)
from queueing.core.ports import Fetch, Report, ServerInfo
from queueing.core.requests import (
    Capability,
    Chat,
    Embed,
    File,
    Output,
    Progress,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
    Work,
)
from queueing.core.specs import HostSpec, ModelSpec

ALL = frozenset(Capability)
IMAGE = File(name="image.png", mime="image/png", data=b"not decoded by anybody")


@dataclass
class FakeGpu:
    """The memory that several servers share; `other_mb` is held by other programs."""

    total_mb: int
    budget_mb: int
    other_mb: int = 0
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    peak_mb: int = 0
    lingering_mb: int = 0  # freed, but the driver does not show it yet

    def take(self, server: str, model: str, vram_mb: int) -> None:
        self.held[server, model] = vram_mb
        self.peak_mb = max(self.peak_mb, self.used_mb)
        if self.used_mb > self.budget_mb and len(self.held) > 1:
            now = asyncio.get_running_loop().time()
            self.violations.append(f"over budget at {now:.2f} s: {self.held}")

    def give(self, server: str, model: str, lingers_s: float = 0.0) -> None:
        freed_mb = self.held.pop((server, model), 0)
        if lingers_s:
            self.lingering_mb += freed_mb
            asyncio.get_running_loop().call_later(lingers_s, self._settle, freed_mb)

    def _settle(self, freed_mb: int) -> None:
        self.lingering_mb -= freed_mb

    @property
    def used_mb(self) -> int:
        return sum(self.held.values())

    @property
    def free_mb(self) -> int:
        return max(0, self.total_mb - self.used_mb - self.other_mb - self.lingering_mb)


@dataclass
class Fate:
    """What happens to an attempt: an error after its service time, silence, or a dying server."""

    service_s: float | None = None
    error: Exception | None = None
    hang: bool = False
    crash: bool = False


@dataclass
class Attempt:
    """An attempt as the server knows it."""

    model: str
    work: Work
    done: asyncio.Future[None]
    began: float
    running: bool = True
    attended: bool = True  # False once the process that sent it is dead
    forgotten: bool = False  # its server has died since, and its result with it
    listeners: list[asyncio.Future[None]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


def prompt_of(work: Work) -> str:
    match work.request:
        case TextToImage(prompt=prompt):
            return prompt
        case Chat(messages=messages):
            return messages[-1].text
        case Embed(inputs=inputs):
            return str(inputs[0])
        case TextToVideo(prompt=prompt) | TextToAudio(prompt=prompt):
            return prompt
        case TextToSpeech(text=text):
            return text
        case SpeechToText(prompt=prompt):
            return prompt or ""


def output_of(work: Work) -> Output:
    """Return an attempt's default output; that of a recording is the words in its bytes."""
    match work.request:
        case SpeechToText():
            return Output(text=work.files[0].data.decode(errors="replace"))
        case TextToSpeech(text=text):
            return Output(files=(File(name="speech.mp3", mime="audio/mpeg", data=text.encode()),))
        case TextToVideo(prompt=prompt):
            return Output(files=(File(name="video.mp4", mime="video/mp4", data=prompt.encode()),))
        case TextToImage():
            return Output(text=f"result of {prompt_of(work)}", files=(IMAGE,))
        case _:
            return Output(text=f"result of {prompt_of(work)}")


class FakeServer:
    """Loads and runs in virtual time; `fates` says what happens to attempts, by default nothing."""

    def __init__(
        self,
        name: str,
        gpu: FakeGpu,
        *,
        load_s: float = 10.0,
        unload_s: float = 0.0,
        service_s: float = 5.0,
        slots: int = 64,
    ) -> None:
        self.name = name
        self.gpu = gpu
        self.load_s = load_s
        self.unload_s = unload_s
        self.service_s = service_s
        self.fetch_s = 0.5
        self.slots = slots
        self.memory: set[str] = set()
        self.attempts: dict[str, Attempt] = {}
        self.sent: set[str] = set()  # keys, forever
        self.up = True
        self.wedged = False
        self.tells_memory = False
        self.tells_loaded = True
        self.others: dict[str, int] = {}  # in its memory for other programs, in MB
        self.tells_others = True
        self.busy = False
        self.weightless: set[str] = set()
        self.remembers = True  # can be asked for an attempt that no one listens to any more
        self.fates: Callable[[Work], Fate] = lambda _work: Fate()
        self.outputs: Callable[[Work], Output | None] = lambda _work: None
        self.load_fates: Callable[[], Exception | None] = lambda: None
        self.loading: dict[str, tuple[asyncio.Future[None], asyncio.TimerHandle]] = {}
        self.fetch_errors: deque[Exception] = deque()
        self.restart_s = 20.0
        self.progress_every_s: float | None = None
        self.lingers_s = 0.0  # how long freed memory still looks taken
        self.sizes: dict[str, int] = {}  # what models really take, where not what is configured
        self.broken = False
        self.options: frozenset[str] | None = None  # of requests for images; None: all
        self.usual: dict[str, float] = {}  # numbers of requests that name none
        self.loras: tuple[str, ...] = ()
        self.key_refused = False  # it lists its models all the same
        self.answer_s = 0.0  # how old its answers about its memory are when they arrive
        self.stubborn = False  # goes on loading when its client has gone
        self.loads: list[tuple[float, str]] = []
        self.unloads: list[tuple[float, str]] = []
        self.starts: list[tuple[float, str, str]] = []  # (moment, model, prompt)
        self.calls: list[str] = []  # "run" and "fetch" with their prompts, as they came
        self.finished: Counter[str] = Counter()  # by prompt
        self.cancelled: list[str] = []
        self.violations: list[str] = []
        self.watched: list[asyncio.Event] = []  # set when it goes away

    # ------------------------------------------------------------ what happens to it

    def die(self, restart_s: float | None = None) -> None:
        """Lose everything now; come back after `restart_s`, or never by itself if negative."""
        self.up, self.wedged = False, False
        for watch in self.watched:
            watch.set()
        for attempt in list(self.attempts.values()):
            self._end(attempt, Unavailable(f"{self.name}: connection lost"))
            attempt.forgotten = True
        self.attempts.clear()
        for model in list(self.loading):
            self.stop_load(model, Unavailable(f"{self.name}: connection lost"))
        for model in list(self.memory):
            self.evict(model)
        pause = self.restart_s if restart_s is None else restart_s
        if pause >= 0:
            asyncio.get_running_loop().call_later(pause, self.revive)

    def revive(self) -> None:
        self.up = True

    def evict(self, model: str) -> None:
        """Unload a model as an outsider would, without asking the queue."""
        self.memory.discard(model)
        self.gpu.give(self.name, model, self.lingers_s)

    @property
    def running(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts.values() if attempt.running]

    # ------------------------------------------------------------ what it is asked

    def reach(self) -> None:
        if not self.up:
            raise Unavailable(f"{self.name}: connection refused")

    def accept(self, model: str, work: Work) -> Attempt:
        """Accept an attempt and work at it, whether anyone listens or not."""
        loop = asyncio.get_running_loop()
        if work.key in self.sent:
            self.violations.append(f"{prompt_of(work)} sent twice under {work.key}")
        self.sent.add(work.key)
        if len([attempt for attempt in self.running if attempt.attended]) >= self.slots:
            self.violations.append(
                f"more than {self.slots} at once on {self.name} at {loop.time()}"
            )
        attempt = Attempt(model=model, work=work, done=loop.create_future(), began=loop.time())
        attempt.done.add_done_callback(_retrieve)
        self.attempts[work.key] = attempt
        self.starts.append((loop.time(), model, prompt_of(work)))
        fate = self.fates(work)
        if not (fate.hang or self.wedged):
            service_s = self.service_s if fate.service_s is None else fate.service_s
            attempt.timer = loop.call_later(service_s, self._finish, attempt, fate)
        return attempt

    def _finish(self, attempt: Attempt, fate: Fate) -> None:
        if fate.crash:
            self.die()
        elif not attempt.done.done():
            if isinstance(fate.error, NotLoaded):
                self.evict(attempt.model)  # it speaks the truth
            if fate.error is None:
                self.finished[prompt_of(attempt.work)] += 1
            self._end(attempt, fate.error)

    def _end(self, attempt: Attempt, error: Exception | None) -> None:
        attempt.running = False
        if attempt.timer is not None:
            attempt.timer.cancel()
        if attempt.done.done():
            return
        if error is None:
            attempt.done.set_result(None)
        else:
            attempt.done.set_exception(error)

    def listen(self, attempt: Attempt) -> asyncio.Future[None]:
        """Return a future for one connection: it ends with the attempt, or when it is cut."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        attempt.listeners.append(heard)
        attempt.done.add_done_callback(lambda done: _pass_on(done, heard))
        return heard

    def cut_connections(self) -> None:
        """Break every connection; the server itself goes on."""
        for attempt in self.running:
            for heard in attempt.listeners:
                if not heard.done():
                    heard.set_exception(Unavailable(f"{self.name}: connection reset"))

    def drip(self, attempt: Attempt, report: Report) -> None:
        """Report progress regularly while an attempt runs."""
        if attempt.running and self.progress_every_s is not None:
            elapsed_s = asyncio.get_running_loop().time() - attempt.began
            report(Progress(fraction=0.5, step=(int(elapsed_s), int(self.service_s))))
            asyncio.get_running_loop().call_later(self.progress_every_s, self.drip, attempt, report)

    def size_of(self, model: ModelSpec) -> int:
        return self.sizes.get(model.name, model.vram_mb or 0)

    def begin_load(self, model: str, vram_mb: int) -> asyncio.Future[None]:
        """Load a model, whether anyone waits for it or not; a running load is joined."""
        if model in self.loading:
            return self.loading[model][0]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        done.add_done_callback(_retrieve)
        self.loads.append((loop.time(), model))
        self.gpu.take(self.name, model, vram_mb)
        error = self.load_fates()
        load_s = self.load_s if not isinstance(error, TimeoutError) else 1e6
        self.loading[model] = (done, loop.call_later(load_s, self._loaded, model, error))
        return done

    def _loaded(self, model: str, error: Exception | None) -> None:
        done, _ = self.loading.pop(model)
        if error is None and self.gpu.used_mb + self.gpu.other_mb > self.gpu.total_mb:
            error = OutOfMemory(f"{self.name}: out of memory")
        if error is None:
            self.memory.add(model)
            if not done.done():
                done.set_result(None)
            return
        self.gpu.give(self.name, model)
        if not done.done():
            done.set_exception(error)

    def stop_load(self, model: str, error: Exception | None = None) -> None:
        """Abandon a running load."""
        if model not in self.loading:
            return
        done, timer = self.loading.pop(model)
        timer.cancel()
        self.gpu.give(self.name, model)
        if not done.done():
            done.set_exception(error or Unavailable(f"{self.name}: the load was stopped"))

    def interrupt(self, attempt: Attempt) -> None:
        """Stop an attempt at a client's request."""
        self.cancelled.append(prompt_of(attempt.work))
        self.attempts.pop(attempt.work.key, None)
        attempt.running = False
        if attempt.timer is not None:
            attempt.timer.cancel()
        attempt.done.cancel()


class FakeBackend:
    """The adapter of one process; once it is `dead`, its calls no longer reach the server."""

    capabilities = ALL

    def __init__(
        self, server: FakeServer, *, unloads_together: bool = False, can_unload: bool = True
    ) -> None:
        self.server = server
        self.dead = False
        self.left = False
        self.closed = False
        self.unloads_together = unloads_together
        self.can_unload = can_unload

    @property
    def stops_loads(self) -> bool:
        return not self.server.stubborn

    async def _reach(self) -> None:
        if self.dead:
            await asyncio.get_running_loop().create_future()
        self.server.reach()

    def check(self, model: ModelSpec) -> None:
        return None

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        return self.server.options

    def remarks(self, model: ModelSpec) -> Sequence[str]:
        return ()

    def usual(self, model: ModelSpec) -> Mapping[str, float]:
        return self.server.usual

    async def held_besides(self, models: Sequence[ModelSpec]) -> Mapping[str, int]:
        await self._reach()
        if not self.server.tells_others:
            raise UnknownFailure(f"{self.server.name}: status 500")
        return dict(self.server.others)

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:
        await self._reach()
        return self.server.loras

    def weightless(self, model: ModelSpec) -> bool:
        return model.name in self.server.weightless

    def own_name(self, model: ModelSpec) -> str:
        return model.name

    async def probe(self) -> ServerInfo:
        await self._reach()
        if self.server.busy:
            raise Busy(f"{self.server.name}: status 429")
        gpu = self.server.gpu
        if not self.server.tells_memory:
            return ServerInfo(description="fake 1.0")
        return ServerInfo(description="fake 1.0", total_mb=gpu.total_mb, free_mb=gpu.free_mb)

    async def admit(self) -> None:
        await self._reach()
        if self.server.key_refused:
            raise KeyRefused(f"{self.server.name} refuses the key")

    async def sample(self, model: ModelSpec) -> str:
        await self._reach()
        return ""

    async def gone(self) -> None:
        left = asyncio.Event()
        self.server.watched.append(left)
        await left.wait()
        if self.dead:
            await asyncio.get_running_loop().create_future()

    async def verify(self, model: ModelSpec) -> None:
        await self._reach()

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        return ()

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        self.server.calls.append(f"run {prompt_of(work)}")
        await asyncio.sleep(0.01)
        await self.admit()
        if model.name not in self.server.memory | self.server.weightless:
            raise NotLoaded(f"{model.name} is not loaded on {self.server.name}")
        return await self._follow(self.server.accept(model.name, work), report)

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:
        await asyncio.sleep(0.01)
        await self._reach()
        attempt = self.server.attempts.get(work.key) if self.server.remembers else None
        return None if attempt is None else await self._follow(attempt, report)

    async def _follow(self, attempt: Attempt, report: Report) -> Fetch:
        if attempt.running and attempt.timer is not None:
            report(Progress(fraction=0.0))
        attempt.attended = True
        done = self.server.listen(attempt)
        if self.server.progress_every_s is not None:
            self.server.drip(attempt, report)
        try:
            await done
        except asyncio.CancelledError:
            if self.dead or self.left:
                attempt.attended = False
            else:
                self.server.interrupt(attempt)
            raise

        async def fetch() -> Output:
            self.server.calls.append(f"fetch {prompt_of(attempt.work)}")
            await asyncio.sleep(self.server.fetch_s)
            await self._reach()
            if attempt.forgotten:
                raise Unavailable(f"{self.server.name}: the result is gone")
            if self.server.fetch_errors:
                raise self.server.fetch_errors.popleft()
            return self.server.outputs(attempt.work) or output_of(attempt.work)

        return fetch

    async def load(self, model: ModelSpec) -> None:
        await self._reach()
        if model.name in self.server.memory:
            return
        loading = self.server.begin_load(model.name, self.server.size_of(model))
        try:
            await undisturbed(loading)
        except asyncio.CancelledError:
            if not self.dead and not self.server.stubborn:
                self.server.stop_load(model.name)
            raise

    async def unload(self, model: ModelSpec) -> None:
        server = self.server
        await self._reach()
        server.stop_load(model.name)
        gone = set(server.memory) if self.unloads_together else {model.name}
        busy = {attempt.model for attempt in server.running} & gone
        if busy:
            server.violations.append(f"unloaded {busy} while it ran")
        await asyncio.sleep(server.unload_s)
        for name in gone & server.memory:
            server.unloads.append((asyncio.get_running_loop().time(), name))
            server.evict(name)

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        await self._reach()
        if not self.server.tells_loaded:
            return None
        there = self.server.memory | self.server.weightless
        answer = frozenset(model.name for model in models) & there
        await asyncio.sleep(self.server.answer_s)
        return answer

    def leave(self) -> bool:
        self.left = self.server.remembers
        return self.left

    async def aclose(self) -> None:
        self.closed = True


class FakeProbe:
    """Measures the fake GPUs as NVML measures real ones."""

    def __init__(self, gpus: Mapping[str, FakeGpu]) -> None:
        self.gpus = gpus

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        gpu = self.gpus.get(host.name)
        return None if gpu is None else (gpu.total_mb, gpu.free_mb)


def _retrieve(done: asyncio.Future[None]) -> None:
    """Look at an outcome that no one may be listening for, so that asyncio does not complain."""
    if not done.cancelled():
        done.exception()


def _pass_on(done: asyncio.Future[None], heard: asyncio.Future[None]) -> None:
    if heard.done():
        return
    if done.cancelled():
        heard.cancel()
    elif (error := done.exception()) is not None:
        heard.set_exception(error)
    else:
        heard.set_result(None)
