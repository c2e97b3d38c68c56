"""Learned times: what a new job will take, from what the last ones took."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.requests import (
    Capability,
    Chat,
    ChatMessage,
    Embed,
    EmbedInput,
    ImageInput,
    TextToImage,
)
from queueing.core.specs import ModelSpec
from queueing.forecast.arrivals import ArrivalRates
from queueing.forecast.durations import USUAL_SIZE, Durations, size_class, work_of

FLUX = ModelSpec(
    name="flux",
    backends=("comfy",),
    capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
    load_s=40.0,
    service_s=20.0,
)


def image(**options: int) -> TextToImage:
    return TextToImage.model_validate({"prompt": "cat", **options})


def test_requests_of_equal_work_share_a_size() -> None:
    """Estimates would never gather samples if equal work fell into different classes."""
    assert size_class(image(steps=50)) == size_class(image(count=2))
    assert size_class(image()) == size_class(image(steps=25, width=1024, height=1024))


def test_a_weak_change_of_an_image_takes_all_its_steps() -> None:
    """A third of the time would be promised: servers begin later, but take as many steps."""
    weak = TextToImage(prompt="cat", strength=0.3)
    assert size_class(weak) == size_class(image())


def test_four_images_are_four_times_the_work() -> None:
    """A request for four images would be promised in the time of one."""
    assert work_of(size_class(image(count=4))) == pytest.approx(
        4 * work_of(size_class(image())), rel=0.01
    )


def test_a_long_answer_is_more_work_than_a_short_one() -> None:
    """Texts would all be promised in the same time, whatever their length."""

    def chat(tokens: int, prompt: str = "hi") -> float:
        turn = ChatMessage(role="user", text=prompt)
        return work_of(size_class(Chat(messages=(turn,), max_tokens=tokens)))

    assert chat(2000) > 3 * chat(400)
    assert chat(400, prompt="word " * 40_000) > 3 * chat(400)


def test_a_batch_of_embeddings_is_as_much_work_as_its_tokens() -> None:
    """A document in one call would be promised in the time of a single sentence."""

    def embed(*inputs: EmbedInput) -> float:
        return work_of(size_class(Embed(inputs=inputs)))

    passage = "word " * 200
    assert embed(passage) == 1
    assert 30 < embed(*[passage] * 64) < 36
    assert embed(tuple(range(250))) == embed(passage)
    assert embed("hi") < embed(passage) < embed(ImageInput(image=0))


def test_the_configured_time_holds_until_something_was_learned() -> None:
    """A new installation would promise nothing, or nonsense."""
    durations = Durations()
    assert durations.service(FLUX, "gpu-1").median_s == 20.0
    assert durations.load(FLUX, "gpu-1").median_s == 40.0
    assert durations.service(FLUX, "gpu-1").samples == 0


def test_a_learned_time_replaces_the_configured_one() -> None:
    """Promises would stay wrong forever on hardware unlike that of the configuration's author."""
    durations = Durations()
    for seconds in (5.0, 6.0, 7.0):
        durations.observe_service("flux", "gpu-1", USUAL_SIZE, seconds)
    usual = durations.service(FLUX, "gpu-1")
    assert usual.median_s == 6.0
    assert usual.spread_s == pytest.approx(2 / 3)


def test_one_outlier_hardly_moves_the_median() -> None:
    """One image that hung for an hour would spoil every promise of the day."""
    durations = Durations()
    for seconds in (5.0, 6.0, 7.0, 3600.0):
        durations.observe_service("flux", "gpu-1", USUAL_SIZE, seconds)
    assert durations.service(FLUX, "gpu-1").median_s < 8.0


def test_an_unknown_size_is_scaled_from_a_known_one() -> None:
    """The first large image would be promised in the time of a small one."""
    durations = Durations()
    durations.observe_service("flux", "gpu-1", size_class(image()), 10.0)
    large = durations.service(FLUX, "gpu-1", size_class(image(count=4)))
    assert large.median_s == pytest.approx(40.0, rel=0.01)


def test_another_host_stands_in_for_one_nothing_is_known_of() -> None:
    """A second GPU of the same kind would start from the configuration's guess."""
    durations = Durations()
    durations.observe_load("flux", "gpu-1", 12.0)
    assert durations.load(FLUX, "gpu-2").median_s == 12.0


def test_what_was_learned_survives_a_restart() -> None:
    """After every restart promises would be wrong until everything was measured again."""
    before = Durations()
    rows = [before.observe_service("flux", "gpu-1", "1", s) for s in (8.0, 10.0, 12.0, 9.0)]
    after = Durations(rows[-1:])
    assert after.service(FLUX, "gpu-1").median_s == rows[-1].median_s
    assert after.service(FLUX, "gpu-1").samples == 4


def test_the_typical_job_weighs_sizes_by_how_often_they_come() -> None:
    """A queue of small images would be counted as if all were posters."""
    durations = Durations()
    for _ in range(9):
        durations.observe_service("flux", "gpu-1", "1", 10.0)
    durations.observe_service("flux", "gpu-1", "8", 80.0)
    assert durations.typical_service(FLUX, "gpu-1").mean_s == pytest.approx(17.0)
    assert durations.typical_service(FLUX, "gpu-1").median_s == 10.0


@given(st.lists(st.floats(0.01, 10_000), min_size=1, max_size=60))
def test_estimates_stay_within_what_was_seen(seconds: list[float]) -> None:
    """A promise outside everything ever measured would be invented."""
    durations = Durations()
    for value in seconds:
        durations.observe_service("flux", "gpu-1", USUAL_SIZE, value)
    usual = durations.service(FLUX, "gpu-1")
    assert min(seconds) <= usual.median_s <= max(seconds)
    assert usual.spread_s >= 0
    assert usual.samples == len(seconds)


def test_the_arrival_rate_follows_the_arrivals_and_fades() -> None:
    """The planner would keep what no one asks for and unload what everyone does."""
    rates = ArrivalRates()
    for second in range(0, 7200, 10):
        rates.arrived("flux", float(second))
    assert rates.per_s("flux", 7200.0) == pytest.approx(0.1, rel=0.05)
    assert rates.per_s("flux", 7200.0 + 900.0 * 5) < 0.001
    assert rates.per_s("sdxl", 7200.0) == 0.0


def test_a_rate_is_right_before_the_window_is_full() -> None:
    """During the first half hour no requests would be expected, and promises be too early."""
    rates = ArrivalRates()
    for second in range(0, 300, 10):
        rates.arrived("flux", float(second))
    assert rates.per_s("flux", 300.0) == pytest.approx(0.1, rel=0.1)


def test_the_first_arrival_is_no_stream() -> None:
    """One request after a start would count as hundreds an hour."""
    rates = ArrivalRates()
    rates.arrived("flux", 0.0)
    assert rates.per_s("flux", 0.0) < 0.02
