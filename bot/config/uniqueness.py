"""Checks that each card, server, model of a server and address to listen on appears once.

Planning would count a duplicate twice: two hosts would fill one card, and a model unloaded under
one name would be taken from a job that runs under the other.
"""

from collections.abc import Hashable, Iterator
from urllib.parse import urlsplit

from backends.registry import connect
from bot.config.config import Config
from bot.config.sections import HostConfig
from bot.config.yaml_reader import ConfigProblem, Path
from bot.http.addresses import host_and_port, is_every_address, is_loopback
from queueing.core.catalog import Catalog


def twins_of_servers(config: Config) -> Iterator[ConfigProblem]:
    """Return cards listed under two hosts, and addresses of two backends."""
    card_of: dict[str, str] = {}
    server_of: dict[Hashable, str] = {}
    for host_name, host in config.hosts.items():
        path: Path = ("hosts", host_name)
        for place, gpu, name in _cards(host_name, host):
            if gpu and (owner := card_of.setdefault(gpu, name)) != name:
                text = (
                    f"the card of {owner} already; servers that share a card stand under one host"
                )
                yield ConfigProblem(path=(*path, *place), text=text)
        for name, backend in host.backends.items():
            if backend.url is None:
                continue
            owner = server_of.setdefault(address_of(backend.url), name)
            if owner != name:
                text = f"the server of {owner} already; its models count in memory only once"
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
                text = (
                    f"{'.'.join(map(str, other))} is {port} already: each needs a port of its own"
                )
                yield ConfigProblem(path=path, text=text)


def _meet(one: str, other: str) -> bool:
    """Return whether two hosts to listen on have an address in common."""
    if one == other or not one or not other or is_every_address(one) or is_every_address(other):
        return True
    return "localhost" in (one, other) and is_loopback(one) and is_loopback(other)


def _cards(name: str, host: HostConfig) -> Iterator[tuple[Path, str | None, str]]:
    """Yield where each card's `gpu` is set, what it is, and the card's own name."""
    yield ("gpu",), host.gpu, name
    for card, settings in host.cards.items():
        yield ("cards", card, "gpu"), settings.gpu, f"{name}/{card}"


def twins_of_models(catalog: Catalog) -> Iterator[ConfigProblem]:
    """Return models that are one on their server; requires servers and models without problems."""
    for spec in catalog.backends.values():
        backend = connect(spec)
        first: dict[str, str] = {}
        for model in catalog.served_by(spec.name):
            own_name = backend.own_name(model)
            twin = first.setdefault(own_name, model.name)
            if twin != model.name:
                text = f"{twin} is {own_name} on {spec.name} already; give that one `aliases`, or `rooms` their own `system`"
                yield ConfigProblem(path=("models", model.name), text=text)


def address_of(url: str) -> tuple[str, int, str]:
    """Return what distinguishes servers: "localhost/v1" is 127.0.0.1."""
    parts = urlsplit(url)
    host = (parts.hostname or "").casefold()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (
        "loopback" if is_loopback(host) else host,
        port,
        parts.path.rstrip("/").removesuffix("/v1"),
    )
