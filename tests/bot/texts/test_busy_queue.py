"""What a person with a long wait reads in advance: what is free, or that nothing is."""

from dataclasses import replace

from bot.texts.busy_queues import busy_queue
from queueing.core.catalog import Catalog
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    HostStatus,
    ModelStatus,
    Pauses,
    StatusReport,
)
from tests.simulation.installation import host, image_model

CATALOG = Catalog(
    [image_model("flux"), image_model("sdxl", "forge"), image_model("wan", "wan", parallel=2)],
    [host("gpu-1", "comfy", "forge", serial=True), host("gpu-2", "wan")],
)
EVERYTHING = "Everything is busy right now: about 20 min for flux\n"


def model(name: str, *copies: CopyStatus, waiting: int = 0) -> ModelStatus:
    return ModelStatus(
        name=name,
        waiting=waiting,
        running=sum(copy.running for copy in copies),
        copies=copies,
        reason=None,
        service_s=5.0,
        next_ends=None,
        vram_mb=8000,
        paused=False,
        troubles=(),
    )


def copy(
    backend: str, gpu: str, running: int, residency: Residency = Residency.READY
) -> CopyStatus:
    return CopyStatus(backend=backend, host=gpu, residency=residency, pinned=False, running=running)


def server(name: str, gpu: str, *, up: bool = True) -> BackendStatus:
    return BackendStatus(
        name=name, host=gpu, kind="fake", url="", up=up, since=0.0, description="", error=None
    )


def gpu(name: str) -> HostStatus:
    return HostStatus(name=name, vram_mb=24000, usable_mb=24000, used_mb=8000, paused=False)


FLUX = model("flux", copy("comfy", "gpu-1", 1), waiting=80)
WAN = model("wan", copy("wan", "gpu-2", 2))
ALL_BUSY = StatusReport(
    models=(FLUX, WAN),
    backends=(server("comfy", "gpu-1"), server("forge", "gpu-1"), server("wan", "gpu-2")),
    hosts=(gpu("gpu-1"), gpu("gpu-2")),
    paused=Pauses(),
)


def told(snapshot: StatusReport, language: str = "en") -> str:
    return "".join(
        map(str, busy_queue("flux", 1200.0, snapshot, CATALOG, language, offered=CATALOG))
    )


def test_where_all_gpus_work_it_is_said_in_both_languages() -> None:
    """People would look for another model, and find that it takes as long."""
    assert told(ALL_BUSY) == EVERYTHING
    assert told(ALL_BUSY, "de") == "Gerade ist alles belegt: etwa 20 min für flux\n"


def test_a_gpu_that_loads_is_busy_too() -> None:
    """The GPU would be called idle while it is about to work."""
    loading = model("wan", copy("wan", "gpu-2", 0, Residency.LOADING), waiting=1)
    assert told(replace(ALL_BUSY, models=(FLUX, loading))) == EVERYTHING


def test_a_place_to_spare_anywhere_is_not_everything() -> None:
    """The sentence would be untrue for those who could ask for something else."""
    cases: list[tuple[ModelStatus, ...]] = [
        (model("wan", copy("wan", "gpu-2", 1)),),  # it answers two at once
        (model("wan", copy("wan", "gpu-2", 0)),),
        (model("wan"),),  # nothing is on that GPU
    ]
    for others in cases:
        assert "Everything" not in told(replace(ALL_BUSY, models=(FLUX, *others))), others


def test_an_idle_model_on_a_busy_serial_server_has_no_place_to_spare() -> None:
    """Its server does only one thing at a time, so the model could not start."""
    beside = model("sdxl", copy("comfy", "gpu-1", 0))
    assert told(replace(ALL_BUSY, models=(FLUX, WAN, beside))) == EVERYTHING


def test_an_idle_model_that_can_do_the_same_is_named_instead() -> None:
    """A person would wait beside an idle model."""
    free = model("sdxl", copy("forge", "gpu-1", 0))
    assert "free right now: sdxl" in told(replace(ALL_BUSY, models=(FLUX, WAN, free)))


def test_gpus_that_do_nothing_now_are_not_counted() -> None:
    """One GPU in quiet hours would hide that all others are busy."""
    idle = replace(ALL_BUSY, models=(FLUX,))
    quiet = replace(gpu("gpu-2"), rest=Reason(why=WaitCause.QUIET, model="", host="gpu-2"))
    away = (*ALL_BUSY.backends[:2], server("wan", "gpu-2", up=False))
    assert told(idle) == ""
    assert told(replace(idle, hosts=(gpu("gpu-1"), quiet))) == EVERYTHING
    assert told(replace(idle, hosts=(gpu("gpu-1"), replace(gpu("gpu-2"), paused=True)))) != ""
    assert told(replace(idle, backends=away)) == EVERYTHING


def test_where_nothing_works_nothing_is_busy() -> None:
    """A bot whose servers are all down would say that they work."""
    down = tuple(replace(each, up=False) for each in ALL_BUSY.backends)
    assert told(replace(ALL_BUSY, models=(model("flux"),), backends=down)) == ""
