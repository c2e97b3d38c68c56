"""What models, servers and hosts are, and how a model is divided among GPUs; pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from queueing.core.quiet_hours import QuietHours
from queueing.core.requests import Capability, Request, TextToImage, TextToVideo


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long a server may be silent, in seconds; `None` for no limit.

    `first_s` to the first sign of progress, `idle_s` between signs, `total_s` in all, `load_s`
    for a load.
    """

    load_s: float = 150.0
    first_s: float | None = 300.0
    idle_s: float | None = 120.0
    total_s: float | None = 1800.0


USUAL_S: Mapping[Capability, float] = {
    Capability.TEXT_TO_TEXT: 10.0,
    Capability.VISION: 10.0,
    Capability.TEXT_TO_IMAGE: 15.0,
    Capability.IMAGE_TO_IMAGE: 15.0,
    Capability.IMAGE_EDIT: 25.0,
    Capability.UPSCALE: 8.0,
    Capability.TEXT_TO_VIDEO: 150.0,
    Capability.IMAGE_TO_VIDEO: 150.0,
    Capability.TEXT_TO_AUDIO: 45.0,
    Capability.TEXT_TO_SPEECH: 5.0,
    Capability.SPEECH_TO_TEXT: 10.0,
    Capability.EMBEDDING: 0.5,
    Capability.IMAGE_EMBEDDING: 0.5,
}
"""How long a usual job takes, by kind, where nothing else is known: on a GPU for home use."""
LEAST_LOAD_S = 5.0
LOAD_MB_PER_S = 600.0  # of a SATA drive: half a gigabyte a second
USUAL_LOAD_S = 30.0  # of a model of unknown size


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """An entry of the catalog that a person can name.

    `backends` are the names of backends able to serve it, in order of preference. `vram_mb` is what
    a copy takes; None means "measure it on the first load", and until then it takes a host alone.
    `copies` is how many of it one host may hold, each on a server of its own.
    `enhance` names the text model that improves prompts for this one, None for no enhancement.
    `preload` is whether it is loaded at the start and kept; to a backend it says whether an admin
    `preload` loads it at the start and keeps it; a backend is told by it whether an admin wants
    that there. `load_s` and `service_s` are priors, replaced by what is learned; None for those of its kind and size. `idle_unload_s` is after how
    long without a job an idle copy leaves, `inf` for never, None for what its server or host says.
    `gpus` are the GPUs of its machine it takes, None for all that its server has; `split` is how it is
    divided among these, evenly without one. `options` are for the backend's kind alone (a workflow
    file, the server's own id of the model, …). `most` bounds what a request may ask for, by "pixels",
    "steps", "count", "seconds" and "frames". `discovered` is whether its servers offered it by
    themselves, so that others may serve it as well.
    """

    name: str
    backends: tuple[str, ...]
    capabilities: frozenset[Capability]
    aliases: tuple[str, ...] = ()
    vram_mb: int | None = None
    parallel: int = 1
    copies: int = 1
    load_s: float | None = None
    service_s: float | None = None
    max_attempts: int = 3
    max_waiting: int = 500
    preload: bool = False
    enhance: str | None = None
    idle_unload_s: float | None = None
    gpus: tuple[str, ...] | None = None
    split: tuple[float, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    discovered: bool = False

    @property
    def usual_service_s(self) -> float:
        """How long a job takes as configured, or usually for the slowest of its kinds."""
        if self.service_s is not None:
            return self.service_s
        return max((USUAL_S[able] for able in self.capabilities), default=USUAL_LOAD_S)

    @property
    def usual_load_s(self) -> float:
        """How long a load takes as configured, or usually for its size."""
        if self.load_s is not None:
            return self.load_s
        if self.vram_mb is None:
            return USUAL_LOAD_S
        return LEAST_LOAD_S + self.vram_mb / LOAD_MB_PER_S


EMBEDDING_S = 0.5
EMBEDDINGS_WAITING = 5000  # a document is hundreds of calls, and several people may send one


def embedding_spec(model: ModelSpec, *, but: Collection[str] = ()) -> ModelSpec:
    """Return a model with the usual values of one that only embeds, except for fields in `but`."""
    usual = {"service_s": EMBEDDING_S, "max_waiting": EMBEDDINGS_WAITING}
    return replace(model, **{name: value for name, value in usual.items() if name not in but})  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendSpec:
    """An inference server on a host.

    `parallel` bounds what it runs at once over all models; `serial` servers do one thing at a time,
    loads included. `max_models` is how many models it keeps at once (1 for a plain ComfyUI
    process), None for as many as fit. `offloads`: it can run models larger than its GPU, slowly,
    with parts in the machine's memory. `idle_unload_s` is that of its models that state none.
    `split` is how they are divided among its GPUs if it stands on several hosts, evenly without one.
    `options` are for the backend's kind alone.
    """

    name: str
    kind: str
    url: str = ""
    parallel: int = 64
    serial: bool = False
    max_models: int | None = None
    offloads: bool = False
    discover: bool = False
    idle_unload_s: float | None = None
    split: tuple[float, ...] = ()
    options: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its address as people may read it: without credentials, query and fragment."""
        whole = urlsplit(self.url)
        return urlunsplit((whole.scheme, whole.netloc.rpartition("@")[2], whole.path, "", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeSpec:
    """How a machine is woken over the network, and how long that takes until it is learned."""

    mac: str
    broadcast: str = "255.255.255.255"
    port: int = 9
    takes_s: float = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepSpec:
    """After how long without work a machine is put to sleep: by a command here, or by a webhook."""

    after_s: float
    command: tuple[str, ...] = ()
    webhook: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSpec:
    """A memory budget: one GPU, or a machine without one.

    The GPUs of a machine with several are hosts of their own, "machine/gpu"; a server that spans
    some of them is listed in `backends` of each. `margin` is the usable share of `vram_mb`. `gpu` names the local GPU for NVML (index or
    UUID), None where the GPU is elsewhere or there is none. `idle_unload_s` is that of models
    where neither they nor their server state one. `quiet` are the hours its owner wants it for.
    It is left to another program that holds as much of the GPU as `yields_above_mb`, None for never.
    """

    name: str
    vram_mb: int
    backends: tuple[BackendSpec, ...]
    machine: str = ""
    margin: float = 0.8
    gpu: str | None = None
    idle_unload_s: float | None = None
    quiet: QuietHours | None = None
    yields_above_mb: int | None = None
    wake: WakeSpec | None = None
    sleep: SleepSpec | None = None

    @property
    def usable_mb(self) -> int:
        """How much memory models may take together."""
        return int(self.vram_mb * self.margin)

    @property
    def machine_name(self) -> str:
        """What sleeps, wakes and is paused as one: the machine, or the host itself."""
        return self.machine or self.name


IDLE_UNLOAD_S = 1800.0  # on a GPU of this machine, which its owner wants for other things as well


Shares = tuple[tuple[str, int], ...]
"""MB by host, in the order of the machine's GPUs."""


def parts(
    hosts: Sequence[str],
    split: Sequence[float],
    chosen: Sequence[str] | None = None,
    chosen_split: Sequence[float] = (),
) -> Mapping[str, float]:
    """Return which part of a model lies on which of its server's hosts.

    Without a split they are equal. `chosen` are those of the hosts that this model takes, and
    `chosen_split` is its own split among them.
    """
    weights = dict(zip(hosts, split or [1.0] * len(hosts), strict=True))
    if chosen is not None:
        weights = {host: weights[host] for host in hosts if host in chosen}
    if chosen_split:
        weights = dict(zip(chosen or hosts, chosen_split, strict=True))
    whole = sum(weights.values())
    return {host: weights[host] / whole for host in hosts if host in weights}


def divided(size_mb: int, parts_of: Mapping[str, float]) -> Shares:
    """Return what a model takes on each host, rounded up."""
    return tuple((host, ceil(size_mb * part)) for host, part in parts_of.items())


def whole_mb(held: Mapping[str, int], parts_of: Mapping[str, float]) -> int:
    """Return the size at which each host's part is at least what the model holds there."""
    return max(ceil(mb / parts_of[host]) for host, mb in held.items())


def together(hosts: Sequence[str]) -> str:
    """Name all hosts that one copy lies on, for people."""
    return " + ".join(hosts)


FAR = 2  # times what is usual


def is_far_above(request: Request, usual: Mapping[str, float]) -> bool:
    """Return whether a lack of memory is put down to a request, by the pixels it makes at once.

    `usual` are the numbers its model works with where a request names none, as far as known.
    """
    if isinstance(request, TextToVideo):  # none is too long where the usual length is unknown
        usual = {"seconds": request.seconds or 1, **usual}
    return work(request, usual) > FAR * usual_pixels(request, usual)


def usual_pixels(request: Request, usual: Mapping[str, float]) -> float:
    """Return the pixels that a model draws where a request names no sides; 0 if it draws nothing."""
    width, height = request.usual_sides
    return usual.get("width", width) * usual.get("height", height)


def pixels(request: TextToImage | TextToVideo, usual: Mapping[str, float]) -> float:
    """Return the pixels of one image or frame that a request asks for."""
    width, height = request.usual_sides
    return (request.width or usual.get("width", width)) * (
        request.height or usual.get("height", height)
    )


def work(request: Request, usual: Mapping[str, float]) -> float:
    """Return the pixels that a request makes at once: of a video, those of one frame.

    They grow with its length, in units of the usual one or of a second. 0 if it draws nothing.
    """
    match request:
        case TextToImage():
            return pixels(request, usual) * request.count
        case TextToVideo():
            seconds = usual.get("seconds", 1)
            return pixels(request, usual) * (request.seconds or seconds) / seconds
        case _:
            return 0.0
