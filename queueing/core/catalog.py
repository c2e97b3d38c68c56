"""The models, hosts and backends of an installation, and how to look them up by name.

A catalog is built from the configuration and from discovery. It holds plain values and contacts no
server.

Discovered servers of one kind serve a model together if they have the same file with the same
capabilities and size. If a model's name is already taken by a different model, it is offered under
its name combined with its server's name.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from math import inf

from queueing.core.errors import NotCapable, UnknownModel
from queueing.core.requests import Capability
from queueing.core.specs import (
    IDLE_UNLOAD_S,
    BackendSpec,
    HostSpec,
    ModelSpec,
    Shares,
    as_written,
    divided,
    is_name_of_model,
    other_names,
    parts,
)

_ALIKE = 0.6  # share of two words' letters that must agree
_SYNONYMS = {
    "picture": "image",
    "pictures": "images",
    "film": "video",
    "films": "videos",
    "card": "gpu",
    "cards": "gpus",
    "line": "queue",
    "lines": "queues",
    "in_line_per_person": "queued_per_person",
    "deep_line": "long_queue",
}


def near(word: str, known: Iterable[str], *, most: int = 1, alike: float = _ALIKE) -> list[str]:
    """Return the known names most similar to a word, ignoring case, the nearest first.

    If a known name is a synonym, such as `image_workflow` for `picture_workflow`, only that name is
    returned.
    """
    names = {name.casefold(): name for name in known}
    if (same := in_our_words(word.casefold())) in names:
        return [names[same]]
    close = get_close_matches(word.casefold(), names, n=most, cutoff=alike)
    return [names[each] for each in close]


def in_our_words(name: str) -> str:
    """Replace words in a name by those that settings and fields use: `images` for `pictures`."""
    parts = [_SYNONYMS.get(part, part) for part in name.split("_")]
    return _SYNONYMS.get(name) or "_".join(parts)


def meant_or_all(word: str, names: Iterable[str], *, all_are: str = "there are") -> str:
    """Return "did you mean …?" with the likely name, or all names introduced by `all_are`."""
    known = sorted(names)
    meant = near(word, known)
    return f"did you mean {meant[0]}?" if meant else f"{all_are} {', '.join(known)}"


NEAREST = 3  # suggestions for an unknown name
LEAST_MISSPELT, MOST_MISSPELT = 3, 40  # letters of a word that is checked for misspelling


class Catalog:
    """Finds models by name or alias, and where they can run. Immutable.

    `retired` models can no longer be requested, but jobs for them may still run.
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
        self.hosts_of = _hosts_of(self.hosts.values())  # by backend; several if it spans GPUs
        self.host_of: Mapping[str, str] = {name: on[0] for name, on in self.hosts_of.items()}
        self.machines: dict[str, tuple[HostSpec, ...]] = {}  # by name: all GPUs of each
        for host in self.hosts.values():
            known = self.machines.get(host.machine_name, ())
            self.machines[host.machine_name] = (*known, host)
        self.has_gpus = any(host.machine for host in self.hosts.values())
        self.widest = max((model.parallel for model in self.models.values()), default=1)
        self._by_word: dict[str, ModelSpec] = {}
        for model in self.models.values():
            for word in (model.name, *model.aliases):
                self._by_word.setdefault(word.casefold(), model)

    def spec_of(self, model: str) -> ModelSpec:
        """Return a model by its own name, retired models included."""
        return self.models.get(model) or self.retired[model]

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names that refer to hosts: a host's own, and a machine's, which means all its GPUs."""
        return tuple(
            name
            for machine, gpus in self.machines.items()
            for name in dict.fromkeys((machine, *(gpu.name for gpu in gpus)))
        )

    def place_of(self, backend: str) -> str:
        """Return where a backend runs: its host, or the machine whose GPUs it spans."""
        hosts = self.hosts_of[backend]
        return hosts[0] if len(hosts) == 1 else self.hosts[hosts[0]].machine_name

    def gpus(self, name: str) -> tuple[str, ...]:
        """Return the hosts a name refers to: one, or all GPUs of a machine.

        Empty for an unknown name.
        """
        if name in self.hosts:
            return (name,)
        return tuple(host.name for host in self.machines.get(name, ()))

    def parts_of(self, model: ModelSpec, backend: str) -> Mapping[str, float]:
        """Return each host's share (0 to 1) of a model on a backend."""
        hosts = self.hosts_of[backend]
        if not self.has_gpus or not (machine := self.hosts[hosts[0]].machine):
            return {hosts[0]: 1.0}
        chosen = None if model.gpus is None else [f"{machine}/{gpu}" for gpu in model.gpus]
        return parts(hosts, self.backends[backend].split, chosen, model.split)

    def spread(self, mb: int, backend: str) -> Shares:
        """Divide a size in MB among the hosts of a backend, as the backend divides its models."""
        return divided(mb, parts(self.hosts_of[backend], self.backends[backend].split))

    def gpus_of(self, model: str, backend: str) -> tuple[str, ...]:
        """Return the hosts whose memory a model uses on a backend. Empty for an unknown backend."""
        if not self.has_gpus or len(self.hosts_of.get(backend, ())) < 2:
            return self.hosts_of.get(backend, ())
        return tuple(self.parts_of(self.spec_of(model), backend))

    def fits(self, model: ModelSpec, backend: str) -> bool:
        """Return whether a model of known size fits on a backend's hosts when they are empty."""
        shares = divided(model.vram_mb or 0, self.parts_of(model, backend))
        return all(mb <= self.hosts[host].usable_mb for host, mb in shares)

    def served_by(self, backend: str) -> tuple[ModelSpec, ...]:
        """Return the models a backend can serve, in the configuration's order."""
        return tuple(model for model in self.models.values() if backend in model.backends)

    @cached_property
    def loads_ahead(self) -> bool:
        """Whether a host loads models before anybody requests them."""
        return any(host.loads_ahead for host in self.hosts.values())

    def idle_unload_s(self, model: str, backend: str) -> float:
        """Return after how many idle seconds a copy is unloaded, `inf` for never.

        The model's own setting takes precedence, then its backend's, then its host's.
        """
        host = self.hosts[self.host_of[backend]]
        stated = (self.spec_of(model), self.backends[backend], host)
        usual = inf if host.gpu is None else IDLE_UNLOAD_S
        return next(
            (each.idle_unload_s for each in stated if each.idle_unload_s is not None), usual
        )

    def find(self, word: str) -> ModelSpec | None:
        """Return the model of that name or alias, ignoring case, or None.

        The last names tried are those of `other_names`, if they fit one model.
        """
        found = self.models.get(word) or self._by_word.get(word.casefold())
        fits = () if found else self._others.get(as_written(word), ())
        return self.models[fits[0]] if len(fits) == 1 else found

    def is_meant(self, word: str) -> bool:
        """Return whether the first word of a text is the name of a model, known or unknown.

        A plain word or a number may be meant literally, unless it is a name or an alias.
        """
        if word.casefold() in self._by_word or is_name_of_model(word):
            return True
        mixed = len(word) >= LEAST_MISSPELT and not (word.isalpha() or word.isdecimal())
        return mixed and as_written(word) in self._others

    @cached_property
    def _others(self) -> Mapping[str, tuple[str, ...]]:
        return other_names(self.models.values())

    def named(self, word: str) -> ModelSpec:
        """Return the model of that name or alias. Raises `UnknownModel` with similar names."""
        model = self.find(word)
        if model is None:
            raise UnknownModel(word, self.nearest(word))
        return model

    def require(self, word: str, capability: Capability) -> ModelSpec:
        """Return the model of that name or alias if it has the capability. Raises `Refused`."""
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
        fits = self._others.get(as_written(word), ())
        if able := [
            n for n in fits if capability is None or capability in self.models[n].capabilities
        ]:
            return tuple(able[:NEAREST])
        words = [
            known
            for known, model in self._by_word.items()
            if capability is None or capability in model.capabilities
        ]
        close = near(word, words, most=NEAREST, alike=0.5)
        return tuple(dict.fromkeys(self._by_word[known].name for known in close))

    def misspelt(self, word: str, capability: Capability) -> str | None:
        """Return the capable model that a word is a short name of, or almost a name or an alias.

        Returns None if the word is a model's name or its plural, or if either is too short to
        compare. Few people mistype a first letter, so "what" is not compared with "chat".
        """
        word = word.casefold()
        fits = self._others.get(as_written(word), ())
        if not LEAST_MISSPELT <= len(word) <= MOST_MISSPELT or word in self._by_word:
            return None
        words = [
            known
            for known, model in self._by_word.items()
            if len(known) > LEAST_MISSPELT
            and known != word.removesuffix("s")
            and known[0] == word[0]
            and capability in model.capabilities
        ]
        able = [name for name in fits if capability in self.models[name].capabilities]
        close = [] if able else near(word, words, alike=0.75)
        return able[0] if able else self._by_word[close[0]].name if close else None


