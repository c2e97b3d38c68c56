"""Which rule decides, and what it allows: pure functions of plain values."""

from dataclasses import replace
from typing import Any

import pytest

from bot.core.asker import Asker
from bot.core.live_settings import Defaults
from bot.core.refusals import Declined, RefusalKind
from bot.people.people import Person
from bot.requests.model_choice import usual_model
from bot.requests.options import SIZES, Style, size
from bot.requests.rules import (
    EVERYTHING,
    KIND_OF,
    KINDS,
    NOTHING,
    Rule,
    RuleTable,
    apart,
    fitting_size,
    fitting_style,
    offered,
    offers_size,
    offers_style,
    require_loras,
    require_model,
    sides_of,
    too_much,
    within,
)
from bot.texts.catalogue import plain
from bot.texts.refusals import sentence
from queueing.core.catalog import Catalog
from queueing.core.errors import Refused, UnknownModel
from queueing.core.requests import Capability, LoraWeight, TextToImage, TextToVideo
from queueing.core.specs import BackendSpec, HostSpec
from tests.bot.results import FLUX, LENS, QWEN

CATALOG = Catalog(
    [FLUX, LENS, QWEN],
    [HostSpec(name="h", vram_mb=1000, backends=(BackendSpec(name="comfy", kind="demo", url=""),))],
)
USUAL = {"width": 1024.0, "height": 1024.0, "steps": 24.0, "seconds": 10.0, "fps": 16.0}


def asker(user: str, *rooms: str, rights: tuple[str, ...] = ()) -> Asker:
    return Asker(user=user, rooms=rooms, rights=frozenset(rights))


def rule(*who: str, where: tuple[str, ...] = (), **fields: Any) -> Rule:
    return Rule(who=frozenset(who), where=frozenset(where), **fields)


def test_a_shape_is_lowered_and_a_size_refused() -> None:
    """People would be refused without having named a number of pixels."""
    bound = rule(most={"pixels": 300_000})
    assert [each for each in SIZES if not offers_size(bound, each)] == ["1024x1024", "768x1024"]
    assert sides_of(bound, "wide") == (704, 384)
    assert sides_of(bound, " Square ") == (512, 512)
    assert sides_of(bound, "1024x768") == (1024, 768)
    assert sides_of(EVERYTHING, "wide") == (1344, 768)
    shapes = [f"{across}:{down}" for across in range(1, 30) for down in range(1, 30)]
    assert max(w * h for w, h in filter(None, map(size, shapes))) <= 1024 * 1024


def test_what_is_asked_and_what_is_allowed_are_told_apart() -> None:
    """People would read that they may have 1.05 MP and asked for 1.05 MP."""
    assert apart(1_049_600 / 1e6, 1_048_576 / 1e6) == (1.05, 1.049)
    assert apart(9600.5, 9600.0) == (9600.5, 9600.0)
    assert apart(12_345.0, 320.0) == (12_345.0, 320.0)
    said = plain(sentence(too_much("pixels", 1_049_600, 1_048_576), "de"))
    assert said == "Hier kannst du höchstens 1,049 MP verlangen, nicht 1,05."
    said = plain(sentence(too_much("count", 4, 1), "en"))
    assert said == "Here you can ask for at most 1 image at once, not 4."


def test_a_model_is_offered_if_any_rule_offers_it_or_a_model_that_it_helps() -> None:
    """A GPU would load ahead for nobody, or no longer for those who may."""
    drawer = replace(FLUX, enhance="qwen")
    catalog = Catalog([drawer, LENS, QWEN], CATALOG.hosts.values())
    table = RuleTable([rule("fake:1", models=frozenset({"flux"}), kinds=frozenset({"image"}))])
    assert [name for name in catalog.models if table.offer(catalog, name)] == ["flux", "qwen"]
    table.take([*table.rules, rule(models=frozenset({"lens"}))])
    assert table.offer(catalog, "lens")
    table.take([])
    assert table.offer(catalog, "lens")


def test_default_models_may_be_named_by_an_alias() -> None:
    """The operator's default would be passed over without a word."""
    fast = replace(FLUX, name="schnell", aliases=("Fast",))
    catalog = Catalog([FLUX, fast], CATALOG.hosts.values())
    defaults, able = (Defaults(), Defaults(image="fast")), Capability.TEXT_TO_IMAGE
    assert usual_model(catalog, defaults, Person(user=""), able) == "schnell"


