"""Types of setting values: sizes, times, addresses, names, databases; the base class of groups."""

import hashlib
import re
from dataclasses import dataclass
from ipaddress import ip_network
from math import inf
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from bot.http.addresses import host_and_port


def _megabytes(value: object) -> object:
    """Read "24GB" as 24 × 1024 MB, as GPU makers count."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([GM])i?B\s*", str(value), re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size with its unit, such as 24GB or 8192MB")
    size = float(match[1]) * (1024 if match[2].upper() == "G" else 1)
    if not 1 <= size <= 2**40:
        raise ValueError("must be a size a computer can have")
    return int(size)


def megabytes_or_auto(value: object) -> object:
    """Read "auto" as None, to be measured."""
    return None if value == "auto" else _megabytes(value)


_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def _duration(value: object) -> object:
    """Read "30min" as 1800 seconds. Only a zero needs no unit: 24 may mean hours or seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?\s*", str(value))
    unit_s = _UNITS_S.get(match[2] or "") if match and float(match[1]) else 1
    if match is None or unit_s is None or isinstance(value, bool):
        raise ValueError("must be a time with its unit, such as 30min, 90s, 2h or 90d")
    return float(match[1]) * unit_s


def _idle(value: object) -> object:
    """Read "off" as never and "30min" as 1800 seconds."""
    return inf if value in ("off", False) else _duration(value)  # "off" is false in YAML


def _none(value: object) -> object:
    """Read "none" as no limit."""
    return None if value == "none" else value


def _web_address(value: str) -> str:
    value = value.strip()
    parts = urlsplit(value)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or re.search(r"[\s\\]", value)
        or "*" in parts.hostname
    ):
        raise ValueError("must be an address such as http://127.0.0.1:8188")
    parts.port  # noqa: B018  raises ValueError for a port out of range
    return value.rstrip("/")


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)


def _origin(value: str) -> str:
    """Return a page's origin as browsers write it: scheme, host and port only.

    Some applications have their own schemes, such as app://obsidian.md.
    """
    parts = urlsplit(value)
    plain = f"{parts.scheme}://{parts.netloc}".casefold()
    if (
        not parts.hostname
        or plain != value.casefold()
        or "@" in value
        or not _SCHEME.fullmatch(parts.scheme)
    ):
        raise ValueError(
            "must be an origin such as https://chat.example.net, with nothing after it"
        )
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in {None, usual} else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}"


def person(value: object) -> object:
    """Validate a person's id, such as "telegram:42"."""
    if not re.fullmatch(r"[a-z-]+:\S*", str(value)):
        raise ValueError("must name platform and id, such as telegram:42")
    return value


def _chat_id(value: object) -> object:
    if isinstance(value, bool) or not re.fullmatch(r"-?[1-9][0-9]{0,24}", str(value)):
        raise ValueError("must be a chat's id, such as -1001234567890")
    return str(value)


def beside(value: Path, info: ValidationInfo) -> Path:
    """Resolve a relative path against the configuration file, wherever the bot is started."""
    if "\0" in str(value):
        raise ValueError("must be a path")
    return Path((info.context or {}).get("folder", "")) / value


Megabytes = Annotated[int, BeforeValidator(_megabytes)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
Limit = Annotated[Seconds | None, BeforeValidator(_none)]
Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0, le=1e9)]
Idle = Annotated[float, Field(ge=1, allow_inf_nan=True), BeforeValidator(_idle)]
"""Seconds of idleness after which something ends; `inf` for never."""
Wait = Annotated[Annotated[Duration, Field(gt=0)] | None, BeforeValidator(_none)]
"""A time such as 90s, 30min, 2h or 7d, or `none`."""
Whole = Annotated[int, Field(ge=1)]
Room = Annotated[Megabytes | None, BeforeValidator(_none)]
Quota = Annotated[Whole | None, BeforeValidator(_none)]
Url = Annotated[str, AfterValidator(_web_address)]
PageOrigin = Annotated[str, AfterValidator(_origin)]
Origin = Annotated[str, AfterValidator(_web_address), AfterValidator(_origin)]
ChatId = Annotated[str, BeforeValidator(_chat_id)]
"""A chat's id on its platform; Telegram's groups have negative ones."""
Name = Annotated[str, StringConstraints(pattern=r"^[^\s=/\-][^\s=]*$", max_length=100)]
"""A name that people type in a chat: no spaces and no "=", which separate it from the prompt."""


