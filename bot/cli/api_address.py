"""The addresses of the HTTP API and of metrics: whether they can be listened on, and what settings mean."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from aiohttp import web

from bot.config.sections import ApiConfig, MetricsConfig
from bot.http.addresses import is_loopback
from bot.http.listener import Listener, open_at

NODE_GIVES_UP_S = 300


async def listen(api: ApiConfig) -> str:
    """Listen on the address for a moment. Raises `CannotListen`."""
    port = await _opened(api.host, api.port)
    base = api.url or f"http://{_in_address(api.host)}:{port}"
    return f"programs reach it at {base}/v1, {'without' if api.open else 'with'} a key"


async def listen_for_metrics(place: MetricsConfig) -> str:
    """Listen on the address for a moment. Raises `CannotListen`."""
    port = await _opened(place.host, place.port)
    key = "without" if place.token is None else "with"
    return f"Prometheus reads http://{_in_address(place.host)}:{port}/metrics, {key} a token"


async def _opened(host: str, port: int) -> int:
    listener = Listener(web.Application())
    try:
        return await open_at(listener, host, port)
    finally:
        await listener.close()


def hints(api: ApiConfig, *, chats: bool) -> Iterator[str]:
    """Yield a sentence for each setting that will disappoint; `chats` says that one is configured."""
    url = urlsplit(api.url or "")
    if not api.open and not chats:
        yield "Keys are made in a chat with /key new, and there is none: chats: {web: {}} will do."
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield "Keys sent to an http:// url can be read on the way: put a proxy with https before it."
    if not api.url and not is_loopback(api.host):
        yield "Other machines reach it unencrypted; set url to the https address of a proxy before it."
    if url.scheme == "https" and not api.proxies:
        yield "All callers seem to come from the proxy of its url: name that under proxies."
    if api.hold_s >= NODE_GIVES_UP_S:
        yield f"With hold_s of {NODE_GIVES_UP_S} or more, programs on Node give up waiting before."


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
