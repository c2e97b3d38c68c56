"""What NVIDIA's driver says when it measures nothing, with what helps. Pure."""

import pynvml

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
