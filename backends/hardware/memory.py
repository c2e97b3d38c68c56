"""Measures the cards of this machine through NVIDIA's NVML.

It reports only the free memory of the whole card: per-process figures are wrong in containers and
on Windows. A card that cannot be measured is no error; the configured memory is used instead.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pynvml

from backends.hardware.driver_calls import DriverCalls
from queueing.core.catalog import HostSpec

log = logging.getLogger(__name__)

TIMEOUT_S = 3.0  # calls take up to 50 ms, but seconds or for ever when a card is faulty
MB = 1024 * 1024
BEGIN_ANEW = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
    }
)
Value = TypeVar("Value")


class Nvml(Protocol):
    """The part of the `pynvml` module that is used."""

    def nvmlInit(self) -> None:  # noqa: N802 - NVIDIA's name
        """Initialise NVML; calls are counted, so once is enough."""

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVIDIA's name
        """Shut NVML down."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - NVIDIA's name
        """Return a card by its bus index, regardless of CUDA_VISIBLE_DEVICES."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802 - NVIDIA's name
        """Return a card by its permanent UUID."""

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802 - NVIDIA's name
        """Return `total` and `free` in bytes."""


class NvmlProbe:
    """Implements `queueing.core.ports.MemoryProbe`; a failing card never raises.

    NVML is initialised on the first call.
    """

    def __init__(self, *, nvml: Nvml = pynvml, timeout_s: float = TIMEOUT_S) -> None:
        self._nvml = nvml
        self._begun = False
        self._calls = DriverCalls(timeout_s)

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's card in MB; None if there is no card to measure."""
        card = host.gpu
        if card is None:
            return None
        what = f"measure the memory of card {card}"
        return await self._calls.try_to(what, lambda: self._measure(card))

    async def ask(self, card: str, question: Callable[[Any, Any], Value]) -> Value | None:
        """Return the answer of a question to a card, asked of NVML and its handle; None for none."""
        what = f"see what uses card {card}"
        return await self._calls.try_to(what, lambda: self._answer(card, question))

    def _answer(self, card: str, question: Callable[[Any, Any], Value]) -> Value:
        if not self._begun:
            self._nvml.nvmlInit()
            self._begun = True
        return question(self._nvml, self._handle(card))

    async def aclose(self) -> None:
        """Release NVML. Idempotent."""
        if self._begun:
            try:
                await self._calls.make(self._end)
            except (pynvml.NVMLError, TimeoutError) as error:
                log.debug("NVML did not end: %s", error)

    def _measure(self, card: str) -> tuple[int, int]:
        try:
            if not self._begun:
                self._nvml.nvmlInit()
                self._begun = True
            info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle(card))
        except pynvml.NVMLError as error:
            if error.value in BEGIN_ANEW:
                self._end()  # a card that fell off the bus is found again only after reinitialising
            raise
        return int(info.total) // MB, int(info.free) // MB

    def _handle(self, card: str) -> Any:
        if card.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(card))
        return self._nvml.nvmlDeviceGetHandleByUUID(card)

    def _end(self) -> None:
        if self._begun:
            self._begun = False
            self._nvml.nvmlShutdown()
