"""The groups of settings: each setting's type, bounds and default.

Each group is validated by itself; `bot.config.checks` validates how they fit together.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    model_validator,
)

from bot.config.reading.forms import ApiUrl, HostName, OwnHost, RoleId
from bot.config.reading.tokens import Secret, long_enough
from bot.config.reading.values import (
    Duration,
    GpuName,
    HostPort,
    Idle,
    Limit,
    Megabytes,
    Name,
    Network,
    Origin,
    PageOrigin,
    Quota,
    Room,
    Seconds,
    Section,
    Split,
    Wait,
    Whole,
    beside,
    is_file,
    megabytes_or_auto,
    person,
    workflow_file,
)
from bot.core.live_settings import BUSY_AFTER_S, DAYS, HISTORY_S, IDLE_S, KEPT_MB
from bot.http.addresses import host_and_port, is_every_address, opened_by
from bot.people.access import PersonLimits, Role
from queueing.core.requests import Capability
from queueing.core.snapshot import LONG_QUEUE, Rules
from queueing.core.specs import ModelSpec, Timeouts

_MODEL = ModelSpec(name="", backends=(), capabilities=frozenset())
_TIMEOUTS = Timeouts()
_RULES = Rules()
_LIMITS = PersonLimits()
LaneName = Literal["vip", "normal", "relaxed"]
_HELD = ("role", "member")
WORKFLOWS = ("workflow", "image_workflow", "edit_workflow")  # options that name files


# ---------------------------------------------------------------- models


def _off(value: object) -> object:
    """Read "off" as None."""
    return None if value in ("off", False) else value  # no set lookup: the value may be unhashable


class TimeoutsConfig(Section):
    """How long a server may be silent; `none` for no limit."""

    load_s: Seconds = _TIMEOUTS.load_s
    first_s: Limit = _TIMEOUTS.first_s
    idle_s: Limit = _TIMEOUTS.idle_s
    total_s: Limit = _TIMEOUTS.total_s


class MostConfig(Section):
    """What one request to a model may ask for.

    By default, four times the model's own defaults.
    """

    pixels: Annotated[int, Field(ge=64 * 64)] | None = None
    steps: Whole | None = None
    count: Whole | None = None
    seconds: Seconds | None = None
    frames: Whole | None = None


class ModelConfig(Section):
    """A model people can name. Further settings belong to the kind of its servers."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    backends: tuple[str, ...] = Field(min_length=1)
    capabilities: frozenset[Capability] | None = None
    aliases: tuple[Name, ...] = ()
    vram_mb: Annotated[int | None, BeforeValidator(megabytes_or_auto)] = Field(
        default=None, alias="vram"
    )
    parallel: Annotated[int, Field(ge=1, le=10_000)] | None = None
    copies: Annotated[int, Field(ge=1, le=64)] = _MODEL.copies
    load_s: Seconds | None = _MODEL.load_s
    service_s: Seconds | None = _MODEL.service_s
    max_attempts: Annotated[int, Field(ge=1, le=100)] = _MODEL.max_attempts
    max_waiting: Whole = _MODEL.max_waiting
    preload: bool = _MODEL.preload
    gpus: tuple[GpuName, ...] | None = None
    split: Split = ()
    unload_after_s: Idle | None = Field(default=None, alias="idle_unload")
    enhance: Annotated[str | None, BeforeValidator(_off)] = _MODEL.enhance
    timeouts: TimeoutsConfig = TimeoutsConfig()
    most: MostConfig = MostConfig()

    @model_validator(mode="before")
    @classmethod
    def _workflow_beside(cls, data: Any, info: ValidationInfo) -> Any:
        """Resolve the paths of the operator's workflow files.

        Other names refer to those shipped with Usher.
        """
        if not isinstance(data, dict):
            return data
        named = {key: data[key] for key in WORKFLOWS if isinstance(data.get(key), str)}
        files = {key: beside(Path(name), info) for key, name in named.items()}
        return {**data, **{key: str(file) for key, file in files.items() if is_file(file)}}

    @model_validator(mode="after")
    def _with_digests(self) -> Self:
        """Record digests of the operator's workflow files.

        The others belong to this version of Usher.
        """
        options = self.__pydantic_extra__ or {}
        for key in WORKFLOWS:
            if isinstance(name := options.get(key), str) and is_file(Path(name)):
                options[key] = workflow_file(Path(name))
        return self


class DefaultsConfig(Section):
    """The models used when a command names none. Without a name, the first suitable one."""

    image: str | None = None
    edit: str | None = None
    video: str | None = None
    music: str | None = None
    speak: str | None = None
    transcribe: str | None = None
    ask: str | None = None


# ---------------------------------------------------------------- the rest


class LimitsConfig(Section):
    """How much one person may request; `none` for no limit.

    A wait longer than `busy_after_s` is announced at once, with the models that are free.
    """

    open_per_person: Whole = _LIMITS.open_per_person
    queued_per_person: Whole = _LIMITS.queued_per_person
    embeddings_open: Whole = _LIMITS.embeddings_open
    per_hour: Quota = _LIMITS.per_hour
    gpu_seconds_per_day: Limit = _LIMITS.gpu_seconds_per_day
    lane: LaneName = "normal"
    files_per_hour_mb: Room = Field(default=1024, alias="files_per_hour")
    busy_after_s: Annotated[float, Field(ge=0)] = BUSY_AFTER_S

    def limits(self) -> PersonLimits:
        """Return the limits of people without a role."""
        return PersonLimits(**self.model_dump(exclude={"busy_after_s", "files_per_hour_mb"}))


