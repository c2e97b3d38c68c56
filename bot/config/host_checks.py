"""Checks hosts with several GPUs, and that no GPU, server, address or model is configured twice."""

from collections.abc import Hashable, Iterator, Sequence
from urllib.parse import urlsplit

from backends.registry import connect
from bot.config.config import Config
from bot.config.hosts import BackendConfig, HostConfig
from bot.config.reading.yaml_reader import ConfigProblem, Path
from bot.config.sections import ModelConfig
from bot.http.addresses import host_and_port, is_every_address, is_loopback
from queueing.core.catalog import Catalog, meant_or_all
from queueing.core.specs import HostSpec, ModelSpec, divided

_ON_ONE_GPU = frozenset({"comfyui"})


def gpu_problems(config: Config) -> Iterator[ConfigProblem]:
    """Return servers and models that name missing GPUs or divide models wrongly."""
    for host_name, host in config.hosts.items():
        if not host.gpus and host.vram_mb is None:
            yield ConfigProblem(path=("hosts", host_name, "vram"), text="is missing")
        for gpu in host.gpus:
            if f"{host_name}/{gpu}" in config.hosts:
                text = f"there is already a host named {host_name}/{gpu}"
                yield ConfigProblem(path=("hosts", host_name, "gpus", gpu), text=text)
        for name, backend in host.backends.items():
            base: Path = ("hosts", host_name, "backends", name)
            yield from _of_server(base, host_name, host, backend)
    for name, model in config.models.items():
        yield from _of_model(config, name, model)


def _of_server(
    base: Path, host_name: str, host: HostConfig, backend: BackendConfig
) -> Iterator[ConfigProblem]:
    if not host.gpus:
        for setting in ("gpus", "split"):
            if setting in backend.model_fields_set:
                text = f"{host_name} lists no GPUs; give it `gpus` if it has several"
                yield ConfigProblem(path=(*base, setting), text=text)
        return
    if not backend.gpus:
        text = f"{host_name} has several GPUs: name those it uses, such as [{', '.join(host.gpus)}]"
        yield ConfigProblem(path=(*base, "gpus"), text=text)
        return
    yield from _named_wrongly(base, backend.gpus, tuple(host.gpus), host_name)
    yield from _split_wrongly(base, backend.split, len(backend.gpus))


def _of_model(config: Config, name: str, model: ModelConfig) -> Iterator[ConfigProblem]:
    base: Path = ("models", name)
    if model.gpus is None and not model.split:
        return
    servers = [
        (each, backend.gpus)
        for host in config.hosts.values()
        for each, backend in host.backends.items()
        if each in model.backends and host.gpus and backend.gpus
    ]
    if not servers:
        setting = "split" if model.gpus is None else "gpus"
        text = "none of its servers is on a host with several `gpus`"
        yield ConfigProblem(path=(*base, setting), text=text)
        return
    if model.gpus == ():
        yield ConfigProblem(path=(*base, "gpus"), text="must name at least one GPU")
    for server, gpus in servers:
        yield from _named_wrongly(base, model.gpus or (), gpus, server)
        yield from _split_wrongly(base, model.split, len(model.gpus or gpus))


def gpu_warnings(config: Config) -> Iterator[ConfigProblem]:
    """Return servers that are given several GPUs but use only one."""
    for host_name, host in config.hosts.items():
        for name, backend in host.backends.items():
            if backend.kind in _ON_ONE_GPU and len(backend.gpus or ()) > 1:
                text = (
                    "one process uses one GPU: name it here, and start another server for the other"
                )
                path: Path = ("hosts", host_name, "backends", name, "gpus")
                yield ConfigProblem(path=path, text=text)


def _named_wrongly(
    base: Path, named: Sequence[str], known: Sequence[str], owner: str
) -> Iterator[ConfigProblem]:
    for index, gpu in enumerate(named):
        if gpu not in known:
            text = f"{owner} has no GPU {gpu!r}; {meant_or_all(gpu, known)}"
            yield ConfigProblem(path=(*base, "gpus", index), text=text)
        elif gpu in named[:index]:
            yield ConfigProblem(path=(*base, "gpus", index), text=f"{gpu!r} is named twice")


def _split_wrongly(base: Path, split: Sequence[float], gpus: int) -> Iterator[ConfigProblem]:
    if split and len(split) != gpus:
        text = f"must have a part for each GPU ({gpus}), not {len(split)}"
        yield ConfigProblem(path=(*base, "split"), text=text)


