"""What a configuration connects to in other networks, where a proxy may be needed."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from backends.common.proxies import is_local
from bot.config.chats import DISCORD_URL, TELEGRAM_URL
from bot.config.config import Config


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
