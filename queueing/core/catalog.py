"""The models, hosts and backends of an installation, and how to look them up by name.

Built once from the configuration (and from discovery); plain values that know no server.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from queueing.core.divided import Shares, divided, parts
from queueing.core.errors import NotCapable, UnknownModel
from queueing.core.near import near
from queueing.core.quiet_hours import QuietHours
from queueing.core.requests import Capability


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
"""How long a usual job takes, by kind, where nothing else is known: on a card for home use."""
LEAST_LOAD_S, LOAD_MB_PER_S = 5.0, 600.0  # a SATA drive; half a gigabyte a second
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
    `gpus` are the cards of its machine it takes, None for all that its server has; `split` is how it is
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
    process), None for as many as fit. `offloads`: it can run models larger than its card, slowly,
    with parts in the machine's memory. `idle_unload_s` is that of its models that state none.
    `split` is how they are divided among its cards if it stands on several hosts, evenly without one.
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
    """A memory budget: one card, or a machine without one.

    The cards of a machine with several are hosts of their own, "machine/card"; a server that spans
    some of them is listed in `backends` of each. `margin` is the usable share of `vram_mb`. `gpu` names the local card for NVML (index or
    UUID), None where the card is elsewhere or there is none. `idle_unload_s` is that of models
    where neither they nor their server state one. `quiet` are the hours its owner wants it for.
    It is left to another program that holds as much of the card as `yields_above_mb`, None for never.
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


IDLE_UNLOAD_S = 1800.0  # on a card of this machine, which its owner wants for other things as well
LEAST_MISSPELT, MOST_MISSPELT = 3, 40  # letters of a word that may be a misspelt name


