"""Which models are available: in memory, or loadable without anyone waiting for it."""

from dataclasses import replace

from queueing.core.catalog import Catalog
from queueing.core.ports import ServerInfo
from queueing.core.specs import HostSpec, ModelSpec
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.service.model_reader import is_at_hand
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.simulation.installation import host, image_model
from tests.simulation.loop import in_virtual_time

FLUX = image_model("flux", "comfy", vram_mb=12000)
SDXL = image_model("sdxl", "comfy", vram_mb=7000)
QWEN = image_model("qwen", "studio", vram_mb=8000, load_s=5.0)
SLOW = replace(QWEN, load_s=40.0)
FAR = replace(QWEN, backends=("far",))
GPU = host("gpu", "comfy", "studio")
ATTIC = host("attic", "far")


class Scene:
    """A fleet of two hosts that are up, with nothing in memory."""

    def __init__(self, text: ModelSpec = QWEN, gpu: HostSpec = GPU) -> None:
        self.text = text
        catalog = Catalog([FLUX, SDXL, text], [gpu, ATTIC])
        backends = {
            name: FakeBackend(FakeServer(name, FakeGpu(total_mb=24000, budget_mb=24000)))
            for name in catalog.backends
        }
        self.fleet = Fleet(catalog, backends, VirtualClock())
        for name in backends:
            self.fleet.health.up(name, ServerInfo(description="fake"))

    def holds(self, *models: ModelSpec) -> "Scene":
        for model in models:
            self.fleet.copies.ready(model, model.backends[0])
        return self

    def answers(self, *wanted: str) -> bool:
        return is_at_hand(
            self.fleet,
            LearnedTimes(self.fleet, VirtualClock()),
            self.text,
            beside=FLUX,
            wanted=wanted,
            within_s=10.0,
            now=0.0,
        )


@in_virtual_time
async def test_what_is_in_memory_or_on_its_way_is_at_hand() -> None:
    """Prompts would not be improved although the text model has nothing to do."""
    assert Scene().holds(FLUX, QWEN).answers()
    loading = Scene(SLOW)
    loading.fleet.copies.loading(SLOW, "studio", expected_s=40.0)
    assert loading.answers("sdxl"), "that load was wanted by somebody else anyway"


@in_virtual_time
async def test_a_load_for_a_prompt_takes_nobodys_room_or_turn() -> None:
    """An image, perhaps another person's, would wait for a load it did not ask for."""
    large = replace(QWEN, vram_mb=14000)
    for text, held, wanted, fits in (
        (QWEN, [FLUX], (), True),
        (QWEN, [], (), True),  # 12 + 8 of 24 GB, and quick enough to be over before flux loads
        (SLOW, [], (), False),  # flux would wait for its load
        (SLOW, [FLUX], (), True),
        (SLOW, [FLUX], ("sdxl",), False),  # sdxl would
        (QWEN, [FLUX], ("sdxl",), False),  # the room sdxl needs
        (large, [], (), False),  # the room flux needs
        (large, [FLUX], (), False),
        (replace(FAR, load_s=40.0), [], ("sdxl",), True),  # no one wants that host
    ):
        assert Scene(text).holds(*held).answers(*wanted) is fits, (text, held, wanted)


@in_virtual_time
async def test_what_leaves_pauses_or_is_away_is_not_at_hand() -> None:
    """Images would be held for answers that cannot come."""
    leaving = Scene().holds(QWEN)
    leaving.fleet.copies.leaving("qwen", "studio")
    assert not leaving.answers()
    failed = Scene()
    failed.fleet.load_failures.failed("qwen")
    assert not failed.answers()
    away = Scene().holds(QWEN)
    away.fleet.health.down("studio", "gone")
    assert not away.answers()
    for paused in ({"model": "qwen", "host": None}, {"model": None, "host": "gpu"}):
        stopped = Scene().holds(QWEN)
        stopped.fleet.rests.paused = stopped.fleet.rests.paused.adding(**paused)
        assert not stopped.answers()


@in_virtual_time
async def test_a_server_that_keeps_one_model_is_not_asked_for_another() -> None:
    """A text server would swap its only model for a prompt."""
    servers = tuple(replace(spec, max_models=1) for spec in GPU.backends)
    other = replace(QWEN, name="sdxl")
    gpu = replace(GPU, backends=servers)
    assert Scene(gpu=gpu).answers()
    assert not Scene(gpu=gpu).holds(other).answers()
