"""Checks that the parts of a configuration fit together: names, memory, options of each kind.

Opens no connection. The kinds of backends read only the workflow files named here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backends.common.options import NO_SETTING
from backends.hardware.gpu_memory import is_nvidia
from backends.registry import KINDS, connect, kinds_of
from bot.config.config import Config
from bot.config.host_checks import (
    gpu_problems,
    gpu_warnings,
    too_large,
    twins_of_addresses,
    twins_of_models,
    twins_of_servers,
)
from bot.config.hosts import BackendConfig
from bot.config.people_checks import people_problems, people_warnings
from bot.config.reading.values import Section
from bot.config.reading.yaml_reader import ConfigProblem, Path, no_setting
from bot.config.rule_checks import room_problems, rule_problems
from bot.config.sections import ModelConfig
from queueing.core.catalog import Catalog, meant_or_all
from queueing.core.errors import BadModel
from queueing.core.quiet_hours import QuietHours
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec

if TYPE_CHECKING:
    from bot.people.access import PersonLimits

IMPROVED = frozenset({Capability.TEXT_TO_IMAGE, Capability.TEXT_TO_VIDEO, Capability.TEXT_TO_AUDIO})
LEAST_OPEN_S = 3600.0  # between quiet hours, at least once a week
USUAL_FOR = {
    "image": (Capability.TEXT_TO_IMAGE,),
    "edit": (Capability.IMAGE_EDIT,),
    "video": (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
    "music": (Capability.TEXT_TO_AUDIO,),
    "speak": (Capability.TEXT_TO_SPEECH,),
    "transcribe": (Capability.SPEECH_TO_TEXT,),
    "ask": (Capability.TEXT_TO_TEXT,),
}
"""By command, the capabilities of which its default model needs at least one."""


def problems(config: Config) -> list[ConfigProblem]:
    """Return everything that makes a valid configuration unusable."""
    named = [
        *_server_problems(config),
        *twins_of_servers(config),
        *gpu_problems(config),
        *_name_problems(config),
        *_quiet_problems(config),
    ]
    catalog = _sound(config, {problem.path[:4] for problem in named}).catalog()
    asked = dict.fromkeys(_option_problems(catalog))  # two servers of a kind report the same
    found = [*named, *asked, *_size_problems(catalog)]
    if not found:  # the following checks need complete models
        found = [
            *dict.fromkeys(twins_of_models(catalog)),
            *_idle_problems(catalog),
            *_copies_problems(catalog),
            *_default_problems(config, catalog),
            *_style_problems(config, catalog),
            *_enhance_problems(catalog),
            *rule_problems(config, catalog),
        ]
    else:
        found.extend(rule_problems(config, None))
    return [*found, *twins_of_addresses(config), *_chat_problems(config)]


def _sound(config: Config, wrong: set[Path]) -> Config:
    """Return the configuration without the servers and models that have problems at those paths.

    The rest is still checked, because operators want to see all problems at once.
    """
    hosts = {
        name: host.model_copy(
            update={
                "backends": {
                    each: backend
                    for each, backend in host.backends.items()
                    if ("hosts", name, "backends", each) not in wrong
                }
            }
        )
        for name, host in config.hosts.items()
    }
    servers = {each for host in hosts.values() for each in host.backends}
    broken = {path[1] for path in wrong if path[0] == "models" and len(path) > 1}
    models = {
        name: model
        for name, model in config.models.items()
        if name not in broken and servers.issuperset(model.backends)
    }
    return config.model_copy(update={"hosts": hosts, "models": models})


def warnings(config: Config) -> list[ConfigProblem]:
    """Return warnings about settings that work but are probably unintended.

    Requires a configuration without problems.
    """
    return [
        *_size_warnings(config.catalog()),
        *gpu_warnings(config),
        *people_warnings(config),
    ]


# ---------------------------------------------------------------- servers and names


def _server_problems(config: Config) -> Iterator[ConfigProblem]:
    hosts_of: dict[str, str] = {}
    for host_name, host in config.hosts.items():
        for name, backend in host.backends.items():
            path: Path = ("hosts", host_name, "backends", name)
            if backend.kind not in KINDS:
                yield ConfigProblem(path=(*path, "kind"), text=_unknown_kind(backend.kind))
            elif backend.url is None and KINDS[backend.kind].needs_url:
                yield ConfigProblem(path=path, text="needs a url, such as http://127.0.0.1:8188")
            if name in hosts_of:
                text = f"{hosts_of[name]} already has a backend of this name; a server belongs to one host"
                yield ConfigProblem(path=path, text=text)
            hosts_of.setdefault(name, host_name)


def _unknown_kind(kind: str) -> str:
    """Suggest a kind for an unknown one; many people write the server's own name there."""
    known = " or ".join(kinds_of(kind))
    hint = f"use kind {known} for that server" if known else meant_or_all(kind, KINDS)
    return f"unknown kind {kind!r}; {hint}"


