"""The settings of machines that sleep: how each is woken, and when and how it is put to sleep."""

import re
from ipaddress import IPv4Address
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from bot.config.values import Duration, Section, Url
from queueing.core.catalog import SleepSpec, WakeSpec

_WAKE = WakeSpec(mac="")
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
    """A machine that is woken over the network: its hardware address, and where to call it.

    `takes` is how long it needs until its servers answer; that is learned.
    """

    mac: Annotated[str, BeforeValidator(_mac)]
    broadcast: Annotated[str, BeforeValidator(_broadcast)] = _WAKE.broadcast
    port: Annotated[int, Field(ge=1, le=65535)] = _WAKE.port
    takes: Annotated[Duration, Field(gt=0)] = _WAKE.takes_s

    def spec(self) -> WakeSpec:
        """Return it in the queue's terms."""
        return WakeSpec(mac=self.mac, broadcast=self.broadcast, port=self.port, takes_s=self.takes)


class SleepConfig(Section):
    """A machine that is put to sleep once it has been idle: by a command, or by a webhook."""

    after: Annotated[Duration, Field(ge=60)]
    command: tuple[str, ...] = ()
    webhook: Url | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) is (self.webhook is not None):
            raise ValueError("needs either `command` or `webhook`")
        return self

    def spec(self) -> SleepSpec:
        """Return it in the queue's terms."""
        return SleepSpec(after_s=self.after, command=self.command, webhook=self.webhook or "")
