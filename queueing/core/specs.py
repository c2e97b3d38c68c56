"""Models, servers and hosts as configured, and how a model is divided among GPUs. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from queueing.core.quiet_hours import QuietHours
from queueing.core.requests import Capability, Request, TextToImage, TextToVideo


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """The timeouts of a server, in seconds; None for no limit.

    `first_s` is the time to the first sign of progress, `idle_s` the time between signs, `total_s`
    the whole attempt, and `load_s` a load.
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
"""Seconds of a usual job on a consumer GPU, by capability, if nothing else is known."""
LEAST_LOAD_S = 5.0
LOAD_MB_PER_S = 600.0  # about the rate of a SATA drive
USUAL_LOAD_S = 30.0  # for a model of unknown size


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """An entry of the catalog that a person can name.

    - `backends` are the names of backends that can serve it, in order of preference.
    - `vram_mb` is the memory of a copy. None means that the first load measures it; until then the
      model takes a host alone.
    - `copies` is how many copies one host may hold, each on a different server.
    - `enhance` names the text model that enhances prompts for this one, None for no enhancement.
    - `preload` loads it at the start and keeps it loaded. In the spec given to a backend, it says
      whether an admin wants it preloaded there.
    - `load_s` and `service_s` are priors, replaced by learned times. None means the usual times for
      its capabilities and size.
    - `idle_unload_s` is after how long without a job a copy is unloaded: `inf` for never, None for
      the value of its server or host.
    - `gpus` are the GPUs of its machine it uses, None for all that its server has. `split` divides
      it among them, evenly if empty.
    - `options` are interpreted by the backend's kind (a workflow file, the server's model id, …).
    - `most` limits what a request may ask for, by "pixels", "steps", "count", "seconds" and
      "frames".
    - `discovered` is whether its servers were found to offer it, so that other servers may join
      them.
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
        """Seconds a job takes as configured, or usually for the slowest of its capabilities."""
        if self.service_s is not None:
            return self.service_s
        return max((USUAL_S[able] for able in self.capabilities), default=USUAL_LOAD_S)

    @property
    def usual_load_s(self) -> float:
        """Seconds a load takes as configured, or usually for its size."""
        if self.load_s is not None:
            return self.load_s
        if self.vram_mb is None:
            return USUAL_LOAD_S
        return LEAST_LOAD_S + self.vram_mb / LOAD_MB_PER_S


EMBEDDING_S = 0.5
EMBEDDINGS_WAITING = 5000  # a document takes hundreds of calls, and several people may send one


def embedding_spec(model: ModelSpec, *, but: Collection[str] = ()) -> ModelSpec:
    """Return an embedding-only model with the usual values, except for the fields in `but`."""
    usual = {"service_s": EMBEDDING_S, "max_waiting": EMBEDDINGS_WAITING}
    return replace(model, **{name: value for name, value in usual.items() if name not in but})  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendSpec:
    """An inference server on a host.

    - `parallel` limits what it runs at once over all models.
    - `serial` servers do one thing at a time, loads included.
    - `max_models` is how many models it keeps at once (1 for a plain ComfyUI process), None for as
      many as fit.
    - `offloads`: it can run models larger than its GPU, slowly, with parts in main memory.
    - `idle_unload_s` applies to models that set none.
    - `split` divides models among its GPUs if it spans several hosts, evenly if empty.
    - `proxy` is the HTTP proxy through which it is reached.
    - `options` are interpreted by the backend's kind.
    """

    name: str
    kind: str
    url: str = ""
    proxy: str | None = None
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
    """How to wake a machine over the network, and how long that takes until it is learned."""

    mac: str
    broadcast: str = "255.255.255.255"
    port: int = 9
    takes_s: float = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepSpec:
    """When to put a machine to sleep, and how: by a local command, or by a webhook.

    `after_s` is in seconds without work.
    """

    after_s: float
    command: tuple[str, ...] = ()
    webhook: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSpec:
    """A memory budget: one GPU, or a machine without one.

    - Each GPU of a machine with several is a separate host, "machine/gpu". A server that spans some
      of them is listed in `backends` of each.
    - `margin` is the usable share of `vram_mb`.
    - `gpu` is the local GPU for NVML (index or UUID), None if it is on another machine or there is
      none.
    - `idle_unload_s` applies to models if neither they nor their server set one.
    - `quiet` are the hours its owner wants it for.
    - `yields_above_mb`: the host yields its GPU to another program that holds this much of its
      memory. None for never.
    - `loads_ahead` is whether it loads models before anybody requests them.
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
    loads_ahead: bool = False

    @property
    def usable_mb(self) -> int:
        """Memory in MB that all models together may use."""
        return int(self.vram_mb * self.margin)

    @property
    def machine_name(self) -> str:
        """What sleeps, wakes and is paused as a whole: the machine, or the host itself."""
        return self.machine or self.name


IDLE_UNLOAD_S = 1800.0  # for a GPU of this machine, whose owner also uses it for other things


Shares = tuple[tuple[str, int], ...]
"""MB by host, in the order of the machine's GPUs."""


