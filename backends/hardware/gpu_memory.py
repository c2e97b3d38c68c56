"""Measures the memory of this machine's GPUs, and its main memory.

A number or UUID as `gpu` names an NVIDIA GPU, measured with NVML. `amd:0`, or `amd:` with a PCI
address, names an AMD GPU, read from the files of Linux's amdgpu driver. `system` is main memory,
for servers without a GPU and for Apple's processors, whose graphics share it. It is read from a
file on Linux, and with psutil elsewhere.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pynvml

from backends.hardware import amd_gpus
from queueing.core.concurrency import in_daemon_thread
from queueing.core.specs import HostSpec

NO_DRIVER = "no NVIDIA driver is installed here"
UNIFIED = "this GPU shares the main memory: set `gpu: system`"
NO_SUCH_GPU = "there is no GPU of this number or UUID; `nvidia-smi -L` lists them"

_INSTEAD = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: NO_DRIVER,
    pynvml.NVML_ERROR_NOT_SUPPORTED: UNIFIED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: NO_SUCH_GPU,
    pynvml.NVML_ERROR_NOT_FOUND: NO_SUCH_GPU,
}
_HELPS = {
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was updated: restart this machine",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "load the driver or restart this machine; in a container, "
    "pass the GPU on",
    pynvml.NVML_ERROR_NO_PERMISSION: "let Usher's account use /dev/nvidia*, for example by the "
    "group video or render",
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU fell off the bus: restart this machine",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset: restart this machine",
    pynvml.NVML_ERROR_UNKNOWN: "if Usher runs in a container, restart the container; otherwise "
    "this machine",
    pynvml.NVML_ERROR_INSUFFICIENT_POWER: "plug in the power cables of the GPU",
    pynvml.NVML_ERROR_IRQ_ISSUE: "restart this machine",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver is too old: update it",
}


def in_words(error: Exception) -> str:
    """Return the driver's own words, and what helps if that is known."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error) or type(error).__name__
    if (instead := _INSTEAD.get(error.value)) is not None:
        return instead
    helps = _HELPS.get(error.value)
    return f"{error}; {helps}" if helps else str(error)


log = logging.getLogger(__name__)

HUNG = "the driver does not answer"

Value = TypeVar("Value")


class DriverCalls:
    """Makes one driver call at a time, so that a hanging driver blocks only one thread.

    Each fault is logged once until the call works again. `faults` contains the current ones.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        self._hangs = False
        self.faults: dict[str, str] = {}

    async def try_to(self, what: str, call: Callable[[], Value]) -> Value | None:
        """Return a blocking call's result, or None if it fails. `what` names it in the log."""
        try:
            found = await self.make(call)
        except (pynvml.NVMLError, OSError, ValueError) as error:  # TimeoutError is an OSError
            fault = in_words(error)
            if self.faults.get(what) != fault:
                self.faults[what] = fault
                log.warning("cannot %s: %s", what, fault)
            return None
        self.faults.pop(what, None)
        return found

    async def make(self, call: Callable[[], Value]) -> Value:
        """Return a blocking call's result, or raise its exception.

        Raises `TimeoutError` if it takes too long, and immediately while an earlier call hangs.
        """
        async with self._turn:
            if self._hangs:
                raise TimeoutError(HUNG)
            self._hangs = True
            answer = in_daemon_thread(call, "driver")
            answer.add_done_callback(self._ended)
            ended, _ = await asyncio.wait([answer], timeout=self._timeout_s)
            if not ended:
                raise TimeoutError(HUNG)
            return answer.result()

    def _ended(self, _: object) -> None:
        self._hangs = False


TIMEOUT_S = 3.0  # calls take up to 50 ms, but may hang if a GPU is faulty
MB = 1024 * 1024
BEGIN_ANEW = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
    }
)


class Nvml(Protocol):
    """The part of the `pynvml` module that is used."""

    def nvmlInit(self) -> None:  # noqa: N802 - NVIDIA's name
        """Initialise NVML. Initialisations are counted, so one call is enough."""

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVIDIA's name
        """Shut NVML down."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802 - NVIDIA's name
        """Return a GPU by its bus index, regardless of CUDA_VISIBLE_DEVICES."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802 - NVIDIA's name
        """Return a GPU by its permanent UUID."""

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802 - NVIDIA's name
        """Return an object with `total` and `free` in bytes."""


