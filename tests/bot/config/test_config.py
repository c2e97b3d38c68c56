"""What a configuration becomes: models, hosts, limits, secrets, styles and chats."""

import math
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from backends.registry import KINDS
from bot.config.chats import ChatsConfig
from bot.config.loader import ConfigError, load, parse
from bot.people.access import PersonLimits
from bot.people.people import Person
from queueing.core.requests import Capability, LoraWeight
from queueing.core.snapshot import Rules
from queueing.core.specs import ModelSpec, Timeouts
from tests.bot.config.configs import SMALL, problems, with_lines

# ---------------------------------------------------------------- what it becomes


def test_how_long_an_unused_model_stays_is_written_with_its_unit() -> None:
    cases: list[tuple[str, float]] = [
        ("30min", 1800.0),
        ("1.5m", 90.0),
        ("off", math.inf),
        ("'off'", math.inf),
    ]
    for written, after_s in cases:
        text = SMALL.replace("[stand-in]", f"[stand-in], idle_unload: {written}")
        catalog = parse(text, {}).catalog()
        assert catalog.idle_unload_s("flux", "stand-in") == after_s, written


def test_a_small_configuration_becomes_a_catalog_with_the_defaults() -> None:
    """Nine lines would not be enough to start, or a default would differ from the queue's own."""
    config = parse(SMALL, {})
    catalog = config.catalog()
    flux = catalog.models["flux"]
    usual = ModelSpec(name="", backends=(), capabilities=frozenset())
    assert flux.backends == ("stand-in",)
    assert flux.capabilities == {
        Capability.TEXT_TO_IMAGE,
        Capability.IMAGE_TO_IMAGE,
        Capability.UPSCALE,
        Capability.TEXT_TO_TEXT,
    }
    assert (flux.vram_mb, flux.timeouts) == (None, Timeouts())
    assert (flux.load_s, flux.service_s) == (usual.load_s, usual.service_s)
    assert (flux.max_attempts, flux.max_waiting) == (usual.max_attempts, usual.max_waiting)
    assert catalog.hosts["home"].usable_mb == int(24 * 1024 * 0.8)
    assert catalog.host_of["stand-in"] == "home"
    assert config.scheduling.rules() == Rules()
    assert config.chats.web is not None
    assert config.chats.web.host == "127.0.0.1"
    assert config.chats.discord is None
    assert config.warnings == ()


def test_how_long_a_conversation_goes_on_is_written_with_its_unit() -> None:
    """An operator would write minutes, and conversations end after seconds."""
    cases: list[tuple[str | int, float]] = [
        ("30min", 1800),
        ("1.5h", 5400),
        ("90s", 90),
        ("5m", 300),
        ("0", 0),
        (0, 0),
    ]
    for written, idle_s in cases:
        config = parse(with_lines(f"conversation: {{idle: {written}}}"), {})
        assert config.conversation.idle == idle_s, written
        assert parse(SMALL, {}).conversation.idle == 1800, written


def test_every_setting_of_a_model_reaches_the_queue() -> None:
    """A setting of a model would be accepted and then do nothing."""
    config = parse(
        with_lines("scheduling: {patience: 2, lane_weights: {vip: 9}}")
        .replace(
            "{backends: [stand-in]}",
            "{backends: [stand-in, second], capabilities: [text-to-image], aliases: [f], vram: 8GB,"
            " parallel: 3, copies: 2, load_s: 1, service_s: 2, max_attempts: 5, max_waiting: 6,"
            " preload: true, step_s: 0.5,"
            " timeouts: {load_s: 7, first_s: none, idle_s: 8, total_s: none}}",
        )
        .replace("stand-in: {kind: demo}", "stand-in: {kind: demo}\n      second: {kind: demo}"),
        {},
    )
    assert config.catalog().models["flux"] == ModelSpec(
        name="flux",
        backends=("stand-in", "second"),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        aliases=("f",),
        vram_mb=8192,
        parallel=3,
        copies=2,
        load_s=1,
        service_s=2,
        max_attempts=5,
        max_waiting=6,
        preload=True,
        timeouts=Timeouts(load_s=7, first_s=None, idle_s=8, total_s=None),
        options={"step_s": 0.5},
    )
    rules = config.scheduling.rules()
    assert (rules.patience, rules.lane_weights) == (2, {"vip": 9, "normal": 2, "relaxed": 1})


