"""A whole configuration, and the catalog built from it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, SecretStr

from backends.common.proxies import NO_PROXIES, Proxies
from backends.registry import KINDS, connect
from bot.config.chats import ChatsConfig, RoomConfig, StyleConfig
from bot.config.hosts import BackendConfig, HostConfig, Zone
from bot.config.reading.forms import ENVIRONMENT, Proxy
from bot.config.reading.values import DatabasePlace, DatabaseServer, Name, Section, person
from bot.config.rules import RuleConfig
from bot.config.sections import (
    ApiConfig,
    ClusterConfig,
    ConversationConfig,
    DefaultsConfig,
    LimitsConfig,
    LoggingConfig,
    MetricsConfig,
    ModelConfig,
    RetentionConfig,
    RoleConfig,
    SchedulingConfig,
    WaitingConfig,
)
from bot.people.access import Access
from bot.requests.rules import Rule
from queueing.core.catalog import Catalog
from queueing.core.errors import BadModel
from queueing.core.quiet_hours import QuietHours
from queueing.core.requests import Capability
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec, Timeouts, embedding_spec

_PARALLEL = 4  # jobs of one model at a time, for servers that could run more: most servers' default
_EMBEDS = frozenset({Capability.EMBEDDING, Capability.IMAGE_EMBEDDING})
_STATED = _EMBEDS | {Capability.VISION}
_UNASKED = tuple(able for able in Capability if able not in _STATED)
_WORKFLOWS = frozenset({"comfyui"})  # kinds that learn a model's output from its workflow file
_BY_WORKFLOW = frozenset(
    {
        Capability.IMAGE_EDIT,
        Capability.TEXT_TO_VIDEO,
        Capability.IMAGE_TO_VIDEO,
        Capability.TEXT_TO_AUDIO,
        Capability.TEXT_TO_SPEECH,
        Capability.SPEECH_TO_TEXT,
    }
)


class Config(Section):
    """A whole configuration, valid in itself."""

    timezone: Zone | None = None
    proxy: Proxy = ENVIRONMENT
    database: DatabasePlace = Field(default="usher.sqlite", validate_default=True)
    hosts: dict[Name, HostConfig] = Field(min_length=1)
    models: dict[Name, ModelConfig] = Field(default_factory=dict)
    defaults: DefaultsConfig = DefaultsConfig()
    chats: ChatsConfig = ChatsConfig()
    api: ApiConfig | None = None
    rooms: dict[str, RoomConfig] = Field(default_factory=dict)
    rules: tuple[RuleConfig, ...] = ()
    styles: dict[Name, StyleConfig] = Field(default_factory=dict)
    admins: tuple[Annotated[str, BeforeValidator(person)], ...] = ()
    limits: LimitsConfig = LimitsConfig()
    waiting: WaitingConfig = WaitingConfig()
    conversation: ConversationConfig = ConversationConfig()
    roles: dict[str, RoleConfig] = Field(default_factory=dict)
    scheduling: SchedulingConfig = SchedulingConfig()
    cluster: ClusterConfig = ClusterConfig()
    retention: RetentionConfig = RetentionConfig()
    logging: LoggingConfig = LoggingConfig()
    metrics: MetricsConfig | None = None

    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _proxies: Proxies = PrivateAttr(default=NO_PROXIES)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each setting that works but is probably unintended."""
        return self._warnings

    def with_warnings(self, warnings: tuple[str, ...]) -> Self:
        """Return a copy with those warnings."""
        copy = self.model_copy()
        copy._warnings = warnings  # noqa: SLF001  # a copy of this object
        return copy

    @property
    def proxies(self) -> Proxies:
        """Return the proxies through which other networks are reached."""
        return self._proxies

    def with_proxies(self, proxies: Proxies) -> Self:
        """Return a copy that uses those proxies."""
        copy = self.model_copy()
        copy._proxies = proxies  # noqa: SLF001  # a copy of this object
        return copy

    @property
    def database_url(self) -> str:
        """Return the database's address in the form the store uses."""
        if isinstance(self.database, DatabaseServer):
            return self.database.url.get_secret_value()
        return f"sqlite:///{self.database.as_posix()}"

    @property
    def sign_of_life(self) -> Path:
        """Return the path from which the heartbeat file and the control socket are named."""
        return self.database if isinstance(self.database, Path) else self.database.sign

    @property
    def is_reached(self) -> bool:
        """Whether people can reach the bot at all, over a chat or the HTTP API."""
        return self.chats.any() or self.api is not None

    def secrets(self) -> frozenset[str]:
        """Return every value that must stay secret: tokens, and passwords within addresses."""
        own = (self.proxies.http, self.proxies.https)
        return frozenset((*_secrets(self), *_secrets([each for each in own if each])))

    def access(self) -> Access:
        """Return the rights and limits of people."""
        usual = self.limits.limits()
        roles = [role.role(name, usual) for name, role in self.roles.items()]
        allowed, needed = self.chats.given("allow"), self.chats.given("allow_roles")
        zone = None if self.timezone is None else ZoneInfo(self.timezone)
        named = [name for rule in self.rule_table() for name in rule.who]
        return Access(self.admins, usual, roles, allowed, needed, named=named, zone=zone)

    def rule_table(self) -> tuple[Rule, ...]:
        """Return the rules in order."""
        usual = self.limits.limits()
        members = {name: role.role(name, usual).members for name, role in self.roles.items()}
        return tuple(rule.rule(members) for rule in self.rules)

    def discovering(self) -> frozenset[str]:
        """Return the backends that offer all models on their server."""
        named = {name for model in self.models.values() for name in model.backends}
        return frozenset(
            name
            for host in self.hosts.values()
            for name, backend in host.backends.items()
            if (name not in named if backend.discover is None else backend.discover)
        )

    def catalog(self) -> Catalog:
        """Return the hosts, backends and models as the queue represents them."""
        discovering = self.discovering()
        hosts = [
            spec
            for name, host in self.hosts.items()
            for spec in _host_specs(name, host, self, discovering)
        ]
        backends = {backend.name: backend for host in hosts for backend in host.backends}
        models = [
            _model_spec(name, model, [backends[each] for each in model.backends])
            for name, model in self.models.items()
        ]
        return Catalog(models, hosts)