class NvmlProbe:
    """Implements `queueing.core.ports.MemoryProbe`. Never raises, even if a GPU fails.

    NVML is initialised on the first call.
    """

    def __init__(self, *, nvml: Nvml = pynvml, timeout_s: float = TIMEOUT_S) -> None:
        self._nvml = nvml
        self._begun = False
        self._calls = DriverCalls(timeout_s)

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) of the host's GPU in MB; None if there is no GPU to measure."""
        gpu = host.gpu
        if gpu is None:
            return None
        return await self._calls.try_to(_measuring(f"GPU {gpu}"), lambda: self._measure(gpu))

    def why_not(self, gpu: str) -> str:
        """Return why the last measurement of a GPU failed; "" if it did not."""
        return self._calls.faults.get(_measuring(f"GPU {gpu}"), "")

    async def ask(self, gpu: str, question: Callable[[Any, Any], Value]) -> Value | None:
        """Call `question` with NVML and a GPU's handle; return None if that fails."""
        what = f"list the programs on GPU {gpu}"
        return await self._calls.try_to(what, lambda: self._answer(gpu, question))

    def _answer(self, gpu: str, question: Callable[[Any, Any], Value]) -> Value:
        return question(self._nvml, self._handle(gpu))

    async def aclose(self) -> None:
        """Release NVML. Idempotent."""
        if self._begun:
            try:
                await self._calls.make(self._end)
            except (pynvml.NVMLError, TimeoutError) as error:
                log.debug("NVML did not shut down: %s", error)

    def _measure(self, gpu: str) -> tuple[int, int]:
        try:
            info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle(gpu))
        except pynvml.NVMLError as error:
            if error.value in BEGIN_ANEW:
                self._end()  # a lost GPU only works again after reinitialising
            raise
        if not info.total:
            raise ValueError(UNIFIED)
        return int(info.total) // MB, int(info.free) // MB

    def _handle(self, gpu: str) -> Any:
        if not self._begun:
            self._nvml.nvmlInit()
            self._begun = True
        if gpu.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(gpu))
        return self._nvml.nvmlDeviceGetHandleByUUID(gpu)

    def _end(self) -> None:
        if self._begun:
            self._begun = False
            self._nvml.nvmlShutdown()


SYSTEM, AMD = "system", "amd:"
_FIELD = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


class VirtualMemory(Protocol):
    """The fields of psutil's result that are used, in bytes; `available` needs no swapping."""

    @property
    def total(self) -> int:
        """All memory."""

    @property
    def available(self) -> int:
        """Memory available to programs."""


class GpuMemory:
    """Implements `queueing.core.ports.MemoryProbe` for every kind of memory; never raises."""

    def __init__(
        self, nvidia: NvmlProbe, *, proc: Path = Path("/proc"), sys: Path = Path("/sys")
    ) -> None:
        self._nvidia = nvidia
        self._meminfo = proc / "meminfo"
        self._gpus = sys / "class/drm"
        self._calls = DriverCalls(TIMEOUT_S)  # reading the files of a hanging GPU also hangs

    async def free_mb(self, host: HostSpec) -> tuple[int, int] | None:
        """Return (total, free) in MB for a host's `gpu` setting; None if it cannot be measured."""
        gpu = host.gpu
        if gpu is None or is_nvidia(gpu):
            return await self._nvidia.free_mb(host)
        return await self._calls.try_to(_measuring(gpu), lambda: self._measure(gpu))

    def why_not(self, gpu: str) -> str:
        """Return why the last measurement of a GPU or main memory failed; "" if it did not."""
        if is_nvidia(gpu):
            return self._nvidia.why_not(gpu)
        return self._calls.faults.get(_measuring(gpu), "")

    def _measure(self, gpu: str) -> tuple[int, int]:
        if gpu == SYSTEM:
            if not self._meminfo.exists():
                return _psutil_memory()
            return _main_memory(self._meminfo.read_text(encoding="ascii"))
        device = amd_gpus.device_named(gpu.removeprefix(AMD), self._gpus)
        return amd_gpus.memory_of(device, self._meminfo)


def _measuring(gpu: str) -> str:
    return f"measure the memory of {gpu}"


def is_nvidia(gpu: str) -> bool:
    """Return whether a `gpu` setting names an NVIDIA GPU: a number or a UUID."""
    return gpu != SYSTEM and not gpu.startswith(AMD)


def _main_memory(text: str) -> tuple[int, int]:
    kb = {name: int(value) for name, value in _FIELD.findall(text)}
    if kb.keys() != {"MemTotal", "MemAvailable"}:
        raise ValueError("the system does not report its memory")
    return kb["MemTotal"] // 1024, kb["MemAvailable"] // 1024


def _psutil_memory() -> tuple[int, int]:
    """Return (total, free) in MB from psutil, on macOS and Windows."""
    try:
        memory: VirtualMemory = import_module("psutil").virtual_memory()
    except ImportError:
        raise ValueError("psutil is not installed") from None
    return memory.total // MB, memory.available // MB