def test_sizes_are_read_with_their_unit() -> None:
    """A GPU's size as its maker writes it would be refused or misread."""
    cases: list[tuple[str, int | None]] = [
        ("24GB", 24576),
        ("24 GB", 24576),
        ("7.5gb", 7680),
        ("512MiB", 512),
        ("auto", None),
    ]
    for written, size_mb in cases:
        config = parse(SMALL.replace("24GB", "99GB").replace("]}", f"], vram: {written}}}"), {})
        assert config.catalog().models["flux"].vram_mb == size_mb, written


def test_relative_files_lie_beside_the_configuration(tmp_path: Path) -> None:
    """Started from another folder, the bot would open another database."""
    file = tmp_path / "config.yaml"
    file.write_text(SMALL + "database: data/jobs.sqlite\n", encoding="utf-8")
    config = load(file, {})
    assert config.database == tmp_path / "data" / "jobs.sqlite"
    assert config.database_url == f"sqlite:///{tmp_path}/data/jobs.sqlite"


def test_a_file_saved_by_a_windows_editor_is_read(tmp_path: Path) -> None:
    """A byte order mark and carriage returns would make the first name unknown."""
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load(file, {}).catalog().models.keys() == {"flux"}


def test_yaml_of_another_decade_holds_no_traps() -> None:
    """`on`, 12:30 or 010 would silently be read as something else than is written."""
    config = parse(
        SMALL.replace("flux:", "on:").replace("]}", "], aliases: [12:30, yes], max_waiting: 010}"),
        {},
    )
    model = config.catalog().models["on"]
    assert (model.aliases, model.max_waiting) == (("12:30", "yes"), 10)


def test_roles_take_what_they_leave_out_from_everybodys_limits() -> None:
    """A role made to give more would silently reset all other limits to the defaults."""
    text = with_lines(
        "limits: {open_per_person: 3, queued_per_person: 2, per_hour: 10}",
        "roles:",
        "  patrons: {members: [telegram:7], discord_roles: [165511591545143296], lane: vip}",
        "  staff: {members: [telegram:8], per_hour: none}",
    )
    access = parse(text, {}).access()
    usual = PersonLimits(open_per_person=3, queued_per_person=2, per_hour=10)
    assert access.limits_of(Person(user="web:x"), ()) == usual
    assert access.limits_of(Person(user="telegram:7"), ()) == replace(usual, lane="vip")
    by_role = access.limits_of(Person(user="discord:1"), {"discord-role:165511591545143296"})
    assert by_role == replace(usual, lane="vip")
    assert access.limits_of(Person(user="telegram:8"), ()) == replace(usual, per_hour=None)


def test_what_a_model_can_do_follows_from_its_kind_and_workflow() -> None:
    """A model would be offered for what it cannot do, or an operator have to state the obvious."""
    cases: list[tuple[str, str, set[str]]] = [
        ("comfyui", "workflow: sdxl.json", {"text-to-image", "image-to-image"}),
        ("comfyui", "workflow: flux-schnell.json", {"text-to-image"}),
        ("comfyui", "workflow: wan22-t2v.json", {"text-to-video"}),
        (
            "comfyui",
            "workflow: wan22-t2v.json, image_workflow: wan22-i2v.json",
            {"text-to-video", "image-to-video"},
        ),
        ("comfyui", "workflow: ace-step.json", {"text-to-audio"}),
        ("comfyui", "workflow: qwen-edit.json", {"image-edit", "image-to-image"}),
        (
            "comfyui",
            "workflow: sdxl.json, edit_workflow: qwen-edit.json",
            {"text-to-image", "image-to-image", "image-edit"},
        ),
        ("comfyui", "workflow: upscale.json", {"upscale"}),
        ("openai", "system: Be brief.", {"text-to-text"}),
        ("openai", "capabilities: [text-to-text, vision]", {"text-to-text", "vision"}),
        ("lmstudio", "context_length: 4096", {"text-to-text"}),
    ]
    for kind, model, able in cases:
        text = SMALL.replace("{kind: demo}", f"{{kind: {kind}, url: 'http://127.0.0.1:1'}}")
        config = parse(text.replace("]}", f"], {model}}}"), {})
        assert config.catalog().models["flux"].capabilities == able, kind


