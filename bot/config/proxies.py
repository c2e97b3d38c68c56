"""Which proxies a configuration uses, and for what: connections into other networks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from backends.common import proxies
from backends.common.proxies import Proxies, is_local
from bot.config.chats import DISCORD_URL, TELEGRAM_URL
from bot.config.config import Config
from bot.config.reading.forms import ENVIRONMENT, NO_PROXY

_UNUSABLE = "no request goes through it: set `proxy` to an HTTP proxy, or to none"


def chosen(proxy: str, environ: Mapping[str, str]) -> Proxies:
    """Return the proxies to use. NO_PROXY applies to a configured proxy as well."""
    if proxy == NO_PROXY:
        return proxies.NO_PROXIES
    named, _ = proxies.of_environment(environ)
    return named if proxy == ENVIRONMENT else replace(named, http=proxy, https=proxy)


def unusable(proxy: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each variable of the environment that names an unusable proxy."""
    if proxy == ENVIRONMENT:
        for variable in proxies.of_environment(environ)[1]:
            yield f"{variable}; {_UNUSABLE}"


def through_proxies(config: Config) -> dict[str, list[str]]:
    """Return what is reached through each proxy."""
    found: dict[str, list[str]] = {}
    for name, url in _destinations(config):
        if proxy := config.proxies.to(url):
            found.setdefault(proxy, []).append(name)
    return found


def outside(config: Config) -> Sequence[str]:
    """Return what is reached in other networks."""
    return [name for name, url in _destinations(config) if not is_local(_host(url))]


def _destinations(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the names and addresses of everything that the bot connects to."""
    if config.chats.discord is not None:
        yield "discord", DISCORD_URL
    if config.chats.telegram is not None:
        yield "telegram", config.chats.telegram.api_url or TELEGRAM_URL
    for name, host in config.hosts.items():
        for each, backend in host.backends.items():
            yield each, backend.url or ""
        if host.sleep is not None and host.sleep.webhook is not None:
            yield f"sleep of {name}", host.sleep.webhook
    if config.api is not None:
        yield from (("webhooks", url) for url in config.api.webhooks)
        if config.api.fetch:
            yield "images by URL", "https://images.example.com"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
