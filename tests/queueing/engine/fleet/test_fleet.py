"""What the fleet remembers of copies, memory, failures and health."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.catalog import Catalog
from queueing.core.ports import ServerInfo
from queueing.core.snapshot import Residency
from queueing.core.specs import HostSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.health import LASTING_S, WEDGE_PAUSE_S
from queueing.service import queue_status
from tests.fakes.clock import SetClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.simulation.installation import host, image_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FLUX = image_model("flux", vram_mb=8000)
GPU = HostSpec(name="gpu", vram_mb=24000, margin=0.8, backends=host("gpu", "comfy").backends)
ANSWER = ServerInfo(description="fake 1.0")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def fleet(clock: SetClock) -> Fleet:
    return make(clock)


def make(clock: SetClock) -> Fleet:
    server = FakeServer("comfy", FakeGpu(total_mb=24000, budget_mb=19200))
    backends: Mapping[str, FakeBackend] = {"comfy": FakeBackend(server)}
    return Fleet(Catalog([FLUX, replace(FLUX, name="sdxl")], [GPU]), backends, clock)


def test_a_hosts_memory_is_told_by_what_holds_it(fleet: Fleet) -> None:
    """An operator could not see whether a model or a game fills the GPU."""
    fleet.copies.loading(FLUX, "comfy", expected_s=10.0)
    fleet.copies.ready(FLUX, "comfy")
    fleet.memory.measured("gpu", 24000, 24000 - 8000 - 3000)
    (gpu,) = queue_status.host_statuses(fleet)
    assert (gpu.vram_mb, gpu.used_mb, gpu.foreign_mb) == (24000, 8000, 3000)
    assert [copy.vram_mb for copy in queue_status.copy_statuses(fleet, "flux")] == [8000]


def test_a_model_that_takes_the_place_of_another_is_not_counted_beside_it(fleet: Fleet) -> None:
    """A chart would show more memory in use than exists."""
    large = replace(FLUX, name="sdxl", vram_mb=15000)
    fleet.copies.loading(FLUX, "comfy", expected_s=10.0)
    fleet.copies.ready(FLUX, "comfy")
    fleet.copies.leaving("flux", "comfy")
    fleet.copies.loading(large, "comfy", expected_s=10.0)
    (gpu,) = queue_status.host_statuses(fleet)
    assert gpu.used_mb == gpu.usable_mb < 8000 + 15000
    fleet.copies.gone("flux", "comfy")
    (gpu,) = queue_status.host_statuses(fleet)
    assert gpu.used_mb == 15000


def test_memory_counts_from_the_start_of_a_load_to_the_end_of_an_unload(fleet: Fleet) -> None:
    """Two loads would coincide on one GPU."""
    fleet.copies.loading(FLUX, "comfy", expected_s=10.0)
    assert [(c.residency, c.vram_mb) for c in fleet.copies] == [(Residency.LOADING, 8000)]
    fleet.copies.ready(FLUX, "comfy")
    fleet.copies.leaving("flux", "comfy")
    assert [(c.residency, c.vram_mb) for c in fleet.copies] == [(Residency.UNLOADING, 8000)]
    fleet.copies.gone("flux", "comfy")
    assert fleet.copies.view == ()


def test_an_eviction_is_dated_and_a_failed_load_is_none(fleet: Fleet, clock: SetClock) -> None:
    """A model's age limit would count from the wrong moment."""
    fleet.copies.loading(FLUX, "comfy", expected_s=10.0)
    fleet.copies.gone("flux", "comfy")
    assert fleet.copies.left_at("flux") == 0.0
    fleet.copies.ready(FLUX, "comfy")
    fleet.copies.gone("flux", "comfy")
    assert fleet.copies.left_at("flux") == clock.at


def test_a_desktop_fits_into_the_margin(fleet: Fleet) -> None:
    """A model that just fits would never be loaded because a browser is open."""
    fleet.memory.measured("gpu", 24000, 24000 - 2000)
    assert fleet.memory.usable_mb("gpu") == 19200


def test_a_game_shrinks_the_budget_and_its_end_restores_it(fleet: Fleet) -> None:
    """Loads would collide with other programs' memory."""
    fleet.memory.measured("gpu", 24000, 24000 - 12400)
    assert fleet.memory.usable_mb("gpu") == 19200 - 10000
    fleet.memory.measured("gpu", 24000, 24000)
    assert fleet.memory.usable_mb("gpu") == 19200


@pytest.mark.parametrize(
    ("total_mb", "free_mb", "usable_mb"),
    [
        (24_000, 17_500, 8_000),  # another person's part of the GPU is in use
        (24_000, 8_000, 8_000),
        (24_000, 6_000, 6_000),  # they took more than their part
        (6_000, 6_000, 8_000),  # `usher check` tells of that
    ],
)
def test_a_part_of_a_gpu_is_compared_with_that_part(
    clock: SetClock, total_mb: int, free_mb: int, usable_mb: int
) -> None:
    """Nothing would ever run for a person who gives Usher 8 of 24 GB."""
    part = HostSpec(name="gpu", vram_mb=8_000, backends=GPU.backends, margin=1.0)
    fleet = Fleet(Catalog([FLUX], [part]), {}, clock)
    fleet.memory.measured("gpu", total_mb, free_mb)
    assert fleet.memory.usable_mb("gpu") == usable_mb


def test_what_our_own_models_take_is_not_counted_twice(fleet: Fleet) -> None:
    """Every load would shrink the budget for the next one."""
    fleet.copies.ready(FLUX, "comfy")
    fleet.memory.measured("gpu", 24000, 24000 - 8000)
    assert fleet.memory.usable_mb("gpu") == 19200