def parts(
    hosts: Sequence[str],
    split: Sequence[float],
    chosen: Sequence[str] | None = None,
    chosen_split: Sequence[float] = (),
) -> Mapping[str, float]:
    """Return each host's share (0 to 1) of a model.

    Shares are equal without a split. `chosen` are the hosts that this model uses, and
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
    """Return the MB a model takes on each host, rounded up."""
    return tuple((host, ceil(size_mb * part)) for host, part in parts_of.items())


def whole_mb(held: Mapping[str, int], parts_of: Mapping[str, float]) -> int:
    """Return the smallest model size whose parts cover the MB it holds on each host."""
    return max(ceil(mb / parts_of[host]) for host, mb in held.items())


def together(hosts: Sequence[str]) -> str:
    """Join the names of all hosts that one copy uses, for people."""
    return " + ".join(hosts)


FAR = 2  # times the usual pixels


def is_far_above(request: Request, usual: Mapping[str, float]) -> bool:
    """Return whether a request is so large that it may itself be why memory ran out.

    Compares the pixels made at once. `usual` are the model's default numbers, as far as they are
    known.
    """
    if isinstance(request, TextToVideo):  # no length is too long if the usual length is unknown
        usual = {"seconds": request.seconds or 1, **usual}
    return work(request, usual) > FAR * usual_pixels(request, usual)


def usual_pixels(request: Request, usual: Mapping[str, float]) -> float:
    """Return the pixels a model draws by default; 0 if it draws nothing."""
    width, height = request.usual_sides
    return usual.get("width", width) * usual.get("height", height)


def pixels(request: TextToImage | TextToVideo, usual: Mapping[str, float]) -> float:
    """Return the pixels of one image or frame that a request asks for."""
    width, height = sides(request, usual)
    return width * height


def sides(request: TextToImage | TextToVideo, usual: Mapping[str, float]) -> tuple[float, float]:
    """Return the width and height of one image or frame that a request asks for."""
    width, height = request.usual_sides
    return (
        request.width or usual.get("width", width),
        request.height or usual.get("height", height),
    )


def frames(
    usual: Mapping[str, float], seconds: float | None = None, fps: float | None = None
) -> float | None:
    """Return how many frames a video has with these options, or None if that is unknown.

    If the model's default is a number of frames, a different rate alone does not change it.
    """
    if seconds is None and "frames" in usual:
        return usual["frames"]
    length, rate = seconds or usual.get("seconds"), fps or usual.get("fps")
    return None if length is None or rate is None else length * rate


def work(request: Request, usual: Mapping[str, float]) -> float:
    """Return the work of a request in pixels, 0 if nothing is drawn.

    For images, it is the pixels of all of them. For a video, it is the pixels of one frame times
    its length, relative to the usual length if that is known, else in seconds.
    """
    match request:
        case TextToImage():
            return pixels(request, usual) * request.count
        case TextToVideo():
            seconds = usual.get("seconds", 1)
            return pixels(request, usual) * (request.seconds or seconds) / seconds
        case _:
            return 0.0


LONGEST_NAME = 200  # characters of a name that is understood
_VARIANT = re.compile(
    r"([:@][\w.-]*|\.(gguf|safetensors|ckpt)"
    r"|[-_.](i?q\d\w*|f16|bf16|fp16|fp8|int[48]|[48]bit|gguf|awq|gptq|mlx))$"
)
_NAME = re.compile(r"[a-z0-9][\w.@:/+-]*[/:@][\w.@:/+-]+")
_SIZE_OR_KIND = re.compile(r"(?<![a-z0-9.])\d+(\.\d+)?b(?![a-z0-9])|[-_.:@]i?q\d_\w|gguf|:latest$")


def other_names(models: Iterable[ModelSpec]) -> Mapping[str, tuple[str, ...]]:
    """Return the models that each further name fits, in lower case.

    A model answers to its server's name for it, without folders and without its variant. What fits
    the whole name of one model is not a short name of another.
    """
    whole: defaultdict[str, dict[str, None]] = defaultdict(dict)
    short: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for model in models:
        for name in {model.name, str(model.options.get("model") or model.name)}:
            for end in _ends(as_written(name)[:LONGEST_NAME]):
                whole[end][model.name] = None
                short[_without_variant(end)][model.name] = None
    return {name: tuple(fits) for name, fits in (short | whole).items()}


def as_written(word: str) -> str:
    """Return a name in lower case and with the separator that servers other than Windows use."""
    return word.replace("\\", "/").casefold()


def is_name_of_model(word: str) -> bool:
    """Return whether a word can only be meant as a model's name, as servers write them.

    Such a name has a folder or a variant, and a size or a quantisation: `qwen/qwen3-8b`.
    """
    name = as_written(word)
    return (
        len(name) <= LONGEST_NAME
        and "://" not in name
        and _NAME.fullmatch(name) is not None
        and _SIZE_OR_KIND.search(name) is not None
    )


def _without_variant(name: str) -> str:
    while shorter := _VARIANT.sub("", name):
        if shorter == name:
            break
        name = shorter
    return name


def _ends(name: str) -> list[str]:
    """Return a name with all its folders, with fewer, and alone."""
    parts = name.strip("/").split("/")
    return ["/".join(parts[at:]) for at in range(len(parts))]