GpuName = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s=/\-][^\s=/]*$", max_length=40),
    Field(coerce_numbers_to_str=True),
]
"""The name of one GPU on a machine with several, such as 0."""

Split = tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]
"""How a model is divided among GPUs: one part for each."""


def is_file(path: Path) -> bool:
    """Return whether the file exists; False for an impossible file name."""
    try:
        return path.is_file()
    except OSError:
        return False


def _network(text: str) -> str:
    """Refuse a value that is neither an address nor a network."""
    try:
        ip_network(text)
    except ValueError:
        raise ValueError("must be an address or a network, such as 10.0.0.0/8") from None
    return text


Network = Annotated[str, AfterValidator(_network)]
"""An IP address or a network of them."""


def _host_port(text: str) -> str:
    """Refuse a value that is not a host, with or without a port."""
    try:
        host_and_port(text)
    except ValueError:
        raise ValueError("must be a host, or host:port such as 10.0.0.7:8124") from None
    return text


def _auto(value: object) -> object:
    """Read "auto" as None, to be detected."""
    return None if value == "auto" else value


HostPort = Annotated[Annotated[str, AfterValidator(_host_port)] | None, BeforeValidator(_auto)]
"""A host to listen at or to connect to, with or without a port."""


class Section(BaseModel):
    """A group of settings. An empty one (`web:`) means its defaults."""

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


class WorkflowFile(str):
    """The path of a workflow file, with a digest of its contents when the configuration was read.

    Two are equal only if their contents are, so that a changed file counts as a changed setting.
    """

    __slots__ = ("digest",)

    digest: str

    def __eq__(self, other: object) -> bool:
        """Compare the digests too, if both have one."""
        if isinstance(other, WorkflowFile) and other.digest != self.digest:
            return False
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def workflow_file(path: Path) -> WorkflowFile:
    """Return a workflow file with its digest, which is empty if the file cannot be read.

    A later check reports unreadable files.
    """
    made = WorkflowFile(path)
    try:
        made.digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        made.digest = ""
    return made


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_WANTED = "must be a file, or an address such as postgresql://user:password@host/database"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseServer:
    """A database on a server.

    `sign` is the path, next to the configuration, from which the heartbeat file and the control
    socket are named.
    """

    url: SecretStr
    sign: Path

    @property
    def name(self) -> str:
        """The name to show where others can read it."""
        return shown(self.url.get_secret_value())

    def secrets(self) -> frozenset[str]:
        """Return the passwords in the address, in all their encodings."""
        return passwords(self.url.get_secret_value())


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database rather than a file."""
    return _ADDRESS.match(text) is not None


def shown(address: str) -> str:
    """Return the part of an address that may be shown to others: its host and path."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "a database"
    return f"{parts.hostname or 'this machine'}{parts.path}"


def passwords(address: str) -> frozenset[str]:
    """Return the passwords in an address, in all their encodings."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return frozenset()
    given = [parts.password or ""]
    for name, values in parse_qs(parts.query).items():
        if "password" in name:
            given += values
    return frozenset({*given, *map(unquote, given)} - {""})


def _read(value: object, info: ValidationInfo) -> object:
    if isinstance(value, DatabaseServer | Path) or not isinstance(value, str):
        return value
    if not _ADDRESS.match(value):
        return beside(Path(value), info)
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018  raises ValueError for a port out of range
    except ValueError:
        raise ValueError(_WANTED) from None  # its own message could repeat the password
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError(_WANTED)
    return DatabaseServer(url=SecretStr(value), sign=beside(Path("usher.postgresql"), info))


DatabasePlace = Annotated[
    Path | DatabaseServer, BeforeValidator(_read), WithJsonSchema({"type": "string"})
]
