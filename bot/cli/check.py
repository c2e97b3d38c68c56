"""`usher check`: tries everything a configuration names and prints a table of what works.

Changes nothing: no database is created or migrated, no model is loaded, no message is sent. A text
model that is in memory writes one token.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from rich.text import Text

from backends.common.model_names import lora_word
from backends.hardware.gpu_memory import AMD, SYSTEM, GpuMemory, NvmlProbe
from backends.hardware.gpu_sizes import exceeds, kept_back, seen_by_server
from backends.registry import connect
from bot.app import heartbeat
from bot.app.console import show
from bot.app.logs import Redactor
from bot.app.setup import MIGRATIONS
from bot.cli import database, memory_kept
from bot.cli.findings import (
    Finding,
    FindingTable,
    about_files,
    about_processes,
    about_proxies,
    about_several_servers,
    api_hints,
    joined,
    listen_for_api,
    listen_for_metrics,
    told,
)
from bot.commands.registry import COMMANDS
from bot.config.checks import USUAL_FOR
from bot.config.config import Config
from bot.core.errors import ChatError
from bot.core.platform import ChatPlatform
from bot.delivery.records import MessageRecords
from bot.http.addresses import is_loopback
from bot.http.listener import CannotListen
from bot.platforms.registry import PlatformParts, platforms
from bot.platforms.web.chat.chat_log import ChatLog
from queueing.core.catalog import NEAREST, Catalog, near
from queueing.core.concurrency import timeout
from queueing.core.errors import (
    BackendError,
    Busy,
    StoreError,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
)
from queueing.core.ports import Backend, ServerInfo, SystemClock
from queueing.core.specs import HostSpec, ModelSpec
from queueing.store.engines import open_database
from queueing.store.maintenance import look_at_server

TRY_S = 20.0  # per attempt; all attempts run at once

_log = logging.getLogger(__name__)


class CheckFailed(Exception):
    """An attempt failed. The text is for the operator."""


async def report(config: Config, *, try_s: float = TRY_S) -> int:
    """Print what works and what does not.

    Returns 0 if everything works, 1 if neither a chat nor the API is configured, otherwise 2.
    """
    findings = await try_everything(config, try_s=try_s)
    show(FindingTable(findings, Redactor(config.secrets())))
    broken = sum(finding.works is False for finding in findings)
    show(
        Text(f"\n{broken} of {len(findings)} failed.", "red")
        if broken
        else Text("\nEverything works.", "green")
    )
    if not config.is_reached:
        return 1
    return 2 if broken else 0


async def try_everything(config: Config, *, try_s: float) -> list[Finding]:
    """Try database, hosts, backends, models, chats and the API, each for at most `try_s`."""
    catalog = config.catalog()
    running = heartbeat.is_alive(config.sign_of_life)
    async with AsyncExitStack() as stack:
        servers = {name: connect(spec) for name, spec in catalog.backends.items()}
        for server in servers.values():
            stack.push_async_callback(server.aclose)
        nvidia = NvmlProbe()
        stack.push_async_callback(nvidia.aclose)
        probe = GpuMemory(nvidia)
        offered: dict[str, tuple[ModelSpec, ...]] = {}
        tries: list[Awaitable[list[Finding]]] = [
            _try_database(config, running=running, try_s=try_s),
            *(_try_host(host, probe, try_s) for host in catalog.hosts.values() if host.gpu),
            *(_try_server(name, servers[name], catalog, offered, try_s) for name in servers),
            _try_chats(config, running=running, try_s=try_s),
            _try_api(config, running=running, try_s=try_s),
            _try_metrics(config, running=running, try_s=try_s),
        ]
        findings = [finding for found in await asyncio.gather(*tries) for finding in found]
        whole = joined(catalog, offered)
        unknown_loras = await _try_loras(config, whole, servers, try_s)
    shared = about_several_servers(whole, offered)
    works = {finding.name for finding in findings if finding.works}
    keepers = [name for name, server in servers.items() if not server.can_unload and name in works]
    kept = [text for name in keepers for text in memory_kept.of_unknown_size(whole, name)]
    kept += [*memory_kept.together(whole, keepers), *memory_kept.preloaded(whole)]
    kept += _too_long(whole)
    return [
        *findings,
        *about_proxies(config),
        *unwatched(catalog),
        *shared,
        *(told("", "", text) for text in kept),
        *_nothing_to_ask(whole, findings),
        *about_files(catalog),
        *_missing_models(config, whole),
        *unknown_loras,
    ]


async def _attempt(what: str, name: str, trying: Awaitable[str], try_s: float) -> Finding:
    """Return the outcome of an attempt, success or failure, as a row."""
    try:
        async with timeout(try_s):
            return Finding(what=what, name=name, works=True, text=await trying)
    except TimeoutError:
        text = f"no answer within {try_s:.0f} s"
    except (BackendError, ChatError, StoreError, CannotListen, CheckFailed) as error:
        text = str(error) or type(error).__name__
    except Exception as error:  # noqa: BLE001  # it becomes one row, and the other rows follow
        _log.exception("checking %s %s failed", what, name)
        text = f"unexpected: {error!r}"
    return Finding(what=what, name=name, works=False, text=text)


# ---------------------------------------------------------------- database and hosts


async def _try_database(config: Config, *, running: bool, try_s: float) -> list[Finding]:
    place = config.database
    if running and isinstance(place, Path):
        text = "in use by the running Usher"
        return [Finding(what="database", name=place.name, works=True, text=text)]
    trying = asyncio.to_thread(database.examine, place)
    tried = await _attempt("database", place.name, trying, try_s)
    if isinstance(place, Path) or not tried.works:
        return [tried]
    try:
        async with timeout(try_s):
            look = await asyncio.to_thread(look_at_server, config.database_url)
    except (StoreError, TimeoutError) as error:
        return [tried, Finding(what="role", name="all", works=False, text=str(error))]
    return [tried, *about_processes(config, look)]


async def _try_host(host: HostSpec, probe: GpuMemory, try_s: float) -> list[Finding]:
    async def measure() -> str:
        found = await probe.free_mb(host)
        if found is None:
            return ""
        total, free = found
        if exceeds(host.vram_mb, total):
            raise CheckFailed(_too_much(host, total))
        return f"{free} of {total} MB free{kept_back(host, total)}"

    finding = await _attempt("host", host.name, measure(), try_s)
    if finding.works and not finding.text:
        text = _unmeasured(host.gpu or "", probe)
        return [Finding(what="host", name=host.name, works=None, text=text)]
    return [finding]


def _too_much(host: HostSpec, total_mb: int) -> str:
    text = f"vram is set to {host.vram_mb} MB, but the GPU has {total_mb} MB"
    if (host.gpu or "").startswith(
        AMD
    ):  # older drivers do not report that it shares the main memory
        text += "; if it shares the main memory, set `gpu: system`"
    return text


def _unmeasured(gpu: str, probe: GpuMemory) -> str:
    """Return what cannot be measured, a GPU or the main memory, and why."""
    what = "main memory" if gpu == SYSTEM else "GPU"
    why = probe.why_not(gpu)
    return f"{what} not measured ({why}): only the configured memory counts, and other programs are not seen"


def unwatched(catalog: Catalog) -> Iterator[Finding]:
    """Report the hosts on this machine whose `gpu` is not set."""
    for host in catalog.hosts.values():
        urls = [spec.url for spec in host.backends]
        if host.gpu is None and any(is_loopback(urlsplit(url).hostname or "") for url in urls):
            text = "not measured because `gpu` is not set: other programs are seen only if its servers report them"
            yield Finding(what="host", name=host.name, works=None, text=text)


# ---------------------------------------------------------------- servers and models


async def _try_server(
    name: str,
    server: Backend,
    catalog: Catalog,
    offered: dict[str, tuple[ModelSpec, ...]],
    try_s: float,
) -> list[Finding]:
    """Identify a server, check each model it should serve, and list its other models.

    The other models are added to `offered` under the server's name.
    """
    notes: list[str] = []

    async def ask() -> str:
        try:
            info = await server.probe()
            await server.admit()
        except (Busy, Unavailable, UnknownFailure, UnreadableAnswer) as error:
            url = catalog.backends[name].address
            raise CheckFailed(f"no usable answer from {url} ({error})") from error
        notes.extend(info.notes)
        if seen := seen_by_server(catalog, name, info.total_mb):
            notes.append(seen)
        if not server.can_unload:
            notes.extend(memory_kept.warnings(catalog, name))
        return _described(info)

    answer = await _attempt("backend", name, ask(), try_s)
    models = catalog.served_by(name)
    if not answer.works:
        text = f"not tried: {name} does not work"
        return [answer, *(told("model", f"{model.name} on {name}", text) for model in models)]
    tries = [_try_model(name, server, model, try_s) for model in models]
    if catalog.backends[name].discover:

        async def offer() -> str:
            offered[name] = await server.discover(models)
            current = (await server.probe()).notes
            notes.extend(note for note in current if note not in notes)
            return _found([model.name for model in offered[name]], others=bool(models))

        tries.append(_attempt("models", f"of {name}", offer(), try_s))
    findings = await asyncio.gather(*tries)
    notes.extend(note for model in models for note in server.remarks(model))
    return [answer, *(told("", "", note) for note in notes), *findings]


def _described(info: ServerInfo) -> str:
    if info.total_mb is None or info.free_mb is None:
        return info.description
    return f"{info.description}, {info.free_mb} of {info.total_mb} MB free"


async def _try_model(name: str, server: Backend, model: ModelSpec, try_s: float) -> Finding:
    async def verify() -> str:
        await server.verify(model)
        able = ", ".join(sorted(model.capabilities))
        shown = await _sampled(server, model, try_s / 2)
        return f"{able}; {shown}" if shown else able

    return await _attempt("model", f"{model.name} on {name}", verify(), try_s)


async def _sampled(server: Backend, model: ModelSpec, try_s: float) -> str:
    """Ask a model that is in memory a question, unless its server is busy."""
    try:
        async with timeout(try_s):
            return await server.sample(model)
    except (Busy, TimeoutError):
        return "not asked, because its server is busy"


def _found(names: Sequence[str], *, others: bool) -> str:
    """Return a phrase about the further models of a server."""
    rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
    other = " others" if others else ""
    return (
        f"{len(names)}{other} found: {', '.join(names[:5])}{rest}"
        if names
        else f"no{other or 'ne'} found"
    )


def _nothing_to_ask(whole: Catalog, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Report that no server has a model, unless a failing server already explains it."""
    if not whole.models and all(finding.works is not False for finding in findings):
        text = "no server offers a model yet, so nothing can be requested"
        yield Finding(what="model", name="none", works=False, text=text)