def _name_problems(config: Config) -> Iterator[ConfigProblem]:
    backends = {name for host in config.hosts.values() for name in host.backends}
    taken: dict[str, str] = {}
    for name, model in config.models.items():
        yield from _unknown_backends(name, model, backends)
        for path, word in _words(name, model):
            owner = taken.setdefault(word.casefold(), name)
            if owner != name or (path[-1] != name and word.casefold() == name.casefold()):
                yield ConfigProblem(path=path, text=f"{word!r} already means the model {owner}")
    if not config.models and not config.discovering():
        text = "no models: name one, or set `discover: true` on a backend"
        yield ConfigProblem(path=("models",), text=text)


def _quiet_problems(config: Config) -> Iterator[ConfigProblem]:
    for name, host in config.hosts.items():
        indexes = [each.gpu for each in host.gpus.values()] or [host.gpu]
        named = all(index is not None and is_nvidia(index) for index in indexes)
        if host.yields_above_mb is not None and not named:
            text = "needs `gpu`: the NVIDIA GPU of this machine to watch for other programs"
            yield ConfigProblem(path=("hosts", name, "yield_to_others"), text=text)
        if not host.quiet:
            continue
        zone = host.timezone or config.timezone
        if zone is None:
            text = "needs a time zone, such as `timezone: Europe/Berlin`, here or at the top level"
            yield ConfigProblem(path=("hosts", name, "quiet"), text=text)
        elif QuietHours(host.quiet, zone).longest_open_s(0.0) < LEAST_OPEN_S:
            text = "leaves no hour of the week in which jobs can run"
            yield ConfigProblem(path=("hosts", name, "quiet"), text=text)


def _unknown_backends(name: str, model: ModelConfig, known: set[str]) -> Iterator[ConfigProblem]:
    for index, backend in enumerate(model.backends):
        if backend not in known:
            text = f"no host has a backend {backend!r}; {meant_or_all(backend, known)}"
            yield ConfigProblem(path=("models", name, "backends", index), text=text)


def _words(name: str, model: ModelConfig) -> Iterator[tuple[Path, str]]:
    yield ("models", name), name
    for index, alias in enumerate(model.aliases):
        yield ("models", name, "aliases", index), alias


# ---------------------------------------------------------------- what each kind says


def _option_problems(catalog: Catalog) -> Iterator[ConfigProblem]:
    """Let every kind check its own settings, so that a new kind needs no change here."""
    for spec in catalog.backends.values():
        host = catalog.hosts[catalog.host_of[spec.name]].machine_name
        base: Path = ("hosts", host, "backends", spec.name)
        try:
            backend = connect(spec)
        except BadModel as error:
            yield from _placed(str(error), f"backends.{spec.name}", base, BackendConfig)
            continue
        for model in catalog.served_by(spec.name):
            try:
                backend.check(model)
            except BadModel as error:
                base = ("models", model.name)
                yield from _placed(str(error), ".".join(base), base, ModelConfig)


def _idle_problems(catalog: Catalog) -> Iterator[ConfigProblem]:
    for model in catalog.models.values():
        if not model.capabilities:
            text = "its servers have no capability in common, so it cannot be used"
            yield ConfigProblem(path=("models", model.name, "backends"), text=text)


def _copies_problems(catalog: Catalog) -> Iterator[ConfigProblem]:
    for model in catalog.models.values():
        servers = Counter(catalog.host_of[name] for name in set(model.backends))
        most = max(servers.values(), default=1)
        if model.copies > max(most, 1):
            text = (
                f"at most {most} of its servers are on one host, and each holds one copy of a model"
            )
            yield ConfigProblem(path=("models", model.name, "copies"), text=text)


def _placed(text: str, prefix: str, base: Path, group: type[Section]) -> Iterator[ConfigProblem]:
    """Split a kind's "models.qwen.flavour: …; models.qwen.system: …" by setting."""
    for sentence in re.split(rf"; (?={re.escape(prefix)}\.)", text):
        setting, colon, what = sentence.removeprefix(f"{prefix}.").partition(": ")
        if colon and sentence.startswith(f"{prefix}."):
            yield ConfigProblem(
                path=(*base, *setting.split(".")), text=_known_too(setting, what, group)
            )
        else:
            yield ConfigProblem(path=base, text=sentence.removeprefix(f"{prefix}: "))


def _known_too(setting: str, what: str, group: type[Section]) -> str:
    """Add the common settings to those a kind lists when it meets an unknown one."""
    known = re.fullmatch(rf"{NO_SETTING} \(known: (.*)\)", what)
    if known is None:
        return what
    ours = {field.alias or name for name, field in group.model_fields.items()}
    return no_setting(setting, ours | set(known[1].split(", ")))