class OwnLimitsConfig(Section):
    """Limits of some people. Settings left out are inherited."""

    open_per_person: Whole | None = None
    queued_per_person: Whole | None = None
    embeddings_open: Whole | None = None
    per_hour: Quota = None
    gpu_seconds_per_day: Limit = None
    lane: LaneName | None = None

    def given(self) -> Mapping[str, Any]:
        """Return the limits that are set, None for no limit."""
        return self.model_dump(include=self.model_fields_set & OwnLimitsConfig.model_fields.keys())


class RoleConfig(OwnLimitsConfig):
    """People with their own limits. Settings left out are inherited from `limits`."""

    members: tuple[Annotated[str, BeforeValidator(person)], ...] = ()
    discord_roles: tuple[RoleId, ...] = ()

    def role(self, name: str, usual: PersonLimits) -> Role:
        """Return the role. `usual` are the limits it inherits."""
        # The role @everyone has the server's id, and arrives as membership.
        roles = (f"discord-{kind}:{id_}" for id_ in self.discord_roles for kind in _HELD)
        return Role(
            name=name,
            limits=replace(usual, **self.given()),
            members=frozenset({*self.members, *roles}),
        )


class LaneWeightsConfig(Section):
    """How many jobs each lane starts in turn, when several lanes of a model have waiting jobs."""

    vip: Whole = _RULES.lane_weights["vip"]
    normal: Whole = _RULES.lane_weights["normal"]
    relaxed: Whole = _RULES.lane_weights["relaxed"]


class SchedulingConfig(Section):
    """The scheduler's settings. The defaults come from measurements."""

    patience: Annotated[float, Field(ge=0)] = _RULES.patience
    age_limit_s: Annotated[float, Field(ge=0)] = _RULES.age_limit_s
    gate: bool = _RULES.gate
    replicate: bool = _RULES.replicate
    replicate_ratio: Annotated[float, Field(gt=0)] = _RULES.replicate_ratio
    order: Literal["fifo", "fair"] = _RULES.order
    overtaken_s: Annotated[float, Field(ge=0)] = _RULES.overtaken_s
    lane_weights: LaneWeightsConfig = LaneWeightsConfig()

    def rules(self) -> Rules:
        """Return the planner's rules."""
        return Rules(**self.model_dump())


class WaitingConfig(Section):
    """How long a job may wait to start before it fails, by its source; `none`: no limit."""

    chat: Wait = None
    api: Wait = 24 * 3600.0
    later: Wait = 7 * 24 * 3600.0


class ConversationConfig(Section):
    """How long a private chat continues its last conversation without a reply; 0: never."""

    idle: Duration = IDLE_S


class ApiConfig(Section):
    """The HTTP API for programs; off if this section is missing.

    - `url` is the address people reach it by; `names` are further host names.
    - `proxies` are the proxies trusted to name the client.
    - `cors` are the origins of pages that may call it.
    - `webhooks` are the origins of programs that may be called when a job ends.
    - `open` requires no key, so other machines must not be able to reach the API.
    - With `fetch`, images in requests may be given as addresses.
    """

    host: OwnHost = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8081
    url: ApiUrl | None = None
    names: tuple[HostName, ...] = ()
    proxies: tuple[Network, ...] = ()
    cors: tuple[PageOrigin, ...] = ()
    webhooks: tuple[Origin, ...] = ()
    open: bool = False
    fetch: bool = False
    hold_s: Seconds = 240
    wait_s: Seconds = 1800

    def all_names(self) -> tuple[str, ...]:
        """Return every host name it is reached by."""
        own = urlsplit(self.url).hostname if self.url else None
        return (*self.names, own) if own else self.names

    @model_validator(mode="after")
    def _closed(self) -> Self:
        setting = opened_by(self.host, url=self.url, names=self.names, proxies=self.proxies)
        if self.open and setting:
            raise ValueError(
                f"open: other machines can reach the API through its {setting}; without a key it must stay on this machine"
            )
        return self


class MetricsConfig(Section):
    """Where Prometheus reads metrics; off if this section is missing.

    Other machines need the token to read them.
    """

    host: OwnHost = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9464
    token: Annotated[Secret, AfterValidator(long_enough)] = None

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if self.token is None and opened_by(self.host):
            raise ValueError("token: required if other machines can read the metrics")
        return self


class ClusterConfig(Section):
    """Several processes on one database: how long a silent process keeps its leases, in seconds.

    `listen` is where a process accepts connections from the others, by default the address from
    which it reaches the database. `advertise` is the address the others use instead.
    """

    lease_s: Annotated[float, Field(ge=1, le=600)] = 15
    listen: HostPort = None
    advertise: HostPort = None

    @property
    def heartbeat_s(self) -> float:
        """The interval in seconds between checks of a connection: a third of the lease."""
        return self.lease_s / 3

    @model_validator(mode="after")
    def _callable(self) -> Self:
        called = self.advertise or self.listen
        if called is not None and is_every_address(host_and_port(called)[0]):
            raise ValueError(
                "advertise: 0.0.0.0 and :: cannot be called: name an address of this machine"
            )
        return self


class RetentionConfig(Section):
    """How long delivered work is kept, for `/show` and its buttons: by age and by size.

    `history_s` is how long statistics are kept, which contain nothing about people.
    """

    days: Annotated[float, Field(gt=0, le=36500)] = DAYS
    size_mb: Megabytes = Field(default=KEPT_MB, alias="size")
    history_s: Annotated[Duration, Field(ge=86400)] = Field(default=HISTORY_S, alias="history")


class LoggingConfig(Section):
    """What the log contains and its format: text for people, or JSON for a collector.

    `long_queue` is the number of jobs waiting for a model at which the log warns; 0: never.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    long_queue: Annotated[int, Field(ge=0)] = LONG_QUEUE