def test_the_first_rule_that_fits_person_and_room_decides_alone() -> None:
    """A rule for some people would bind others, or a later rule would add to an earlier one."""
    patrons = rule("discord-role:1", where=("discord:5", "api"))
    gallery = rule(where=("discord:5",))
    service = rule("service:n8n")
    others = Rule(spoiler=True)
    table = RuleTable([patrons, gallery, service, others])
    role = ("discord-role:1",)
    assert table.of(asker("discord:9", "discord:7", "discord:5", "discord", rights=role)) is patrons
    assert table.of(asker("discord:9", "api:x@discord:9", "api", rights=role)) is patrons
    assert table.of(asker("discord:9", "discord:5", "discord")) is gallery
    assert table.of(asker("discord:9", "discord:6", "discord", rights=role)) is others
    assert table.of(asker("service:n8n", "api")) is service
    assert table.of(asker("service:n8n/ada", "api")) is service
    assert table.of(asker("service:n8nx", "api")) is others
    assert RuleTable().of(asker("web:ada", "web")) is EVERYTHING
    assert RuleTable([patrons]).of(asker("web:ada", "web")) is NOTHING


def test_every_capability_has_a_kind_that_a_rule_can_name() -> None:
    """A kind that is added later would be allowed to everyone, or to no one."""
    assert set(KIND_OF) == set(Capability)
    assert set(KIND_OF.values()) == set(KINDS)


def test_only_what_is_allowed_is_offered_and_named_in_refusals() -> None:
    """A refusal would suggest a model that is refused as well."""
    only = rule(models=frozenset({"QWEN", "lens"}), kinds=frozenset({"ask", "image"}))
    assert list(offered(CATALOG, only).models) == ["qwen"]
    assert offered(CATALOG, EVERYTHING) is CATALOG
    with pytest.raises(Declined) as refused:
        require_model(CATALOG, only, "flux", Capability.TEXT_TO_IMAGE)
    assert refused.value.refusal.kind is RefusalKind.MODEL_NOT_ALLOWED
    with pytest.raises(Declined) as refused:
        require_model(CATALOG, only, "lens", Capability.UPSCALE)
    assert refused.value.refusal.kind is RefusalKind.KIND_NOT_ALLOWED
    with pytest.raises(UnknownModel) as unknown:
        require_model(CATALOG, only, "fluxx", Capability.TEXT_TO_IMAGE)
    assert (unknown.value.nearest, unknown.value.able) == ((), ())
    for able in Capability:
        with pytest.raises((Declined, Refused)):
            require_model(CATALOG, NOTHING, "flux", able)


@pytest.mark.parametrize(
    ("asked", "most", "made"),
    [
        ({}, {}, {}),
        ({}, {"steps": 8}, {"steps": 8}),
        ({"steps": 8}, {"steps": 8}, {"steps": 8}),
        ({"steps": 9}, {"steps": 8}, None),
        ({"count": 3}, {"count": 2}, None),
        ({}, {"pixels": 512 * 512}, {"width": 512, "height": 512}),
        ({"width": 512}, {"pixels": 512 * 512}, None),
        ({"width": 512, "height": 512}, {"pixels": 512 * 512}, {"width": 512, "height": 512}),
        ({}, {"pixels": 4e6}, {}),
    ],
)
def test_what_is_asked_for_is_bounded_and_what_is_left_open_lowered(
    asked: Any, most: Any, made: Any
) -> None:
    """A person who names no size would get one that they may not ask for."""
    request = TextToImage(prompt="a cat", **asked)
    if made is None:
        with pytest.raises(Declined) as refused:
            within(rule(most=most), request, USUAL, None, has_files=False)
        assert refused.value.refusal.kind is RefusalKind.TOO_MUCH
    else:
        found = within(rule(most=most), request, USUAL, None, has_files=False)
        assert found == TextToImage(prompt="a cat", **{**asked, **made})


@pytest.mark.parametrize("asked", [{"width": 2048, "height": 2048}, {"width": 2048}])
def test_a_size_that_is_named_is_bounded_with_an_image_too(asked: Any) -> None:
    """An attached image would be a way round the largest size."""
    request = TextToImage(prompt="a cat", **asked)
    with pytest.raises(Declined):
        within(rule(most={"pixels": 512 * 512}), request, USUAL, None, has_files=True)


