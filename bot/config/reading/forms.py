"""Types of values that are compared later, in the form of what they are compared with.

A host name, a GPU or an id in another form would be accepted and then match nothing. Where only one
meaning is possible, the value is brought into its form; otherwise it is refused.
"""

import re
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from backends.common.proxies import usable
from bot.config.reading.values import Url

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_HOST_WANTED = "must be a host name such as usher.example.org, without scheme, port and path"


def host_name(value: str) -> str:
    """Return a host name as it arrives in requests: in lower case, IPv6 without brackets."""
    text = value.strip().casefold().removesuffix(".")
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if "*" in text:
        raise ValueError("must be a whole host name: list each name, because * matches none")
    if not _HOST_NAME.fullmatch(name := _as_sent(text)):
        raise ValueError(_HOST_WANTED)
    return name


def _own_host(value: str) -> str:
    """Return a host to listen at; "" means every address."""
    try:
        return value and host_name(value)
    except ValueError:
        text = "must be an address of this machine such as 127.0.0.1, without scheme and port"
        raise ValueError(text) from None


def _as_sent(text: str) -> str:
    """Return a name with letters such as "ü" as browsers send it."""
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError(_HOST_WANTED) from None


def _plain(url: str) -> str:
    """Refuse an address to which no path can be appended."""
    parts = urlsplit(url)
    if re.search(r"[{}]", parts.path):
        raise ValueError("must not contain braces")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("must end before the ? or #, because paths are added to it")
    return url


def _without_v1(url: str) -> str:
    return url.removesuffix("/v1").rstrip("/")


def _bot_api(url: str) -> str:
    """Return a Bot API server's address without "/bot", which is added together with the token."""
    if re.search(r"/bot[0-9]+:", url):
        raise ValueError("must end before /bot and the token")
    return url.removesuffix("/bot")


HostName = Annotated[str, AfterValidator(host_name)]
"""A name that requests may have in their Host header."""
OwnHost = Annotated[str, AfterValidator(_own_host)]
"""An address or a name of this machine, to listen at."""
BaseUrl = Annotated[Url, AfterValidator(_plain)]
"""The address of a server, to which paths are added."""
ApiUrl = Annotated[BaseUrl, AfterValidator(_without_v1)]
"""The address of Usher's API, without the "/v1" that is added for programs."""
BotApiUrl = Annotated[BaseUrl, AfterValidator(_bot_api)]
"""The address of a self-hosted Bot API server."""

_GPU_FORMS = (
    (re.compile(r"0*(\d{1,3})"), r"\1"),
    (re.compile(r"gpu-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"), r"GPU-\1"),
    (re.compile(r"mig-(gpu-[0-9a-f-]{36}/\d+/\d+|[0-9a-f-]{36})"), None),
    (re.compile(r"system"), "system"),
    (re.compile(r"amd:0*(\d{1,3})"), r"amd:\1"),
    (re.compile(r"amd:([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"), r"amd:\1"),
    (re.compile(r"amd:([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"), r"amd:0000:\1"),
)
_NUMBERED = re.compile(r"(?:cuda|nvidia|gpu|card)[\s:#-]*(\d{1,3})")
_AMD_NUMBERED = re.compile(r"(?:amd|rocm|hip|radeon)[\s:#-]*(\d{1,3})")


def gpu(value: str) -> str:
    """Return a GPU of this machine in the form in which its driver is asked for it."""
    text = value.strip()
    for form, made in _GPU_FORMS:
        if found := form.fullmatch(text.casefold()):
            return found.expand(made) if made else text
    wanted = "must be NVIDIA's number or UUID, amd:0, amd: with a PCI address, or system"
    if found := _NUMBERED.fullmatch(text.casefold()):
        wanted += f"; for NVIDIA's GPU {int(found[1])}, write {int(found[1])}"
    elif found := _AMD_NUMBERED.fullmatch(text.casefold()):
        wanted += f"; for AMD's GPU {int(found[1])}, write amd:{int(found[1])}"
    raise ValueError(wanted)


Gpu = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(gpu)]
"""A GPU of this machine, or its main memory, to measure."""


def _role_id(value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,19}", value, re.ASCII):
        raise ValueError(
            "must be a role's id, such as 165511591545143296, because names can change"
        )
    return value


RoleId = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(_role_id)]
"""The id of a role on Discord."""


def _word(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a word")
    return value.strip()


Word = Annotated[str, Field(max_length=100), AfterValidator(_word)]
"""A word to find in requests; of blanks alone, it would be in all of them."""

ENVIRONMENT = "environment"
NO_PROXY = "none"


def _proxy(value: object) -> str:
    """Return an address in full, `none` or `environment`."""
    if value in (None, False, NO_PROXY):
        return NO_PROXY
    text = value.strip() if isinstance(value, str) else ""
    return text if text == ENVIRONMENT else usable(text)


Proxy = Annotated[str, BeforeValidator(_proxy)]
"""The address of an HTTP proxy, `none`, or `environment`."""