class Catalog:
    """Finds models by name or alias, and where they can run. Immutable.

    Models that are `retired` can no longer be asked for, but jobs of theirs may still run.
    """

    def __init__(
        self,
        models: Iterable[ModelSpec],
        hosts: Iterable[HostSpec],
        retired: Iterable[ModelSpec] = (),
    ) -> None:
        self.models: Mapping[str, ModelSpec] = {model.name: model for model in models}
        self.retired: Mapping[str, ModelSpec] = {
            model.name: model for model in retired if model.name not in self.models
        }
        self.hosts: Mapping[str, HostSpec] = {host.name: host for host in hosts}
        self.backends: Mapping[str, BackendSpec] = {
            backend.name: backend for host in self.hosts.values() for backend in host.backends
        }
        self.hosts_of = _hosts_of(self.hosts.values())  # by backend; those that span have several
        self.host_of: Mapping[str, str] = {name: on[0] for name, on in self.hosts_of.items()}
        self.machines: dict[str, tuple[HostSpec, ...]] = {}  # by name: all cards of each
        for host in self.hosts.values():
            known = self.machines.get(host.machine_name, ())
            self.machines[host.machine_name] = (*known, host)
        self.has_cards = any(host.machine for host in self.hosts.values())
        self.widest = max((model.parallel for model in self.models.values()), default=1)
        self._by_word: dict[str, ModelSpec] = {}
        for model in self.models.values():
            for word in (model.name, *model.aliases):
                self._by_word.setdefault(word.casefold(), model)

    def spec_of(self, model: str) -> ModelSpec:
        """Return a model by its own name, one that is retired as well."""
        return self.models.get(model) or self.retired[model]

    @property
    def host_names(self) -> tuple[str, ...]:
        """What a host can be called: by its name, and all cards of a machine by that of the machine."""
        return tuple(
            name
            for machine, cards in self.machines.items()
            for name in dict.fromkeys((machine, *(card.name for card in cards)))
        )

    def place_of(self, backend: str) -> str:
        """Return where a backend is: its host, or the machine of which it spans cards."""
        hosts = self.hosts_of[backend]
        return hosts[0] if len(hosts) == 1 else self.hosts[hosts[0]].machine_name

    def cards(self, name: str) -> tuple[str, ...]:
        """Return the hosts a name means: one, or all cards of a machine; none for an unknown name."""
        if name in self.hosts:
            return (name,)
        return tuple(host.name for host in self.machines.get(name, ()))

    def parts_of(self, model: ModelSpec, backend: str) -> Mapping[str, float]:
        """Return which part of a model lies on which host, by the backend it runs on."""
        hosts = self.hosts_of[backend]
        if not self.has_cards or not (machine := self.hosts[hosts[0]].machine):
            return {hosts[0]: 1.0}
        chosen = None if model.gpus is None else [f"{machine}/{card}" for card in model.gpus]
        return parts(hosts, self.backends[backend].split, chosen, model.split)

    def spread(self, mb: int, backend: str) -> Shares:
        """Return how much of so many MB lies on each host of a backend, as it divides its models."""
        return divided(mb, parts(self.hosts_of[backend], self.backends[backend].split))

    def cards_of(self, model: str, backend: str) -> tuple[str, ...]:
        """Return the hosts that a model lies on at a backend; none for an unknown backend."""
        if not self.has_cards or len(self.hosts_of.get(backend, ())) < 2:
            return self.hosts_of.get(backend, ())
        return tuple(self.parts_of(self.spec_of(model), backend))

    def fits(self, model: ModelSpec, backend: str) -> bool:
        """Return whether a model of known size fits on a backend's hosts if they are empty."""
        shares = divided(model.vram_mb or 0, self.parts_of(model, backend))
        return all(mb <= self.hosts[host].usable_mb for host, mb in shares)

    def served_by(self, backend: str) -> tuple[ModelSpec, ...]:
        """Return the models a backend can serve, in the configuration's order."""
        return tuple(model for model in self.models.values() if backend in model.backends)

    def idle_unload_s(self, model: str, backend: str) -> float:
        """Return after how long without a job a copy leaves, `inf` for never; the nearest counts."""
        host = self.hosts[self.host_of[backend]]
        stated = (self.spec_of(model), self.backends[backend], host)
        usual = inf if host.gpu is None else IDLE_UNLOAD_S
        return next(
            (each.idle_unload_s for each in stated if each.idle_unload_s is not None), usual
        )

    def find(self, word: str) -> ModelSpec | None:
        """Return the model of that name or alias, ignoring case, or None."""
        return self.models.get(word) or self._by_word.get(word.casefold())

    def named(self, word: str) -> ModelSpec:
        """Return the model of that name or alias; raise `UnknownModel` with similar names."""
        model = self.find(word)
        if model is None:
            raise UnknownModel(word, self.nearest(word))
        return model

    def require(self, word: str, capability: Capability) -> ModelSpec:
        """Return the model of that name or alias if it is capable; raise `Refused` otherwise."""
        model = self.find(word)
        if model is None:
            raise UnknownModel(word, self.nearest(word, capability), self.able(capability))
        if capability not in model.capabilities:
            raise NotCapable(model.name, capability, self.able(capability))
        return model

    def able(self, capability: Capability) -> tuple[str, ...]:
        """Return the names of all models with that capability, in the configuration's order."""
        return tuple(m.name for m in self.models.values() if capability in m.capabilities)

    def nearest(self, word: str, capability: Capability | None = None) -> tuple[str, ...]:
        """Return up to three names a person may have meant."""
        words = [
            known
            for known, model in self._by_word.items()
            if capability is None or capability in model.capabilities
        ]
        close = near(word, words, most=3, alike=0.5)
        return tuple(dict.fromkeys(self._by_word[known].name for known in close))

    def misspelt(self, word: str, capability: Capability) -> str | None:
        """Return the capable model whose name or alias differs from a word by a letter or two.

        Returns None for a model's own name, its plural, and words and names too short to compare.
        """
        word = word.casefold()
        if not LEAST_MISSPELT <= len(word) <= MOST_MISSPELT or word in self._by_word:
            return None
        words = [
            known
            for known, model in self._by_word.items()
            if len(known) > LEAST_MISSPELT
            and known != word.removesuffix("s")
            and capability in model.capabilities
        ]
        close = near(word, words, alike=0.75)
        return self._by_word[close[0]].name if close else None


def _hosts_of(hosts: Iterable[HostSpec]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        for backend in host.backends:
            found[backend.name] = (*found.get(backend.name, ()), host.name)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What can be asked for: models, hosts, and what each model honours.

    `options` are, by model, the fields of its requests it honours wherever it runs, None for all.
    `usual` are the numbers it works with where a request names none, such as its width, as far as
    they are known.
    """

    models: tuple[ModelSpec, ...]
    hosts: tuple[HostSpec, ...]
    options: Mapping[str, frozenset[str] | None]
    usual: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    catalog: Catalog = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make what is looked up in."""
        object.__setattr__(self, "catalog", Catalog(self.models, self.hosts))

    def options_of(self, word: str) -> frozenset[str] | None:
        """Return what the model of that name or alias honours. Raises `UnknownModel`."""
        return self.options[self.catalog.named(word).name]
