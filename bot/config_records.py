"""Every setting: its type, its bounds, its default; and the catalog a configuration becomes.

Each record is right in itself; what must fit together is checked in `bot.config_checks`.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from backends import KINDS, Kind
from bot.access import Limits
from queueing.catalog import BackendSpec, Catalog, HostSpec, ModelSpec, Timeouts
from queueing.requests import Capability
from queueing.world import Rules

_MODEL = ModelSpec(name="", backends=(), capabilities=frozenset())
_HOST = HostSpec(name="", vram_mb=0, backends=())
_TIMEOUTS = Timeouts()
_RULES = Rules()
_LIMITS = Limits()
_PARALLEL = 4  # of one model, where its servers could do more: what they do unasked


# ---------------------------------------------------------------- values


def _megabytes(value: object) -> object:
    """Read "24GB" as 24 × 1024 MB, the way makers of cards count."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([GM])i?B\s*", str(value), re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size with its unit, such as 24GB or 8192MB")
    size = float(match[1]) * (1024 if match[2].upper() == "G" else 1)
    if not 1 <= size <= 2**40:
        raise ValueError("must be a size a computer can have")
    return int(size)


def _megabytes_or_auto(value: object) -> object:
    return None if value == "auto" else _megabytes(value)


def _seconds_or_none(value: object) -> object:
    return None if value == "none" else value


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address such as http://127.0.0.1:8188")
    parts.port  # noqa: B018  raises ValueError for a port out of range
    return value.rstrip("/")


def _person(value: object) -> object:
    if not re.fullmatch(r"[a-z]+:\S+", str(value)):
        raise ValueError("must name platform and id, such as telegram:42")
    return value


def _beside(value: Path, info: ValidationInfo) -> Path:
    """Read a relative path as beside the configuration file, wherever the bot is started."""
    return Path((info.context or {}).get("folder", "")) / value


