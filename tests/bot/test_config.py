"""What an operator may write, what it becomes, and how mistakes are told."""

import json
import textwrap
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import KINDS
from bot.access import Limits
from bot.config import ConfigError, load, parse
from bot.config_records import ChatsConfig
from bot.people import Person
from queueing.catalog import ModelSpec, Timeouts
from queueing.requests import Capability
from queueing.world import Rules

SMALL = """\
hosts:
  home:
    vram: 24GB
    backends:
      stand-in: {kind: demo}
models:
  flux: {backends: [stand-in]}
chats:
  web:
"""


def problems(text: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(textwrap.dedent(text), environ)
    return caught.value.problems


def with_lines(*lines: str) -> str:
    """Return the small configuration with further lines; they begin at line 10."""
    return SMALL + "".join(f"{line}\n" for line in lines)


def test_one_model_of_a_server_under_two_names_is_refused_with_what_to_do() -> None:
    """Both would be counted in memory, and unloading one would cut the other's answers short."""
    text = """\
        hosts:
          home:
            vram: 24GB
            backends:
              studio: {kind: lmstudio, url: "http://127.0.0.1:1234"}
        models:
          helper: {backends: [studio], model: qwen/qwen3-8b, vram: 8GB}
          pirate: {backends: [studio], model: qwen/qwen3-8b, vram: 8GB, system: Arr.}
        chats:
          web:
    """
    assert problems(text) == (
        (
            "config.yaml:8: models.pirate: helper is qwen/qwen3-8b on studio already; give that one"
            " `aliases`, or `rooms` their own `system`"
        ),
    )


def test_one_card_or_server_that_stands_twice_is_refused() -> None:
    """Two hosts would fill one card, and a server would count as two."""
    text = """\
        hosts:
          home:
            vram: 24GB
            gpu: 0
            backends:
              comfy: {kind: comfyui, url: "http://127.0.0.1:8188"}
              studio: {kind: lmstudio, url: "http://127.0.0.1:1234/v1"}
              elsewhere: {kind: openai, url: "http://127.0.0.1:8188/llama"}
          again:
            vram: 24GB
            gpu: 0
            backends:
              llama: {kind: openai, url: "http://LOCALHOST:1234"}
        models:
          qwen: {backends: [studio], vram: 8GB}
        chats:
          web:
    """
    assert problems(text) == (
        (
            "config.yaml:11: hosts.again.gpu: the card of home already; servers that share a card stand"
            " under one host"
        ),
        (
            "config.yaml:13: hosts.again.backends.llama.url: the server of studio already; its models"
            " count in memory only once"
        ),
    )


# ---------------------------------------------------------------- what it becomes


def test_a_small_configuration_becomes_a_catalog_with_the_defaults() -> None:
    """Nine lines would not be enough to start, or a default would differ from the queue's own."""
    config = parse(SMALL, {})
    catalog = config.catalog()
    flux = catalog.models["flux"]
    usual = ModelSpec(name="", backends=(), capabilities=frozenset())
    assert flux.backends == ("stand-in",)
    assert flux.capabilities == set(Capability) - {Capability.VISION}
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


def test_every_setting_of_a_model_reaches_the_queue() -> None:
    """A setting of a model would be accepted and then do nothing."""
    config = parse(
        with_lines("scheduling: {patience: 2, lane_weights: {vip: 9}}").replace(
            "{backends: [stand-in]}",
            "{backends: [stand-in], capabilities: [text-to-image], aliases: [f], vram: 8GB,"
            " parallel: 3, load_s: 1, service_s: 2, max_attempts: 5, max_waiting: 6,"
            " preload: true, step_s: 0.5,"
            " timeouts: {load_s: 7, first_s: none, idle_s: 8, total_s: none}}",
        ),
        {},
    )
    assert config.catalog().models["flux"] == ModelSpec(
        name="flux",
        backends=("stand-in",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        aliases=("f",),
        vram_mb=8192,
        parallel=3,
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


@pytest.mark.parametrize(
    ("written", "size_mb"),
    [("24GB", 24576), ("24 GB", 24576), ("7.5gb", 7680), ("512MiB", 512), ("auto", None)],
)
def test_sizes_are_read_with_their_unit(written: str, size_mb: int | None) -> None:
    """A card's size as its maker writes it would be refused or misread."""
    config = parse(SMALL.replace("24GB", "99GB").replace("]}", f"], vram: {written}}}"), {})
    assert config.catalog().models["flux"].vram_mb == size_mb


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
    """`on`, 12:30 or 010 would silently become something else than what is written."""
    config = parse(
        SMALL.replace("flux:", "on:").replace("]}", "], aliases: [12:30, yes], max_waiting: 010}"),
        {},
    )
    model = config.catalog().models["on"]
    assert (model.aliases, model.max_waiting) == (("12:30", "yes"), 10)


def test_roles_take_what_they_leave_out_from_everybodys_limits() -> None:
    """A role made to give more would silently give the defaults in all else."""
    text = with_lines(
        "limits: {open_per_person: 3, in_line_per_person: 2, per_hour: 10}",
        "roles:",
        "  patrons: {members: [telegram:7], discord_roles: [165511591545143296], lane: vip}",
        "  staff: {members: [telegram:8], per_hour: none}",
    )
    access = parse(text, {}).access()
    usual = Limits(open_per_person=3, in_line_per_person=2, per_hour=10)
    assert access.limits_of(Person(user="web:x"), ()) == usual
    assert access.limits_of(Person(user="telegram:7"), ()) == replace(usual, lane="vip")
    by_role = access.limits_of(Person(user="discord:1"), ("165511591545143296",))
    assert by_role == replace(usual, lane="vip")
    assert access.limits_of(Person(user="telegram:8"), ()) == replace(usual, per_hour=None)


@pytest.mark.parametrize(
    ("kind", "model", "able"),
    [
        ("comfyui", "workflow: sdxl.json", {"text-to-image", "image-to-image"}),
        ("comfyui", "workflow: flux-schnell.json", {"text-to-image"}),
        ("openai", "system: Be brief.", {"text-to-text"}),
        ("openai", "capabilities: [text-to-text, vision]", {"text-to-text", "vision"}),
        ("lmstudio", "context_length: 4096", {"text-to-text"}),
    ],
)
def test_what_a_model_can_do_follows_from_its_kind_and_workflow(
    kind: str, model: str, able: set[str]
) -> None:
    """A model would be offered for what it cannot do, or an operator must state the obvious."""
    text = SMALL.replace("{kind: demo}", f"{{kind: {kind}, url: 'http://127.0.0.1:1'}}")
    config = parse(text.replace("]}", f"], {model}}}"), {})
    assert config.catalog().models["flux"].capabilities == able


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
    """A token would have to stand in the file."""
    text = with_lines("  discord: {token: '${D}'}", "  telegram: {token: '${T:-7:other}'}")
    text = text.replace("  web:", "  web: {token: '${W:-}'}")
    config = parse(text, {"D": "top-secret"})
    assert config.chats.discord is not None
    assert config.chats.discord.token.get_secret_value() == "top-secret"
    assert config.secrets() == {"top-secret", "7:other"}
    assert "top-secret" not in repr(config)
    assert config.warnings == ()


def test_a_missing_variable_is_told_with_its_line() -> None:
    """The bot would try to log in with an empty or literal token."""
    text = with_lines("  discord: {token: '${D}'}", "  telegram: {token: '${T}'}")
    assert problems(text, T="") == (
        "config.yaml:10: chats.discord.token: the environment variable D is not set",
        "config.yaml:11: chats.telegram.token: the environment variable T is not set",
    )


def test_variables_stand_only_where_secrets_belong() -> None:
    """A prompt or a name could draw a secret out of the environment."""
    assert problems(with_lines("defaults: {image: '${HOME}'}"), HOME="x") == (
        "config.yaml:10: defaults.image: ${NAME} stands for a variable only in api_url, token, url",
    )
    assert problems(with_lines("  discord: {token: '${not a name}'}")) == (
        "config.yaml:10: chats.discord.token: a variable must read ${NAME} or ${NAME:-otherwise}",
    )


def test_a_token_in_the_file_works_but_is_warned_about() -> None:
    """A token would be copied around with the file without anybody noticing."""
    config = parse(with_lines("  telegram: {token: '12345:secret'}"), {})
    assert len(config.warnings) == 1
    assert config.warnings[0].startswith("config.yaml:10: chats.telegram.token: stands in the file")
    assert "secret" not in config.warnings[0].removeprefix("config.yaml:10")
    assert "12345:secret" in config.secrets()


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


# ---------------------------------------------------------------- mistakes


def test_mistakes_of_every_kind_are_told_together() -> None:
    """An operator would mend the settings, only to be told of the names, then of the sizes."""
    found = problems(
        """\
        hosts:
          home:
            vram: 8GB
            vram: 24GB
            backends:
              stand-in: {kind: demo, colour: red}
        models:
          flux: {backends: [stand-im]}
          huge: {backends: [stand-in], vram: 40GB}
          slow: {backends: [stand-in], load_s: soon}
        limits: {open_per_person: 2, in_line_per_person: 3}
        chats: {web: {prot: 8080}}
        """
    )
    assert [each.partition(": ")[2].split(":")[0] for each in found] == [
        "hosts.home.vram",
        "hosts.home.backends.stand-in.colour",
        "models.flux.backends[0]",
        "models.huge.vram",
        "models.slow.load_s",
        "limits.in_line_per_person",
        "chats.web.prot",
    ]


def test_what_only_follows_from_a_mistake_is_not_told() -> None:
    """An operator would look for mistakes where there are none."""
    found = problems(
        """\
        hosts: {home: {vram: 24GB, backends: {stand-in: {kind: dmo}}}}
        models:
          flux: {backends: [stand-in], preload: perhaps}
        defaults: {image: flux}
        chats: {web: {}}
        """
    )
    assert [each.partition(": ")[2].split(":")[0] for each in found] == [
        "hosts.home.backends.stand-in.kind",
        "models.flux.preload",
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    """An operator would mend one error after the other, each with a new start."""
    found = problems(
        """\
        hosts:
          home:
            vram: 24
            margin: 1.5
            backends:
              stand-in: {kind: demo, paralel: x, parallel: x}
        models:
          flux:
            backends: stand-in
            timeouts:
              load_s: soon
              idle: 3
        limits: {open_per_person: 0}
        chats: {telegram: {}}
        admins: [42]
        logging: {level: loud}
        """
    )
    assert found == (
        "config.yaml:3: hosts.home.vram: must be a size with its unit, such as 24GB or 8192MB",
        "config.yaml:4: hosts.home.margin: must be at most 1.0",
        "config.yaml:6: hosts.home.backends.stand-in.parallel: must be a whole number",
        "config.yaml:9: models.flux.backends: must be a list, such as [one, two]",
        "config.yaml:11: models.flux.timeouts.load_s: must be a number",
        "config.yaml:12: models.flux.timeouts.idle: is no setting; did you mean idle_s?",
        "config.yaml:13: limits.open_per_person: must be at least 1",
        "config.yaml:14: chats.telegram.token: is missing",
        "config.yaml:15: admins[0]: must name platform and id, such as telegram:42",
        "config.yaml:16: logging.level: must be one of 'debug', 'info', 'warning' or 'error'",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["models: {}"], "config.yaml:10: models: is given twice (first in line 6)"),
        (["defaults: {1: x}"], "config.yaml:10: defaults: the name '1' must be text: quote it"),
        (["defaults: {[1]: x}"], "config.yaml:10: defaults: the name must be text"),
        (["a: &x 1", "b: *x"], "config.yaml:11: cannot be read: references (*name)"),
        (["limits: {", "a"], "config.yaml:12: cannot be read:"),
        (
            ["\tlimits:"],
            "config.yaml:10: cannot be read: found character '\\t' that cannot start any token; indent with spaces, not with tabs",
        ),
        (
            ["chats: {web: {token: ${TOKEN}}}"],
            "config.yaml:10: cannot be read: expected ',' or '}', but got '{'; between { and } write it with quotes: \"${NAME}\"",
        ),
        (["---", "x: 1"], "config.yaml:10: cannot be read:"),
        (["limits: !!python/name:os.system x"], "config.yaml:10: limits: the tag"),
        (["x: " + "9" * 5000], "config.yaml:10: x: this is not a usable number"),
        (["x: " + "[" * 3000], "config.yaml: cannot be read: nested too deeply"),
        (["x: \x00"], "config.yaml: cannot be read: unacceptable character"),
        (["nonsense: 1"], "config.yaml:10: nonsense: is no setting; there are admins"),
        (["defaults: {image: 7}"], "config.yaml:10: defaults.image: must be text"),
        (["retention: {days: .inf}"], "config.yaml:10: retention.days: must be a number"),
        (["retention: {days: nan}"], "config.yaml:10: retention.days: must be a number"),
        (['database: "a\\0b"'], "config.yaml:10: database: must be a path"),
        (["limits: 7"], "config.yaml:10: limits: must be a group of settings"),
    ],
)
def test_broken_files_are_refused_with_the_line(lines: list[str], expected: str) -> None:
    """A slip of the pen would crash, hang, or silently change what is configured."""
    assert any(each.startswith(expected) for each in problems(with_lines(*lines)))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "[stand-in]",
            "[stand-out]",
            "config.yaml:7: models.flux.backends[0]: no host has a backend 'stand-out'; did you mean stand-in?",
        ),
        (
            "{kind: demo}",
            "{kind: dmo}",
            "config.yaml:5: hosts.home.backends.stand-in.kind: unknown kind 'dmo'",
        ),
        (
            "models:",
            "  away: {vram: 8GB, backends: {stand-in: {kind: demo}}}\nmodels:",
            "config.yaml:6: hosts.away.backends.stand-in: home has a backend of this name",
        ),
        (
            "[stand-in]}",
            "[stand-in]}\n  Sdxl: {backends: [stand-in], aliases: [FLUX]}",
            "config.yaml:8: models.Sdxl.aliases[0]: 'FLUX' already means the model flux",
        ),
        (
            "[stand-in]}",
            "[stand-in]}\n  FLUX: {backends: [stand-in]}",
            "config.yaml:8: models.FLUX: 'FLUX' already means the model flux",
        ),
        (
            "[stand-in]}",
            "[stand-in], vram: 20GB}",
            "config.yaml:7: models.flux.vram: larger than any of its hosts can offer (19660 MB)",
        ),
        (
            "[stand-in]}",
            "[stand-in], stepz: 4}",
            "config.yaml:7: models.flux.stepz: is no setting; did you mean step_s?",
        ),
        (
            "[stand-in]}",
            "[stand-in], aliasses: [f]}",
            "config.yaml:7: models.flux.aliasses: is no setting; did you mean aliases?",
        ),
        (
            "{kind: demo}",
            "{kind: demo, adress: x}",
            "config.yaml:5: hosts.home.backends.stand-in.adress: is no setting; there are discover,",
        ),
        (
            "{kind: demo}",
            "{kind: demo, fail_rate: 3}",
            "config.yaml:5: hosts.home.backends.stand-in.fail_rate: ",
        ),
        ("flux:", "flu x:", "config.yaml:7: models.flu x: must be a name without blanks"),
        ("flux:", "--raw:", "config.yaml:7: models.--raw: must be a name without blanks"),
        ("  web:", "  web: {host: 0.0.0.0}", "config.yaml:9: chats.web.host: 0.0.0.0 is open"),
        (
            "  web:",
            "  web: {token: short}",
            "config.yaml:9: chats.web.token: must have at least 16 characters",
        ),
        (
            "  web:",
            "  web:\ndefaults: {image: fluks}",
            "config.yaml:10: defaults.image: no model is called 'fluks'; able to do it: flux",
        ),
        (
            "[stand-in]}",
            "[stand-in], capabilities: [text-to-text]}\ndefaults: {image: flux}",
            "config.yaml:8: defaults.image: flux cannot do text-to-image",
        ),
        (
            "  web:",
            "  web:\nlimits: {in_line_per_person: 11}",
            "config.yaml:10: limits.in_line_per_person: cannot be more than",
        ),
        (
            "  web:",
            "  web:\nroles: {few: {open_per_person: 2}}",
            "config.yaml:10: roles.few.in_line_per_person: cannot be more than",
        ),
        (
            "{kind: demo}",
            "{kind: demo, url: 'gpu:8188'}",
            "config.yaml:5: hosts.home.backends.stand-in.url: must be an address",
        ),
        ("flux: {backends: [stand-in]}", "", "config.yaml:6: models: no models"),
        (
            "[stand-in]}",
            "[stand-in], capabilities: []}",
            "config.yaml:7: models.flux.backends: its servers can do nothing in common",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_with_the_line(
    old: str, new: str, expected: str
) -> None:
    """A name that means nothing would only be noticed when a person asks for it."""
    found = problems(SMALL.replace(old, new))
    assert [each for each in found if each.startswith(expected)], found


def test_a_model_larger_than_its_card_is_a_warning_where_the_server_can_offload() -> None:
    """ComfyUI runs models larger than the card; they would be refused, or surprise by their pace."""
    text = SMALL.replace("{kind: demo}", "{kind: comfyui, url: 'http://127.0.0.1:1'}")
    text = text.replace("]}", "], workflow: flux.json, vram: 30GB}")
    (warning,) = parse(text, {}).warnings
    assert warning.startswith("config.yaml:7: models.flux.vram: larger than any of its hosts")


def test_an_admin_of_a_chat_that_is_off_is_warned_about() -> None:
    """A misspelt platform would leave the bot without its admin, silently."""
    config = parse(with_lines("admins: [web:local, discord:1, irc:me]"), {})
    assert config.warnings == (
        "config.yaml:10: admins[1]: chats.discord is not configured",
        "config.yaml:10: admins[2]: chats.irc is not configured",
    )


def test_discovery_makes_models_and_unknown_defaults_legitimate() -> None:
    """`discover: true` alone would not be enough to offer what a server has."""
    text = SMALL.replace("{kind: demo}", "{kind: demo, discover: true}")
    text = (
        text.replace("  flux: {backends: [stand-in]}\n", "") + "defaults: {image: demo-painter}\n"
    )
    assert parse(text, {}).defaults.image == "demo-painter"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b""])
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(
    tmp_path: Path, content: bytes | None
) -> None:
    """A missing, binary or empty file would end in a traceback."""
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"no such file|not UTF-8|hosts: is missing"):
        load(file, {})