def _secrets(setting: object) -> Iterator[str]:
    """Yield every secret within a group of settings, under any name and at any depth."""
    match setting:
        case DatabaseServer():
            yield from setting.secrets()
        case SecretStr():
            yield setting.get_secret_value()
        case str() if "://" in setting:
            password = _password(setting)
            yield from {password, unquote(password)}
        case BaseModel():
            for _, value in setting:
                yield from _secrets(value)
            yield from _secrets(setting.__pydantic_extra__)
        case Mapping():
            for value in setting.values():
                yield from _secrets(value)
        case tuple() | list() | frozenset():
            for value in setting:
                yield from _secrets(value)


def _password(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:  # not an address, although it looks like one
        return ""


def _host_specs(
    name: str, host: HostConfig, config: Config, discovering: Collection[str]
) -> list[HostSpec]:
    """Return a host for each GPU; a single host if the machine has one GPU."""
    whole = _host_spec(name, host, config, discovering)
    return [_gpu_spec(whole, gpu, host) for gpu in host.gpus] or [whole]


def _gpu_spec(machine: HostSpec, name: str, host: HostConfig) -> HostSpec:
    gpu = host.gpus[name]
    here = [each for each, backend in host.backends.items() if name in (backend.gpus or ())]
    return replace(
        machine,
        name=f"{machine.name}/{name}",
        machine=machine.name,
        vram_mb=gpu.vram_mb,
        margin=machine.margin if gpu.margin is None else gpu.margin,
        gpu=gpu.gpu,
        backends=tuple(each for each in machine.backends if each.name in here),
    )


def _host_spec(
    name: str, host: HostConfig, config: Config, discovering: Collection[str]
) -> HostSpec:
    zone = host.timezone or config.timezone or "UTC"
    backends = tuple(
        replace(
            _backend_spec(each, backend, tuple(host.gpus), discover=each in discovering),
            proxy=config.proxies.to(backend.url or ""),
        )
        for each, backend in host.backends.items()
    )
    return HostSpec(
        name=name,
        vram_mb=host.vram_mb or 0,
        margin=host.margin,
        gpu=host.gpu,
        idle_unload_s=host.unload_after_s,
        yields_above_mb=host.yields_above_mb,
        quiet=QuietHours(host.quiet, zone) if host.quiet else None,
        wake=None if host.wake is None else host.wake.spec(),
        sleep=None if host.sleep is None else host.sleep.spec(),
        loads_ahead=host.load_ahead,
        backends=backends,
    )


def _backend_spec(
    name: str, backend: BackendConfig, gpus: Sequence[str], *, discover: bool
) -> BackendSpec:
    kind = KINDS[backend.kind]
    token = {"token": backend.token.get_secret_value()} if backend.token else {}
    return BackendSpec(
        name=name,
        kind=backend.kind,
        url=backend.url or "",
        parallel=backend.parallel or kind.parallel,
        serial=kind.serial,
        max_models=kind.max_models,
        offloads=kind.offloads,
        discover=discover,
        idle_unload_s=backend.unload_after_s,
        split=_in_order(gpus, backend.gpus or (), backend.split),
        options={**backend.__pydantic_extra__, **token},
    )


def _in_order(
    gpus: Sequence[str], named: Sequence[str], split: Sequence[float]
) -> tuple[float, ...]:
    """Return a split in the order in which the host lists its GPUs."""
    by_gpu = dict(zip(named, split, strict=False))
    return tuple(by_gpu[gpu] for gpu in gpus if gpu in by_gpu)


def _model_spec(name: str, model: ModelConfig, backends: Sequence[BackendSpec]) -> ModelSpec:
    spec = ModelSpec(
        name=name,
        backends=model.backends,
        capabilities=model.capabilities or frozenset(),
        aliases=model.aliases,
        vram_mb=model.vram_mb,
        parallel=model.parallel or min(_PARALLEL, *(each.parallel for each in backends)),
        copies=model.copies,
        load_s=model.load_s,
        service_s=model.service_s,
        max_attempts=model.max_attempts,
        max_waiting=model.max_waiting,
        preload=model.preload,
        idle_unload_s=model.unload_after_s,
        gpus=model.gpus,
        split=model.split,
        enhance=model.enhance,
        timeouts=Timeouts(**model.timeouts.model_dump()),
        options=model.__pydantic_extra__,
        most=model.most.model_dump(exclude_none=True),
    )
    if model.capabilities is not None:
        embeds = model.capabilities and model.capabilities <= _EMBEDS
        return embedding_spec(spec, but=model.model_fields_set) if embeds else spec
    able = (_accepted(spec, backend) for backend in backends)
    return replace(spec, capabilities=frozenset.intersection(*able))


def _accepted(model: ModelSpec, backend: BackendSpec) -> frozenset[Capability]:
    """Return the capabilities that a kind gives the model, except those the operator must state.

    Whether a model sees images, or makes embeddings instead of answers, cannot be detected from
    here, so it must be stated. The same holds for videos, edits and all audio, unless a workflow
    states them.
    """
    return frozenset(able for able in _UNASKED if _accepts(backend, model, able))


def _accepts(backend: BackendSpec, model: ModelSpec, capability: Capability) -> bool:
    if capability not in KINDS[backend.kind].capabilities:
        return False
    if capability in _BY_WORKFLOW and backend.kind not in _WORKFLOWS:
        return False
    try:
        connect(backend).check(replace(model, capabilities=frozenset({capability})))
    except BadModel:
        return False
    return True