def too_large(model: ModelSpec, catalog: Catalog) -> str:
    """Return how much larger a model is than the largest space available to it."""
    size_mb = model.vram_mb or 0
    places = [_tightest(model, name, catalog) for name in model.backends]
    part_mb, host = max(places, key=lambda place: place[1].usable_mb / max(place[0], 1))
    offered = f"{_gb(host.usable_mb)} ({host.margin:.0%} of {host.name}'s {_gb(host.vram_mb)})"
    share = "" if part_mb == size_mb else f", of which {_gb(part_mb)} are on {host.name},"
    return f"{_gb(size_mb)}{share} is more than its hosts can offer: at most {offered}"


def _tightest(model: ModelSpec, backend: str, catalog: Catalog) -> tuple[int, HostSpec]:
    """Return the GPU that is tightest for a model's part, and the size of that part."""
    shares = divided(model.vram_mb or 0, catalog.parts_of(model, backend))
    found = [(mb, catalog.hosts[host]) for host, mb in shares]
    return min(found, key=lambda place: place[1].usable_mb / max(place[0], 1))


def _gb(size_mb: int) -> str:
    return f"{round(size_mb / 1024, 1):g} GB"


def twins_of_servers(config: Config) -> Iterator[ConfigProblem]:
    """Return GPUs listed under two hosts, and addresses used by two backends."""
    gpu_of: dict[str, str] = {}
    server_of: dict[Hashable, str] = {}
    for host_name, host in config.hosts.items():
        path: Path = ("hosts", host_name)
        for place, gpu, name in _gpus(host_name, host):
            if gpu and (owner := gpu_of.setdefault(gpu, name)) != name:
                text = (
                    f"is already the GPU of {owner}; list servers that share a GPU under one host"
                )
                yield ConfigProblem(path=(*path, *place), text=text)
        for name, backend in host.backends.items():
            if backend.url is None:
                continue
            owner = server_of.setdefault(address_of(backend.url), name)
            if owner != name:
                text = f"is already the server of {owner}; configure each server once, or its models count twice"
                yield ConfigProblem(path=(*path, "backends", name, "url"), text=text)


def twins_of_addresses(config: Config) -> Iterator[ConfigProblem]:
    """Return addresses at which two parts of Usher would listen."""
    web, api, metrics = config.chats.web, config.api, config.metrics
    places: list[tuple[Path, str, int]] = []
    if web is not None:
        places.append((("chats", "web", "port"), web.host, web.port))
    if api is not None:
        places.append((("api", "port"), api.host, api.port))
    if metrics is not None:
        places.append((("metrics", "port"), metrics.host, metrics.port))
    if config.cluster.listen is not None:
        places.append((("cluster", "listen"), *host_and_port(config.cluster.listen)))
    for index, (path, host, port) in enumerate(places):
        for other, there, taken in places[:index]:
            if port and port == taken and _meet(host, there):
                text = f"{'.'.join(map(str, other))} is already {port}: each needs its own port"
                yield ConfigProblem(path=path, text=text)


def _meet(one: str, other: str) -> bool:
    """Return whether two hosts to listen on share an address."""
    if one == other or not one or not other or is_every_address(one) or is_every_address(other):
        return True
    return "localhost" in (one, other) and is_loopback(one) and is_loopback(other)


def _gpus(name: str, host: HostConfig) -> Iterator[tuple[Path, str | None, str]]:
    """Yield, for each GPU, the path of its `gpu` setting, its value, and the GPU's name."""
    yield ("gpu",), host.gpu, name
    for gpu, settings in host.gpus.items():
        yield ("gpus", gpu, "gpu"), settings.gpu, f"{name}/{gpu}"


def twins_of_models(catalog: Catalog) -> Iterator[ConfigProblem]:
    """Return models that are the same on their server.

    Requires servers and models without problems.
    """
    for spec in catalog.backends.values():
        backend = connect(spec)
        first: dict[str, str] = {}
        for model in catalog.served_by(spec.name):
            own_name = backend.own_name(model)
            twin = first.setdefault(own_name, model.name)
            if twin != model.name:
                text = f"{twin} is already {own_name} on {spec.name}; give {twin} `aliases`, or set `system` in `rooms`"
                yield ConfigProblem(path=("models", model.name), text=text)


def address_of(url: str) -> tuple[str, int, str]:
    """Return a key that identifies a server: "localhost/v1" equals 127.0.0.1."""
    parts = urlsplit(url)
    host = (parts.hostname or "").casefold()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (
        "loopback" if is_loopback(host) else host,
        port,
        parts.path.rstrip("/").removesuffix("/v1"),
    )