def _too_long(catalog: Catalog) -> Iterator[str]:
    """Yield a warning for each model whose usual work exceeds a timeout."""
    for model in catalog.models.values():
        limits = model.timeouts
        if model.usual_load_s >= limits.load_s:
            yield (
                f"Loading {model.name} is cut off after timeouts.load_s ({limits.load_s:g} s), but "
                f"its load_s is {model.usual_load_s:g} s."
            )
        if limits.total_s is not None and model.usual_service_s >= limits.total_s:
            yield (
                f"A request for {model.name} is cut off after timeouts.total_s "
                f"({limits.total_s:g} s), but its service_s is {model.usual_service_s:g} s."
            )


def _missing_models(config: Config, catalog: Catalog) -> Iterator[Finding]:
    """Report models that the configuration names and no server offers."""
    for what, where, name, use in _named_models(config):
        if name is not None and catalog.find(name) is None:
            text = f"no server offers {name}, {use}{_nearest(name, catalog.models)}"
            yield Finding(what=what, name=where, works=False, text=text)


def _named_models(config: Config) -> Iterator[tuple[str, str, str | None, str]]:
    for command in USUAL_FOR:
        name = getattr(config.defaults, command)
        yield "default", command, name, f"the default of /{command}"
    for style, settings in config.styles.items():
        yield "style", style, settings.model, f"the model of style {style}"
    for model, options in config.models.items():
        yield "enhance", model, options.enhance, f"which improves prompts for {model}"
    for index, rule in enumerate(config.rules):
        named = (*(rule.models or ()), *rule.defaults.model_dump().values())
        for name in named:
            yield "rule", f"rules[{index}]", name, "which this rule names"