Offers = Callable[[Catalog, str], bool]
"""Returns whether anybody may request a model of a catalog."""


def _hosts_of(hosts: Iterable[HostSpec]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        for backend in host.backends:
            found[backend.name] = (*found.get(backend.name, ()), host.name)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What can be requested: models, hosts, and the fields each model honours.

    `options` maps each model to the request fields that it honours on every backend, None for all.
    `usual` maps each model to its known default numbers, such as the width.
    """

    models: tuple[ModelSpec, ...]
    hosts: tuple[HostSpec, ...]
    options: Mapping[str, frozenset[str] | None]
    usual: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    catalog: Catalog = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the lookup tables."""
        object.__setattr__(self, "catalog", Catalog(self.models, self.hosts))

    def options_of(self, word: str) -> frozenset[str] | None:
        """Return the fields the model of that name or alias honours. Raises `UnknownModel`."""
        return self.options[self.catalog.named(word).name]

    def honours(self, word: str, option: str) -> bool:
        """Return whether a model honours a request field; True for a model that is gone."""
        model = self.catalog.find(word)
        takes = None if model is None else self.options.get(model.name)
        return takes is None or option in takes


ALIKE = 0.1  # relative difference in size at which two servers may still have the same file


def with_found(known: Catalog, found: Iterable[ModelSpec]) -> tuple[ModelSpec, ...]:
    """Return the models of a catalog followed by the discovered ones.

    The configuration takes precedence: configured models stay unchanged. A discovered model is
    skipped if its server already serves a model of that name.
    """
    joined = _Joined(known)
    for model in found:
        if known.backends.keys() >= set(model.backends):  # its server may be gone by now
            joined.add(model)
    return tuple(joined.models.values())


class _Joined:
    """Models by name, while others are added."""

    def __init__(self, known: Catalog) -> None:
        self.models = dict(known.models)
        self._known = known
        self._names: dict[str, str] = {}  # every name and alias, as people may type it
        self._files: dict[str, list[str]] = defaultdict(list)  # names by the file they load
        for model in known.models.values():
            for word in (model.name, *model.aliases):
                self._names.setdefault(word.casefold(), model.name)
            self._files[_file(model)].append(model.name)

    def add(self, model: ModelSpec) -> None:
        """Add a model's server to an existing model of the same file, or add a new model."""
        (backend,) = model.backends
        named = self._named(model.name)
        alike = [self.models[name] for name in self._files[_file(model)]]
        if any(backend in each.backends for each in (*alike, *([named] if named else []))):
            return
        copy = next((each for each in alike if self._is_copy(each, model)), None)
        if copy is not None:
            parallel = min(copy.parallel, model.parallel)
            both = (*copy.backends, backend)
            self.models[copy.name] = replace(copy, backends=both, parallel=parallel)
            return
        name = next(name for name in _names(model.name, backend) if self._named(name) is None)
        self.models[name] = replace(model, name=name, discovered=True)
        self._names[name.casefold()] = name
        self._files[_file(model)].append(name)

    def _named(self, word: str) -> ModelSpec | None:
        name = self._names.get(word.casefold())
        return None if name is None else self.models[name]

    def _is_copy(self, same: ModelSpec, model: ModelSpec) -> bool:
        backends = self._known.backends
        kinds = {backends[name].kind for name in (*same.backends, *model.backends)}
        return (
            same.discovered
            and len(kinds) == 1
            and same.capabilities == model.capabilities
            and _are_alike(same.vram_mb, model.vram_mb)
        )


def _file(model: ModelSpec) -> str:
    """Return the id that servers are sent for a model, in a comparable form."""
    return repr(sorted(model.options.items()) or model.name)


def _names(name: str, backend: str) -> Iterator[str]:
    """Yield possible names for a model, in order of preference."""
    yield name
    yield f"{name}-{backend}"
    for number in itertools.count(2):
        yield f"{name}-{backend}-{number}"


def _are_alike(one_mb: int | None, other_mb: int | None) -> bool:
    if one_mb is None or other_mb is None:
        return one_mb is other_mb
    return abs(one_mb - other_mb) <= ALIKE * max(one_mb, other_mb)