def test_an_operators_workflow_lies_beside_the_configuration(tmp_path: Path) -> None:
    """Started from another folder, the bot would not find the operator's own workflow."""
    shipped = files("backends") / "workflows" / "sdxl.json"
    (tmp_path / "own.json").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    text = SMALL.replace("{kind: demo}", "{kind: comfyui, url: 'http://127.0.0.1:1'}")
    text = text.replace("]}", "], workflow: own.json}")
    model = parse(text, {}, folder=tmp_path).catalog().models["flux"]
    assert model.options["workflow"] == str(tmp_path / "own.json")
    with pytest.raises(ConfigError, match=r"config.yaml:7: models.flux: workflow aaa.* cannot be"):
        parse(text.replace("own.json", "a" * 5000), {}, folder=tmp_path)
    (tmp_path / "own.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"config.yaml:7: models.flux: .*own.json: not a workflow"
    ):
        parse(text, {}, folder=tmp_path)


# ---------------------------------------------------------------- secrets


def test_secrets_come_from_named_environment_variables() -> None:
    """Tokens would have to be written into the file."""
    text = with_lines(
        "  discord: {token: '${D}'}",
        "  telegram: {token: '${T:-7:other-signs-that-are-long-enough}'}",
    )
    text = text.replace("  web:", "  web: {token: '${W:-}'}")
    config = parse(text, {"D": "top.secret.signs"})
    assert config.chats.discord is not None
    assert config.chats.discord.token.get_secret_value() == "top.secret.signs"
    assert config.secrets() == {"top.secret.signs", "7:other-signs-that-are-long-enough"}
    assert "top.secret" not in repr(config)
    assert config.warnings == ()


def test_a_missing_variable_is_told_with_its_line() -> None:
    """The bot would try to log in with an empty or literal token."""
    text = with_lines("  discord: {token: '${D}'}", "  telegram: {token: '${T}'}")
    assert problems(text, T="") == (
        "config.yaml:10: chats.discord.token: the variable D is not set: add it to the environment or to usher.env next to this file",
        "config.yaml:11: chats.telegram.token: the variable T is not set: add it to the environment or to usher.env next to this file",
    )


def test_variables_stand_only_where_secrets_belong() -> None:
    """A prompt or a name could read a secret from the environment."""
    assert problems(with_lines("defaults: {image: '${HOME}'}"), HOME="x") == (
        "config.yaml:10: defaults.image: ${NAME} is replaced by a variable only in api_url, database, proxy, token, url",
    )
    assert problems(with_lines("  discord: {token: '${not a name}'}")) == (
        "config.yaml:10: chats.discord.token: write a variable as ${NAME} or ${NAME:-default}",
    )


def test_a_token_in_the_file_works_but_is_warned_about() -> None:
    """A token would be copied around with the file without anyone noticing."""
    config = parse(with_lines("  telegram: {token: '12345:secret-signs-that-are-long-enough'}"), {})
    assert len(config.warnings) == 1
    assert config.warnings[0].startswith("config.yaml:10: chats.telegram.token: is written in")
    assert "secret" not in config.warnings[0].removeprefix("config.yaml:10")
    assert "12345:secret-signs-that-are-long-enough" in config.secrets()


def test_a_password_within_an_address_is_a_secret() -> None:
    """The log would show it with the first failed request."""
    text = SMALL.replace("{kind: demo}", "{kind: demo, url: 'http://me:pass%21word@gpu:1'}")
    assert parse(text, {}).secrets() == {"pass%21word", "pass!word"}


def test_no_problem_ever_shows_a_secret() -> None:
    """A validation error would print the token it complains about."""
    text = with_lines("  telegram: {token: ['${T}']}", "  web: {token: '${S}'}").replace(
        "  web:\n", ""
    )
    found = problems(text, T="canary-one", S="canary2")
    assert len(found) == 2
    assert not any("canary" in each for each in found)


def test_a_token_no_header_can_carry_is_told() -> None:
    """The program would end in a traceback, or no request would ever reach the server."""
    for pasted in ("“canary”", "cana\nry", "canarÿ"):
        text = with_lines("  telegram: {token: '${T}'}").replace(
            "{kind: demo}", "{kind: demo, token: '${B}'}"
        )
        found = problems(text, T=pasted, B=pasted)
        assert [each.partition("token: ")[2] for each in found] == [
            "must be ASCII letters, digits and punctuation on one line"
        ] * 2, pasted


