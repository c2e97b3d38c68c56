"""The rows of the table of `usher check`, and those about processes, servers and addresses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from backends.common.proxies import shown
from backends.media import documents, videos
from backends.media.helper.sandbox import unheld
from bot.app.cluster.agreement import Agreement, version_of
from bot.app.cluster.leases import QUEUE, listed, roles_of
from bot.app.console import line
from bot.app.runner import require_place
from bot.config.config import Config
from bot.config.loader import ConfigError
from bot.config.proxies import through_proxies
from bot.config.sections import ApiConfig, MetricsConfig
from bot.http.addresses import host_and_port, is_loopback
from bot.http.listener import Listener, open_at
from queueing.core.catalog import Catalog, with_found
from queueing.core.leases import LeaderInfo, ServerLook
from queueing.core.ports import is_off, off_in_words
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec

_NARROW = 60  # below this many columns, a row's text goes under its name


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A row of the table. `works` is None for information, or if it could not be tried."""

    what: str
    name: str
    works: bool | None
    text: str

    @property
    def outcome(self) -> Text:
        """Return `works` as a word."""
        words = {True: ("ok", "green"), False: ("FAILED", "bold red"), None: ("-", "dim")}
        return Text(*words[self.works])


def told(what: str, name: str, text: str) -> Finding:
    """Return a row of information."""
    return Finding(what=what, name=name, works=None, text=text)


@dataclass(frozen=True, slots=True)
class FindingTable:
    """The findings, one row each. A server's text must not look like another row.

    `hide` removes secrets from a text.
    """

    findings: Sequence[Finding]
    hide: Callable[[str], str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 2, 0, 0))
        for each in self.findings:
            what, name, text = (line(self.hide(cell)) for cell in (each.what, each.name, each.text))
            if options.max_width < _NARROW:
                named = Text(" ").join(filter(None, (what, name)))
                table.add_row(each.outcome, Text("\n").join(filter(None, (named, text))))
            else:
                table.add_row(what, name, each.outcome, text)
        yield table


def about_proxies(config: Config) -> Iterator[Finding]:
    """Yield a line for each proxy in use, because people may not know that one is set."""
    for proxy, names in through_proxies(config).items():
        yield told("proxy", shown(proxy), f"used for {', '.join(dict.fromkeys(names))}")


def about_files(catalog: Catalog) -> Iterator[Finding]:
    """Report how videos, sound and documents are handled."""
    if catalog.able(Capability.SPEECH_TO_TEXT) and not videos.available():
        text = "recordings are sent unconverted: install usher-bot[media] for servers that need WAV"
        yield Finding(what="recordings", name="PyAV", works=None, text=text)
    if catalog.able(Capability.TEXT_TO_TEXT) and not documents.reads_pdfs():
        text = "PDFs are refused: install usher-bot[media] for questions about them"
        yield Finding(what="documents", name="pypdfium2", works=None, text=text)
    for barrier, harm in unheld().items():
        yield Finding(what="files", name=barrier, works=None, text=harm)
    if all(spec.kind != "comfyui" for spec in catalog.backends.values()):
        return
    text = "workflows are removed, and videos too large for a chat are made to fit"
    if not videos.available():
        text = "not sent unless keep_metadata is true: install usher-bot[media]"
    yield Finding(what="videos", name="PyAV", works=videos.available() or None, text=text)


def about_processes(config: Config, look: ServerLook) -> Iterator[Finding]:
    """Yield a row for each role, and one that compares the configuration with other processes'."""
    if is_off(look.off_s):
        text = f"{off_in_words(look.off_s)}; this process would not take any role"
        yield Finding(what="clock", name="this machine", works=False, text=text)
    else:
        text = f"{abs(look.off_s):.1f} s from the database server's"
        yield Finding(what="clock", name="this machine", works=True, text=text)
    told_by = {each.role.name: each for each in look.held}
    for role in listed(roles_of(config), (each.role for each in look.held)):
        holder = told_by[role.name] if role.holder else None
        if holder is None:
            yield _free(role.name, idle=not look.held)
            continue
        yield Finding(what="role", name=role.name, works=True, text=_described(holder))
        if _is_public(role.address):
            text = f"Traffic between processes at {role.address} is not encrypted, and"
            yield told("", "", f"{text} the address is public: use a private network.")
    try:
        require_place(config, Agreement(config, ""), look)
    except ConfigError as error:
        yield Finding(what="processes", name="configuration", works=False, text=str(error))
    else:
        if look.held:
            yield Finding(
                what="processes",
                name="configuration",
                works=True,
                text="same as the other processes",
            )


