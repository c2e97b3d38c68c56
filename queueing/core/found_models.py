"""Joins what servers offer by themselves to a catalog. Pure.

Servers of one kind that have the same file, with the same abilities and size, serve it together.
Another model of a name that is taken is offered as well, under its name and that of its server.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from queueing.core.catalog import Catalog, ModelSpec

ALIKE = 0.1  # share by which the sizes of one file may differ, as two servers tell them


def with_found(known: Catalog, found: Iterable[ModelSpec]) -> tuple[ModelSpec, ...]:
    """Return the models of a catalog and those found, in this order.

    What the configuration names stays as it is; what a server offers under a name that it serves
    already is that model.
    """
    joined = _Joined(known)
    for model in found:
        if known.backends.keys() >= set(model.backends):  # its server may be gone meanwhile
            joined.add(model)
    return tuple(joined.models.values())


class _Joined:
    """Models by name, while others are added."""

    def __init__(self, known: Catalog) -> None:
        self.models = dict(known.models)
        self._known = known
        self._names: dict[str, str] = {}  # by everything models are called, as people may write it
        self._files: dict[str, list[str]] = defaultdict(list)  # names by what is behind them
        for model in known.models.values():
            for word in (model.name, *model.aliases):
                self._names.setdefault(word.casefold(), model.name)
            self._files[_file(model)].append(model.name)

    def add(self, model: ModelSpec) -> None:
        """Have a model served by the servers that have it, unless they do already."""
        (backend,) = model.backends
        named = self._under(model.name)
        alike = [self.models[name] for name in self._files[_file(model)]]
        if any(backend in each.backends for each in (*alike, *([named] if named else []))):
            return
        copy = next((each for each in alike if self._is_copy(each, model)), None)
        if copy is not None:
            parallel = min(copy.parallel, model.parallel)
            both = (*copy.backends, backend)
            self.models[copy.name] = replace(copy, backends=both, parallel=parallel)
            return
        name = next(name for name in _names(model.name, backend) if self._under(name) is None)
        self.models[name] = replace(model, name=name, discovered=True)
        self._names[name.casefold()] = name
        self._files[_file(model)].append(name)

    def _under(self, word: str) -> ModelSpec | None:
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
    """Return what a server is asked for, in a form that can be compared."""
    return repr(sorted(model.options.items()) or model.name)


def _names(name: str, backend: str) -> Iterator[str]:
    """Yield the names that a model may get, in the order of preference."""
    yield name
    yield f"{name}-{backend}"
    for number in itertools.count(2):
        yield f"{name}-{backend}-{number}"


def _are_alike(one_mb: int | None, other_mb: int | None) -> bool:
    if one_mb is None or other_mb is None:
        return one_mb is other_mb
    return abs(one_mb - other_mb) <= ALIKE * max(one_mb, other_mb)