Megabytes = Annotated[int, BeforeValidator(_megabytes)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
Limit = Annotated[Seconds | None, BeforeValidator(_seconds_or_none)]
Url = Annotated[str, AfterValidator(_web_address)]
Name = Annotated[str, StringConstraints(pattern=r"^[^\s=/\-][^\s=]*$", max_length=100)]
"""A name a person types in a chat: no blanks and no "=", which separate it from the prompt."""


class Section(BaseModel):
    """A group of settings; an empty one (`web:`) means its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        groups = {name for name, field in cls.model_fields.items() if _is_group(field.annotation)}
        filled = {
            key: {} if value is None and key in groups else value for key, value in data.items()
        }
        return {key: value for key, value in filled.items() if value is not None}


def _is_group(annotation: Any) -> bool:
    return any(
        isinstance(kind, type) and issubclass(kind, Section)
        for kind in (annotation, *get_args(annotation))
    )


# ---------------------------------------------------------------- hosts and models


class BackendConfig(Section):
    """An inference server. Further settings belong to its kind and are checked by it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    kind: str
    url: Url | None = None
    token: SecretStr | None = None
    parallel: Annotated[int, Field(ge=1, le=10_000)] | None = None
    discover: bool = False


class HostConfig(Section):
    """One memory budget: a card, or a machine without one, and the servers that share it."""

    vram_mb: Megabytes = Field(alias="vram")
    margin: Annotated[float, Field(gt=0, le=1)] = _HOST.margin
    gpu: Annotated[str, Field(coerce_numbers_to_str=True)] | None = None
    backends: dict[Name, BackendConfig] = Field(min_length=1)


class TimeoutsConfig(Section):
    """How long a server may be silent; `none` for no limit."""

    load_s: Seconds = _TIMEOUTS.load_s
    first_s: Limit = _TIMEOUTS.first_s
    idle_s: Limit = _TIMEOUTS.idle_s
    total_s: Limit = _TIMEOUTS.total_s


class ModelConfig(Section):
    """A model people can name. Further settings belong to the kind of its servers."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    backends: tuple[str, ...] = Field(min_length=1)
    capabilities: frozenset[Capability] | None = None
    aliases: tuple[Name, ...] = ()
    vram_mb: Annotated[int | None, BeforeValidator(_megabytes_or_auto)] = Field(
        default=None, alias="vram"
    )
    parallel: Annotated[int, Field(ge=1, le=10_000)] | None = None
    load_s: Seconds = _MODEL.load_s
    service_s: Seconds = _MODEL.service_s
    max_attempts: Annotated[int, Field(ge=1, le=100)] = _MODEL.max_attempts
    max_waiting: Annotated[int, Field(ge=1)] = _MODEL.max_waiting
    preload: bool = _MODEL.preload
    timeouts: TimeoutsConfig = TimeoutsConfig()

    @model_validator(mode="before")
    @classmethod
    def _workflow_beside(cls, data: Any, info: ValidationInfo) -> Any:
        """Find the operator's own workflow file; other names are those Usher brings along."""
        named = data.get("workflow") if isinstance(data, dict) else None
        if not isinstance(named, str):
            return data
        own = _beside(Path(named), info)
        return {**data, "workflow": str(own)} if own.is_file() else data


class DefaultsConfig(Section):
    """The models taken when a command names none; without a name, the first able one."""

    image: str | None = None
    ask: str | None = None


# ---------------------------------------------------------------- chats


class DiscordConfig(Section):
    """The Discord bot."""

    token: SecretStr = Field(min_length=1)


class TelegramConfig(Section):
    """The Telegram bot; `api_url` names a Bot API server of one's own."""

    token: SecretStr = Field(min_length=1)
    api_url: Url | None = None


class WebConfig(Section):
    """The web chat; beyond this machine it needs a token.

    `names` are further host names it is reached by, such as a proxy's.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    names: tuple[str, ...] = ()
    token: SecretStr | None = Field(default=None, min_length=8)


class ChatsConfig(Section):
    """The chats the bot is in; those left out are off."""

    discord: DiscordConfig | None = None
    telegram: TelegramConfig | None = None
    web: WebConfig | None = None


# ---------------------------------------------------------------- the rest


class LimitsConfig(Section):
    """How much one person may ask for at once."""

    open_per_person: Annotated[int, Field(ge=1)] = _LIMITS.open_per_person
    in_line_per_person: Annotated[int, Field(ge=1)] = _LIMITS.in_line_per_person


class LaneWeightsConfig(Section):
    """How many jobs of each lane start in turn, where several lanes of a model wait."""

    vip: Annotated[int, Field(ge=1)] = _RULES.lane_weights["vip"]
    normal: Annotated[int, Field(ge=1)] = _RULES.lane_weights["normal"]
    relaxed: Annotated[int, Field(ge=1)] = _RULES.lane_weights["relaxed"]


class SchedulingConfig(Section):
    """The scheduler's settings; the defaults are the measured ones."""

    patience: Annotated[float, Field(ge=0)] = _RULES.patience
    age_limit_s: Annotated[float, Field(ge=0)] = _RULES.age_limit_s
    gate: bool = _RULES.gate
    replicate: bool = _RULES.replicate
    replicate_ratio: Annotated[float, Field(gt=0)] = _RULES.replicate_ratio
    lane_weights: LaneWeightsConfig = LaneWeightsConfig()

    def rules(self) -> Rules:
        """Return the planner's rules."""
        return Rules(**self.model_dump())


class RetentionConfig(Section):
    """How long delivered work stays, for `/show` and its buttons: by age and by size."""

    days: Annotated[float, Field(gt=0, le=36500)] = 7
    size_mb: Megabytes = Field(default=20 * 1024, alias="size")


class LoggingConfig(Section):
    """What the log says and how: lines for people, or JSON for a collector."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(Section):
    """A whole configuration, valid in itself."""

    database: Annotated[Path, AfterValidator(_beside)] = Field(
        default=Path("usher.sqlite"), validate_default=True
    )
    hosts: dict[Name, HostConfig] = Field(min_length=1)
    models: dict[Name, ModelConfig] = {}
    defaults: DefaultsConfig = DefaultsConfig()
    chats: ChatsConfig = ChatsConfig()
    admins: tuple[Annotated[str, BeforeValidator(_person)], ...] = ()
    limits: LimitsConfig = LimitsConfig()
    scheduling: SchedulingConfig = SchedulingConfig()
    retention: RetentionConfig = RetentionConfig()
    logging: LoggingConfig = LoggingConfig()

    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what works but is probably not meant, one sentence each."""
        return self._warnings

    def with_warnings(self, warnings: tuple[str, ...]) -> Self:
        """Return a copy that carries those warnings."""
        copy = self.model_copy()
        copy._warnings = warnings  # noqa: SLF001  a copy of ourselves
        return copy

    @property
    def database_url(self) -> str:
        """Return the database's address as the store takes it."""
        return f"sqlite:///{self.database.as_posix()}"

    def secrets(self) -> frozenset[str]:
        """Return every value that must never be seen: tokens, and passwords within addresses."""
        servers = [b for host in self.hosts.values() for b in host.backends.values()]
        chats = (self.chats.discord, self.chats.telegram, self.chats.web)
        tokens = [part.token for part in (*servers, *chats) if part and part.token]
        urls = [urlsplit(server.url) for server in servers if server.url]
        return frozenset(
            {token.get_secret_value() for token in tokens}
            | {url.password for url in urls if url.password}
        )

    def catalog(self) -> Catalog:
        """Return the hosts, backends and models in the queue's own terms."""
        kind_of = {
            name: backend.kind
            for host in self.hosts.values()
            for name, backend in host.backends.items()
        }
        return Catalog(
            (_model_spec(name, model, kind_of) for name, model in self.models.items()),
            (_host_spec(name, host) for name, host in self.hosts.items()),
        )


def _host_spec(name: str, host: HostConfig) -> HostSpec:
    backends = tuple(_backend_spec(name, backend) for name, backend in host.backends.items())
    return HostSpec(
        name=name, vram_mb=host.vram_mb, margin=host.margin, gpu=host.gpu, backends=backends
    )


def _backend_spec(name: str, backend: BackendConfig) -> BackendSpec:
    kind = KINDS[backend.kind]
    token = {"token": backend.token.get_secret_value()} if backend.token else {}
    return BackendSpec(
        name=name,
        kind=backend.kind,
        url=backend.url or "",
        parallel=backend.parallel or kind.parallel,
        serial=kind.serial,
        discover=backend.discover,
        options={**backend.__pydantic_extra__, **token},
    )


def _model_spec(name: str, model: ModelConfig, kind_of: Mapping[str, str]) -> ModelSpec:
    kinds = [KINDS[kind_of[backend]] for backend in model.backends]
    return ModelSpec(
        name=name,
        backends=model.backends,
        capabilities=model.capabilities or _usual_capabilities(kinds),
        aliases=model.aliases,
        vram_mb=model.vram_mb,
        parallel=model.parallel or min(_PARALLEL, *(kind.parallel for kind in kinds)),
        load_s=model.load_s,
        service_s=model.service_s,
        max_attempts=model.max_attempts,
        max_waiting=model.max_waiting,
        preload=model.preload,
        timeouts=Timeouts(**model.timeouts.model_dump()),
        options=model.__pydantic_extra__,
    )


def _usual_capabilities(kinds: Iterable[Kind]) -> frozenset[Capability]:
    """Return what models of these kinds can surely do; seeing pictures must be stated."""
    able = frozenset.intersection(*(kind.capabilities for kind in kinds))
    return able & {Capability.TEXT_TO_IMAGE, Capability.TEXT_TO_TEXT}