def test_a_running_jobs_own_needs_are_not_taken_for_another_program(fleet: Fleet) -> None:
    """Because of a large image its neighbours would be unloaded."""
    fleet.copies.loading(FLUX, "comfy", expected_s=10.0)
    fleet.memory.measured("gpu", 24000, 0)
    assert fleet.memory.usable_mb("gpu") == 19200


@given(free_mb=st.integers(min_value=0, max_value=30000))
def test_the_usable_memory_never_exceeds_the_budget(free_mb: int) -> None:
    """A wrong measurement would overfill a GPU."""
    fleet = make(SetClock())
    fleet.memory.measured("gpu", 24000, free_mb)
    assert 0 <= fleet.memory.usable_mb("gpu") <= GPU.usable_mb


def test_a_learned_size_only_grows(fleet: Fleet) -> None:
    """A low measurement would overfill the GPU the next time."""
    fleet.memory.budget.learn("flux", 9000)
    fleet.memory.budget.learn("flux", 5000)
    assert fleet.memory.vram_mb(FLUX) == 9000


def test_a_model_that_takes_nothing_is_not_one_of_unknown_size(fleet: Fleet) -> None:
    """A model on the processor would empty the GPU for itself."""
    assert fleet.memory.vram_mb(replace(FLUX, vram_mb=0)) == 0
    assert fleet.memory.vram_mb(replace(FLUX, vram_mb=None)) == GPU.usable_mb


def test_a_model_of_unknown_size_takes_what_can_become_free(fleet: Fleet) -> None:
    """It would wait forever for what never leaves, or be loaded into another program's memory."""
    unknown = replace(FLUX, name="sdxl", vram_mb=None)
    fleet.copies.ready(FLUX, "comfy")
    assert fleet.memory.vram_mb(unknown) == GPU.usable_mb
    fleet.copies.pins.add("flux", "comfy")
    assert fleet.memory.vram_mb(unknown) == GPU.usable_mb - 8000
    fleet.memory.measured("gpu", 24000, 24000 - 8000 - 6000)
    assert fleet.memory.vram_mb(unknown) == fleet.memory.usable_mb("gpu") - 8000
    fleet.memory.measured("gpu", 24000, 0)  # nothing is left: it needs the whole GPU
    assert fleet.memory.vram_mb(unknown) == GPU.usable_mb


def test_a_copy_that_lasts_ends_the_row_of_failures(fleet: Fleet, clock: SetClock) -> None:
    """One failure a month would add up to jobs that fail at once."""
    fleet.load_failures.failed("flux")
    fleet.copies.ready(FLUX, "comfy")
    assert fleet.load_failures.failed("flux") == 2, "it did not last"
    fleet.copies.ready(FLUX, "comfy")
    clock.at += LASTING_S
    assert fleet.load_failures.failed("flux") == 1


def test_a_copy_lost_right_after_its_load_counts_as_a_failed_load(
    fleet: Fleet, clock: SetClock
) -> None:
    """Two owners of one GPU would load in turns forever."""
    fleet.copies.ready(FLUX, "comfy")
    fleet.copies.lost("flux", "comfy")
    assert fleet.load_failures.of("flux").count == 1
    fleet.copies.gone("flux", "comfy")
    fleet.copies.ready(FLUX, "comfy")
    clock.at += LASTING_S
    fleet.copies.lost("flux", "comfy")
    assert fleet.load_failures.of("flux").count == 1


def test_answers_do_not_heal_a_wedged_server_before_its_pause(
    fleet: Fleet, clock: SetClock
) -> None:
    """A server that never runs anything would be given job after job."""
    fleet.health.up("comfy", ANSWER)
    fleet.health.wedged("comfy", "nothing ran")
    fleet.health.up("comfy", ANSWER)
    assert not fleet.health.of("comfy").up
    clock.at += WEDGE_PAUSE_S
    fleet.health.up("comfy", ANSWER)
    assert fleet.health.of("comfy").up
    fleet.health.wedged("comfy", "nothing ran")
    clock.at += WEDGE_PAUSE_S
    fleet.health.up("comfy", ANSWER)
    assert not fleet.health.of("comfy").up, "the pause grows"
    fleet.health.down("comfy", "connection refused")
    fleet.health.up("comfy", ANSWER)
    assert fleet.health.of("comfy").up, "a restart heals it"


def test_since_tells_when_a_server_went_not_when_it_was_last_asked(
    fleet: Fleet, clock: SetClock
) -> None:
    """For hours people would read that a server went offline a moment ago."""
    fleet.health.up("comfy", ANSWER)
    clock.at = 2000.0
    fleet.health.down("comfy", "refused")
    clock.at = 3000.0
    fleet.health.down("comfy", "refused")
    assert fleet.health.of("comfy").since == 2000.0


def test_every_change_wakes_the_router(clock: SetClock) -> None:
    """A job that could start would wait for the next tick."""
    woken = asyncio.Event()
    server = FakeServer("comfy", FakeGpu(total_mb=24000, budget_mb=19200))
    fleet = Fleet(Catalog([FLUX], [GPU]), {"comfy": FakeBackend(server)}, clock, woken.set)
    changes: list[Callable[[], object]] = [
        lambda: fleet.health.up("comfy", ANSWER),
        lambda: fleet.copies.loading(FLUX, "comfy", expected_s=1.0),
        lambda: fleet.copies.ready(FLUX, "comfy"),
        lambda: fleet.copies.pins.add("flux", "comfy"),
        lambda: fleet.copies.leaving("flux", "comfy"),
        lambda: fleet.copies.gone("flux", "comfy"),
        lambda: fleet.load_failures.failed("flux"),
        lambda: fleet.memory.measured("gpu", 24000, 1000),
        lambda: fleet.health.down("comfy", "refused"),
    ]
    for change in changes:
        woken.clear()
        change()
        assert woken.is_set()