def test_a_style_and_a_usual_size_are_lowered_to_what_a_rule_allows() -> None:
    """A person with a usual size from elsewhere would be refused for what they did not ask for."""
    most = rule(most={"pixels": 512 * 512, "steps": 8})
    style = fitting_style(most, Style(size="1024x1024", options={"steps": 30, "guidance": 3.5}))
    assert style == Style(size="512x512", options={"steps": 8, "guidance": 3.5})
    assert fitting_size(most, "2048x512") == "1024x256"
    assert fitting_size(most, "512x256") == "512x256"
    assert fitting_size(most, None) is None
    assert fitting_style(EVERYTHING, style) is style


def test_a_style_with_a_lora_that_is_not_allowed_is_not_offered() -> None:
    """People would choose a style from a list, and be refused."""
    bound = rule(loras=frozenset({"ink"}))
    assert offers_style(bound, Style(prompt="{prompt} <lora:ink:1>"))
    assert not offers_style(bound, Style(prompt="{prompt} <lora:gore:1>"))
    assert offers_style(EVERYTHING, Style(prompt="{prompt} <lora:gore:1>"))


def test_a_model_that_cannot_be_lowered_is_refused() -> None:
    """A rule would have no effect on a model whose steps are fixed."""
    with pytest.raises(Declined):
        within(rule(most={"steps": 8}), TextToImage(prompt="a"), USUAL, {"seed"}, has_files=False)


def test_a_video_is_bounded_by_seconds_and_by_frames() -> None:
    """A higher frame rate would be a way round the length."""
    bounds = rule(most={"seconds": 8, "frames": 80})
    video = TextToVideo(prompt="a cat")
    lowered = within(bounds, video, USUAL, None, has_files=False)
    assert isinstance(lowered, TextToVideo)
    assert lowered.seconds == 5
    for asked in ({"seconds": 9}, {"seconds": 8, "fps": 12}):
        with pytest.raises(Declined):
            within(bounds, TextToVideo(prompt="a", **asked), USUAL, None, has_files=False)


@pytest.mark.parametrize(
    ("asked", "usual", "takes", "seconds"),
    [
        ({"fps": 40}, {}, None, 2),  # its own length is unknown
        ({"fps": 10}, {}, None, 5),
        ({"fps": 40}, {"fps": 16.0}, {"fps"}, None),  # its length is fixed
        ({"fps": 40}, {"frames": 81.0, "fps": 16.0, "seconds": 5.06}, None, 2),
        ({"fps": 40}, {"frames": 33.0, "fps": 16.0, "seconds": 2.06}, None, None),
        ({}, {"frames": 81.0, "fps": 16.0, "seconds": 5.06}, None, 5),
        ({}, {}, None, None),
    ],
)
def test_a_rate_is_bounded_by_the_frames_that_are_really_made(
    asked: Any, usual: Any, takes: Any, seconds: float | None
) -> None:
    """A rate alone would be a way round the length, or be refused where it changes nothing."""
    video = TextToVideo(prompt="a cat", **asked)
    found = within(rule(most={"frames": 80}), video, usual, takes, has_files=False)
    assert found == video.model_copy(update={"seconds": seconds})


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        (TextToImage(prompt="a cat"), True),
        (TextToImage(prompt="a cat", lora=(LoraWeight(name="Ink.safetensors"),)), True),
        (TextToImage(prompt="a cat", lora=(LoraWeight(name="other/ink"),)), False),
        (TextToImage(prompt="a cat", lora=(LoraWeight(name="gore"),)), False),
        (TextToImage(prompt="a cat <lora:gore:1>"), False),
        (TextToImage(prompt="a cat", negative="<LORA:gore>"), False),
        (TextToImage(prompt="a cat <lora:ink:1>"), True),
    ],
)
def test_a_lora_needs_permission_wherever_it_is_named(
    request_: TextToImage, *, allowed: bool
) -> None:
    """A server that reads tags would apply a LoRA that a prompt smuggles in."""
    bound = rule(loras=frozenset({"ink"}))
    if allowed:
        require_loras(bound, request_)
    else:
        with pytest.raises(Declined):
            require_loras(bound, request_)
