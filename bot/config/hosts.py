"""The settings of hosts and their servers: memory, waking and sleeping, and quiet hours."""

import re
from ipaddress import IPv4Address
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)

from bot.config.reading.forms import BaseUrl, Gpu
from bot.config.reading.tokens import Secret
from bot.config.reading.values import (
    Duration,
    GpuName,
    Idle,
    Megabytes,
    Name,
    Section,
    Split,
    Url,
    megabytes_or_auto,
)
from queueing.core.catalog import near
from queueing.core.quiet_hours import DAY_MIN, WeeklyWindow
from queueing.core.specs import HostSpec, SleepSpec, WakeSpec

_HOST = HostSpec(name="", vram_mb=0, backends=())
_WAKE = WakeSpec(mac="")
YIELDS_ABOVE_MB = 1024  # a desktop and its windows hold less, a game holds more
_MAC = re.compile(r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|[0-9a-f]{12}", re.IGNORECASE)


def _mac(value: object) -> object:
    if not _MAC.fullmatch(str(value)):
        raise ValueError('must be a hardware address such as "00:1a:2b:3c:4d:5e", in quotes')
    return re.sub("[:-]", "", str(value)).casefold()


def _broadcast(value: object) -> object:
    try:
        return str(IPv4Address(str(value)))
    except ValueError:
        raise ValueError("must be an IPv4 address such as 192.168.1.255") from None


class WakeConfig(Section):
    """A machine that is woken over the network: its hardware address, and where to send the packet.

    `takes` is how long its servers need until they answer. The actual time is learned.
    """

    mac: Annotated[str, BeforeValidator(_mac)]
    broadcast: Annotated[str, BeforeValidator(_broadcast)] = _WAKE.broadcast
    port: Annotated[int, Field(ge=1, le=65535)] = _WAKE.port
    takes: Annotated[Duration, Field(gt=0)] = _WAKE.takes_s

    def spec(self) -> WakeSpec:
        """Return the queue's form of these settings."""
        return WakeSpec(mac=self.mac, broadcast=self.broadcast, port=self.port, takes_s=self.takes)


class SleepConfig(Section):
    """A machine that is put to sleep after it has been idle: by a command or by a webhook."""

    after: Annotated[Duration, Field(ge=60)]
    command: tuple[str, ...] = ()
    webhook: Url | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) is (self.webhook is not None):
            raise ValueError("needs either `command` or `webhook`")
        return self

    def spec(self) -> SleepSpec:
        """Return the queue's form of these settings."""
        return SleepSpec(after_s=self.after, command=self.command, webhook=self.webhook or "")


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORM = 'must be days and hours, such as "Mon-Fri 18:00-23:00"'
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z,\s-]+?)\s+)?(?P<begins>\d\d?:\d\d)\s*-\s*(?P<ends>\d\d?:\d\d)"
)
_TIME = re.compile(r"(\d\d?):(\d\d)")


def windows(value: object) -> object:
    """Parse a text, or a list of texts, as weekly windows."""
    texts = value if isinstance(value, list | tuple) else [value]
    return tuple(_window(part) for text in texts for part in str(text).split(";") if part.strip())


def _window(text: str) -> WeeklyWindow:
    match = _WINDOW.fullmatch(text.strip().casefold())
    if match is None:
        raise ValueError(FORM)
    begins_min, ends_min = _minutes(match["begins"]), _minutes(match["ends"])
    if begins_min in {ends_min, DAY_MIN}:
        raise ValueError("must not end at the time it begins; a whole day is 00:00-24:00")
    return WeeklyWindow(_days(match["days"]), begins_min, ends_min)


def _minutes(text: str) -> int:
    hour, minute = (int(part) for part in _TIME.findall(text)[0])
    minutes = hour * 60 + minute
    if minute > 59 or minutes > DAY_MIN:
        raise ValueError(f"must have times of day: {text} is not one")
    return minutes


def _days(text: str | None) -> frozenset[int]:
    """Return the days in a list such as "mon-wed, sat"; every day if there is no list."""
    if text is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = (name.strip() for name in part.partition("-"))
        begin, end = _day(first), _day(last or first)
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(found)


def _day(name: str) -> int:
    if name not in DAYS:
        raise ValueError(f"{FORM}: {name!r} is not a day")
    return DAYS.index(name)


def zone(name: str) -> str:
    """Return a time zone's name. Raises `ValueError` if this machine does not know it."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            text = "this machine has no time zone data: install the Python package tzdata"
            raise ValueError(text) from None
        meant = near(name, sorted(known), most=1, alike=0.6)
        hint = f"did you mean {meant[0]}?" if meant else "such as Europe/Berlin"
        raise ValueError(f"there is no time zone {name!r}; {hint}") from None
    return name


QuietWindows = Annotated[tuple[WeeklyWindow, ...], BeforeValidator(windows)]
Zone = Annotated[str, AfterValidator(zone)]


# ---------------------------------------------------------------- hosts and their servers


def _yielding(value: object) -> object:
    """Read true as the usual size of a game; false and "off" mean never."""
    if value is True:
        return YIELDS_ABOVE_MB
    return None if value in ("off", False) else megabytes_or_auto(value)


class BackendConfig(Section):
    """An inference server. Further settings belong to its kind, which checks them.

    Without `discover`, its models are discovered if the configuration names none for it. On a
    machine with several GPUs, `gpus` are those it uses, and `split` is how it divides models among
    them.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    kind: str
    url: BaseUrl | None = None
    token: Secret = None
    parallel: Annotated[int, Field(ge=1, le=10_000)] | None = None
    discover: bool | None = None
    gpus: tuple[GpuName, ...] | None = None
    split: Split = ()
    unload_after_s: Idle | None = Field(default=None, alias="idle_unload")


class GpuConfig(Section):
    """One GPU of a machine with several."""

    vram_mb: Megabytes = Field(alias="vram")
    margin: Annotated[float, Field(gt=0, le=1)] | None = None
    gpu: Gpu | None = None


class HostConfig(Section):
    """A memory budget: a GPU, or a machine without one, and the servers that share it.

    A machine with several `gpus` has a budget for each of them.
    """

    gpus: dict[GpuName, GpuConfig] = Field(default_factory=dict)
    vram_mb: Megabytes | None = Field(default=None, alias="vram")
    margin: Annotated[float, Field(gt=0, le=1)] = _HOST.margin
    gpu: Gpu | None = None
    unload_after_s: Idle | None = Field(default=None, alias="idle_unload")
    quiet: QuietWindows = ()
    yields_above_mb: Annotated[int | None, BeforeValidator(_yielding)] = Field(
        default=None, alias="yield_to_others"
    )
    timezone: Zone | None = None
    wake: WakeConfig | None = None
    sleep: SleepConfig | None = None
    load_ahead: bool = False
    backends: dict[Name, BackendConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if self.gpus and (self.vram_mb is not None or self.gpu is not None):
            raise ValueError("`gpus`: set `vram` and `gpu` on each GPU, not on the host")
        return self

    @model_validator(mode="after")
    def _wakes_again(self) -> Self:
        if self.sleep is not None and self.wake is None:
            raise ValueError("sleep: nothing would wake it: set `wake` as well")
        return self