@given(st.text(max_size=200) | st.text(alphabet="{}[]:-,&*!|>'\"\n\t #%@`~a0", max_size=60))
def test_no_text_does_anything_but_load_or_be_refused(text: str) -> None:
    """Some text would crash the reader or keep it busy for ever."""
    with suppress(ConfigError):
        parse(text, {})


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.integers()
        | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["hosts", "models", "chats", "web", "a", "backends", "vram", "kind", "timeouts"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_no_structure_does_anything_but_load_or_be_refused(value: object) -> None:
    """A group where a value is expected, or the reverse, would crash the checks."""
    with suppress(ConfigError):
        parse(json.dumps(value), {})  # every JSON text is YAML


# ---------------------------------------------------------------- styles and chats


def test_styles_and_rooms_reach_the_bot_and_their_mistakes_are_told() -> None:
    """A style or a rule of a chat would be accepted and then do nothing, or be mistyped unseen."""
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
    assert style.options == {"steps": 9, "lora": "ink"}
    assert config.rooms["telegram:-100/7"].room().spoiler
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
    assert "no model is called 'fluks'" in unknown


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


@pytest.mark.parametrize("name", ChatsConfig.model_fields)
def test_every_chat_there_can_be_counts_as_one(name: str) -> None:
    """A new platform would be refused at the start, as if nobody could ask anything."""
    given: dict[str, Any] = {name: object()}
    assert ChatsConfig.model_construct(**given).any()
    assert not ChatsConfig().any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_spoken_to_needs_its_address(kind: str) -> None:
    """A new kind of server without one would have to be written into the checks as well."""
    text = SMALL.replace("{kind: demo}", f"{{kind: {kind}}}") + "nonsense: 1\n"
    assert any("needs a url" in found for found in problems(text)) == (kind != "demo")