# ---------------------------------------------------------------- memory and defaults


def _size_problems(catalog: Catalog) -> Iterator[ConfigProblem]:
    for model in catalog.models.values():
        if not _fits(model, catalog) and not _offloads(model, catalog):
            yield ConfigProblem(path=("models", model.name, "vram"), text=too_large(model, catalog))


def _size_warnings(catalog: Catalog) -> Iterator[ConfigProblem]:
    for model in catalog.models.values():
        if not _fits(model, catalog):
            text = f"{too_large(model, catalog)}: it needs the whole host and runs slowly"
            yield ConfigProblem(path=("models", model.name, "vram"), text=text)


def _fits(model: ModelSpec, catalog: Catalog) -> bool:
    hosts = (catalog.hosts[catalog.host_of[name]] for name in model.backends)
    unknown = any(
        host.vram_mb == 0 for host in hosts
    )  # its memory is missing, which is reported separately
    return unknown or any(catalog.fits(model, name) for name in model.backends)


def _offloads(model: ModelSpec, catalog: Catalog) -> bool:
    return any(catalog.backends[name].offloads for name in model.backends)


def _default_problems(config: Config, catalog: Catalog) -> Iterator[ConfigProblem]:
    discovers = any(backend.discover for backend in catalog.backends.values())
    for command, capabilities in USUAL_FOR.items():
        name: str | None = getattr(config.defaults, command)
        if name is None or (catalog.find(name) is None and discovers):
            continue
        model = catalog.find(name)
        if model is None:
            able = ", ".join(_able(catalog, capabilities)) or "none"
            text = f"there is no model {name!r}; models that can do it: {able}"
            yield ConfigProblem(path=("defaults", command), text=text)
        elif not model.capabilities.intersection(capabilities):
            needs = " or ".join(capabilities)
            text = f"{name} cannot do {needs}; its capabilities are {_listed(model)}"
            yield ConfigProblem(path=("defaults", command), text=text)


def _able(catalog: Catalog, capabilities: Sequence[Capability]) -> Sequence[str]:
    """Return the models that have one of the capabilities, each once."""
    return tuple(dict.fromkeys(name for each in capabilities for name in catalog.able(each)))


def _enhance_problems(catalog: Catalog) -> Iterator[ConfigProblem]:
    """Return the problems of models named to improve prompts."""
    discovers = any(backend.discover for backend in catalog.backends.values())
    for model in catalog.models.values():
        if model.enhance is None:
            continue
        path: Path = ("models", model.name, "enhance")
        able = ", ".join(catalog.able(Capability.TEXT_TO_TEXT)) or "none"
        writer = catalog.find(model.enhance)
        if not model.capabilities & IMPROVED:
            yield ConfigProblem(
                path=path, text="only prompts for images, videos and music are improved"
            )
        elif writer is None and not discovers:
            text = f"there is no model {model.enhance!r}; models that can do it: {able}"
            yield ConfigProblem(path=path, text=text)
        elif writer is not None and Capability.TEXT_TO_TEXT not in writer.capabilities:
            text = f"{model.enhance} cannot write text; models that can do it: {able}"
            yield ConfigProblem(path=path, text=text)


def _style_problems(config: Config, catalog: Catalog) -> Iterator[ConfigProblem]:
    discovers = any(backend.discover for backend in catalog.backends.values())
    for name, style in config.styles.items():
        if style.model is None or catalog.find(style.model) or discovers:
            continue
        able = ", ".join(catalog.able(Capability.TEXT_TO_IMAGE)) or "none"
        text = f"there is no model {style.model!r}; models that can draw: {able}"
        yield ConfigProblem(path=("styles", name, "model"), text=text)


def _listed(model: ModelSpec) -> str:
    return ", ".join(sorted(model.capabilities))


# ---------------------------------------------------------------- chats and people


def _chat_problems(config: Config) -> Iterator[ConfigProblem]:
    web = config.chats.web
    if web and not web.token and (setting := web.opened_by()):
        text = "opens the page to other machines: set chats.web.token as well"
        yield ConfigProblem(path=("chats", "web", setting), text=text)
    rooms: dict[Path, str] = {("rooms", room): room for room in config.rooms if room != "*"}
    yield from room_problems(config.chats.naming(), rooms, 'a platform, or "*" for all')
    yield from people_problems(config)
    usual = config.limits.limits()
    groups: dict[Path, PersonLimits] = {("limits",): usual}
    for name, role in config.roles.items():
        groups["roles", name] = role.role(name, usual).limits
    for path, limits in groups.items():
        if limits.queued_per_person > limits.open_per_person:
            most = limits.open_per_person  # named in the message, because it may be a default
            text = (
                f"{limits.queued_per_person} is more than open_per_person; set it to {most} or less"
            )
            yield ConfigProblem(path=(*path, "queued_per_person"), text=text)