def _free(name: str, *, idle: bool) -> Finding:
    """Return the row of a role that no process holds. `idle`: because no process runs."""
    if idle or name != QUEUE:
        return told("role", name, "free")
    text = (
        "free although processes run: nothing is accepted until one of them may take it (--roles)"
    )
    return Finding(what="role", name=name, works=False, text=text)


def _described(holder: LeaderInfo) -> str:
    version = version_of(holder.about)
    by = f"{holder.role.holder} (usher {version})" if version else holder.role.holder
    at = f", listens at {holder.role.address}" if holder.role.address else ""
    return f"held by {by}, {holder.role.left_s:.0f} s of its lease left{at}"


def _is_public(address: str) -> bool:
    """Return whether an address is reachable from the internet. False for a host name."""
    try:
        host, _ = host_and_port(address)
        return ip_address(host).is_global
    except ValueError:
        return False


Offered = Mapping[str, Sequence[ModelSpec]]
"""The models each server offers by itself."""


def joined(catalog: Catalog, offered: Offered) -> Catalog:
    """Return the catalog with the models that servers offer, as in a running bot."""
    found = (model for name in catalog.backends for model in offered.get(name, ()))
    return Catalog(with_found(catalog, found), catalog.hosts.values())


def about_several_servers(whole: Catalog, offered: Offered) -> Iterator[Finding]:
    """Report which offered models several servers share, and which were renamed."""
    for model in whole.models.values():
        if model.discovered and len(model.backends) > 1:
            servers = " and ".join(model.backends)
            yield told("models", model.name, f"{servers} have it and share its queue")
    for backend, models in offered.items():
        for model in models:
            other = whole.find(model.name)
            if other is None or backend in other.backends:
                continue
            name = next((each.name for each in whole.served_by(backend) if _is(each, model)), "")
            owners = " and ".join(other.backends)
            text = f"{backend} has a different one than {owners}; it is offered as {name}"
            yield told("models", model.name, text)


def _is(one: ModelSpec, other: ModelSpec) -> bool:
    return one.options == other.options and one.name.startswith(other.name)


NODE_GIVES_UP_S = 300


async def listen_for_api(api: ApiConfig) -> str:
    """Try to listen on the address. Raises `CannotListen`."""
    port = await _opened(api.host, api.port)
    base = api.url or f"http://{_in_address(api.host)}:{port}"
    return f"programs reach it at {base}/v1, {'without' if api.open else 'with'} a key"


async def listen_for_metrics(place: MetricsConfig) -> str:
    """Try to listen on the address. Raises `CannotListen`."""
    port = await _opened(place.host, place.port)
    key = "without" if place.token is None else "with"
    return f"Prometheus reads http://{_in_address(place.host)}:{port}/metrics, {key} a token"


async def _opened(host: str, port: int) -> int:
    listener = Listener(web.Application())
    try:
        return await open_at(listener, host, port)
    finally:
        await listener.close()


def api_hints(api: ApiConfig, *, chats: bool) -> Iterator[str]:
    """Yield a hint for each setting that will not work as expected.

    `chats`: a chat is configured.
    """
    url = urlsplit(api.url or "")
    if not api.open and not chats:
        yield "Keys are created in a chat with /key new, but no chat is configured: add chats: {web: {}}."
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield "Keys sent to an http:// url can be intercepted: put an https proxy in front of it."
    if not api.url and not is_loopback(api.host):
        yield "Other machines reach it unencrypted: set url to the https address of a proxy in front of it."
    if url.scheme == "https" and not api.proxies:
        yield "All callers appear to come from the proxy of its url: list that proxy under proxies."
    if api.hold_s >= NODE_GIVES_UP_S:
        yield f"With hold_s of {NODE_GIVES_UP_S} or more, Node clients give up before an answer arrives."


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