async def _try_loras(
    config: Config, catalog: Catalog, servers: Mapping[str, Backend], try_s: float
) -> list[Finding]:
    """Report LoRAs that rules name and no server has."""
    named = [(at, name) for at, rule in enumerate(config.rules) for name in rule.loras or ()]
    if not named:
        return []
    asked = [
        _loras_of(servers[name], model, try_s)
        for model in catalog.models.values()
        for name in model.backends
    ]
    answers = await asyncio.gather(*asked)
    known = list(dict.fromkeys(name for names in answers for name in names or ()))
    there = set(map(lora_word, known))
    unknown = [(at, name) for at, name in named if lora_word(name) not in there]
    if None in answers:
        text = "cannot tell whether there is a LoRA {name}: a server does not answer"
        return [told("rule", f"rules[{at}]", text.format(name=name)) for at, name in unknown]
    return [
        Finding(
            what="rule",
            name=f"rules[{at}]",
            works=False,
            text=f"no server has the LoRA {name}{_nearest(name, known)}",
        )
        for at, name in unknown
    ]


async def _loras_of(server: Backend, model: ModelSpec, try_s: float) -> tuple[str, ...] | None:
    """Return a server's LoRAs for a model, or None if it does not answer."""
    try:
        async with timeout(try_s):
            return await server.loras(model)
    except (BackendError, TimeoutError):
        return None


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the names most similar to an unknown one, as the end of a sentence."""
    meant = near(name, known, most=NEAREST)
    return f"; did you mean {' or '.join(meant)}?" if meant else ""


# ---------------------------------------------------------------- chats


async def _try_chats(config: Config, *, running: bool, try_s: float) -> list[Finding]:
    nothing = await open_database("sqlite://", migrations=(MIGRATIONS,))
    try:
        fittings = PlatformParts(
            commands=COMMANDS,
            notes=MessageRecords(nothing),
            access=config.access(),
            clock=SystemClock(),
            chat_log=ChatLog(nothing),
            overview=lambda _: (),
            proxies=config.proxies,
        )
        chats = platforms(config.chats, fittings)
        tries = [_try_chat(chat, running=running, try_s=try_s) for chat in chats]
        none = Finding(what="chat", name="none", works=False, text="configure one under chats")
        return await asyncio.gather(*tries) or ([] if config.is_reached else [none])
    finally:
        await nothing.aclose()


async def _try_chat(chat: ChatPlatform, *, running: bool, try_s: float) -> Finding:
    if running and chat.name == "web":  # the running bot holds the port
        return told("chat", chat.name, "served by the running Usher")
    return await _attempt("chat", chat.name, chat.check(), try_s)


# ---------------------------------------------------------------- the API


async def _try_api(config: Config, *, running: bool, try_s: float) -> list[Finding]:
    api = config.api
    if api is None:
        return []
    name = f"{api.host}:{api.port}"
    if running:  # the running bot holds the port
        tried = told("api", name, "served by the running Usher")
    else:
        tried = await _attempt("api", name, listen_for_api(api), try_s)
    hints = api_hints(api, chats=config.chats.any())
    return [tried, *(told("", "", hint) for hint in hints)]


# ---------------------------------------------------------------- metrics


async def _try_metrics(config: Config, *, running: bool, try_s: float) -> list[Finding]:
    place = config.metrics
    if place is None:
        return []
    name = f"{place.host}:{place.port}"
    if running:  # the running bot holds the port
        return [told("metrics", name, "served by the running Usher")]
    return [await _attempt("metrics", name, listen_for_metrics(place), try_s)]