# ---------------------------------------------------------------- styles and chats


def test_styles_and_rooms_reach_the_bot_and_their_mistakes_are_told() -> None:
    """A style or a rule of a chat would be accepted and do nothing, or be mistyped unnoticed."""
    config = parse(
        with_lines(
            "styles:",
            "  noir: {prompt: '{prompt}, noir', size: 3:2, steps: 9, lora: ink, model: flux}",
            "rooms:",
            "  '*': {words: [x]}",
            "  telegram:-100/7: {system: Rhyme., spoiler: true}",
        ),
        {},
    )
    style = config.styles["noir"].style()
    assert (style.prompt, style.size, style.model) == ("{prompt}, noir", "3:2", "flux")
    assert style.options == {"steps": 9, "lora": (LoraWeight(name="ink"),)}
    assert config.rooms["telegram:-100/7"].settings().spoiler
    assert problems(
        with_lines(
            "styles:",
            "  one: {size: huge}",
            "  two: {steps: 900}",
            "rooms:",
            "  matrix:5: {spoiler: true}",
            "  'telegram:': {spoiler: true}",
        )
    ) == (
        "config.yaml:11: styles.one.size: must be a size such as 768x1024 or 3:2, 64 to 4096 each way",
        "config.yaml:12: styles.two.steps: must be at most 200",
        'config.yaml:14: rooms.matrix:5: must be a chat such as "telegram:-100123", a platform, or "*" for all',
        'config.yaml:15: rooms.telegram:: must be a chat such as "telegram:-100123", a platform, or "*" for all',
    )
    (unknown,) = problems(with_lines("styles: {noir: {model: fluks}}"))
    assert "there is no model 'fluks'" in unknown


def test_what_a_workflow_does_is_what_the_model_can_do(tmp_path: Path) -> None:
    """An upscaling workflow would be offered for drawing, or need its capability written down."""
    config = parse(
        with_lines(
            "  lens: {backends: [comfy], workflow: upscale.json}",
            "  sdxl: {backends: [comfy], workflow: sdxl.json}",
        )
        .replace("chats:\n  web:\n", "")
        .replace(
            "      stand-in: {kind: demo}\n",
            "      stand-in: {kind: demo}\n      comfy: {kind: comfyui, url: http://127.0.0.1:1}\n",
        )
        + "chats: {web: {}}\n",
        {},
        folder=tmp_path,
    )
    able = {name: spec.capabilities for name, spec in config.catalog().models.items()}
    assert able["lens"] == {Capability.UPSCALE}
    assert able["sdxl"] == {Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE}


def test_a_model_does_not_suddenly_do_everything() -> None:
    """A model for texts would be offered for videos and speech because its server supports them."""
    for kind in sorted(KINDS.keys() - {"comfyui"}):
        config = parse(
            SMALL.replace("{kind: demo}", f"{{kind: {kind}, url: http://127.0.0.1:1}}"), {}
        )
        stated = {Capability.VISION, Capability.EMBEDDING, Capability.IMAGE_EMBEDDING}
        stated |= {Capability.IMAGE_EDIT, Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO}
        stated |= {Capability.TEXT_TO_AUDIO, Capability.TEXT_TO_SPEECH, Capability.SPEECH_TO_TEXT}
        for spec in config.catalog().models.values():
            assert not spec.capabilities & stated, kind


def test_every_chat_there_can_be_counts_as_one() -> None:
    """A new platform would be refused at the start, as if no one could ask anything."""
    for name in ChatsConfig.model_fields:
        given: dict[str, Any] = {name: object()}
        assert ChatsConfig.model_construct(**given).any(), name
        assert not ChatsConfig().any(), name


def test_a_server_that_is_spoken_to_needs_its_address() -> None:
    """Each new kind of server without an address would need a change to the checks."""
    for kind in KINDS:
        text = SMALL.replace("{kind: demo}", f"{{kind: {kind}}}") + "nonsense: 1\n"
        assert any("needs a url" in found for found in problems(text)) == (kind != "demo"), kind
