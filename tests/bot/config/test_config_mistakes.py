"""Mistakes in a configuration: each is reported with its line, in words that help."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.loader import ConfigError, load, parse
from bot.config.reading.yaml_reader import read
from tests.bot.config.configs import (
    SMALL,
    problems,
    with_lines,
)
from tests.samples import examples


def test_mistakes_of_every_kind_are_told_together() -> None:
    """An operator would correct the settings, then be told of the names, then of the sizes."""
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
        limits: {open_per_person: 2, queued_per_person: 3}
        chats: {web: {prot: 8080}}
        """
    )
    assert [each.partition(": ")[2].split(":")[0] for each in found] == [
        "hosts.home.vram",
        "hosts.home.backends.stand-in.colour",
        "models.flux.backends[0]",
        "models.huge.vram",
        "models.slow.load_s",
        "limits.queued_per_person",
        "chats.web.prot",
    ]


@pytest.mark.parametrize("value", ["3", "null"])
def test_the_number_of_a_bots_connections_is_no_setting(value: str) -> None:
    """An operator would look for a new name of the setting, and for the processes that share it."""
    (told,) = problems(with_lines("  discord:", "    token: a.b.c", f"    shards: {value}"))
    where, _, why = told.partition(": ")
    assert where == "config.yaml:12"
    assert why == (
        "chats.discord.shards: one process opens all connections of a bot: remove this line"
    )


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
    """An operator would correct one error after the other, each with a new start."""
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
        limits: {open_per_person: 0, in_line_per_person: 2}
        chats: {telegram: {}}
        admins: [42]
        logging: {level: loud}
        """
    )
    assert found == (
        "config.yaml:3: hosts.home.vram: must be a size with its unit, such as 24GB or 8192MB",
        "config.yaml:4: hosts.home.margin: must be at most 1",
        "config.yaml:6: hosts.home.backends.stand-in.parallel: must be a whole number",
        "config.yaml:9: models.flux.backends: must be a list, such as [one, two]",
        "config.yaml:11: models.flux.timeouts.load_s: must be a number",
        "config.yaml:12: models.flux.timeouts.idle: is not a setting; did you mean idle_s?",
        "config.yaml:13: limits.open_per_person: must be at least 1",
        "config.yaml:13: limits.in_line_per_person: is not a setting; did you mean queued_per_person?",
        "config.yaml:14: chats.telegram.token: is missing",
        "config.yaml:15: admins[0]: must name platform and id, such as telegram:42",
        "config.yaml:16: logging.level: must be one of 'debug', 'info', 'warning' or 'error'",
    )


def test_a_file_without_settings_says_so() -> None:
    """`usher check` ended with a status of 1 and no message."""
    for text in ("", "# nothing\n", "---\n", "~\n", "null\n"):
        assert problems(text) == (
            "config.yaml: the file is empty: `usher example` prints every setting",
        ), text


BROKEN = (
    (["models: {}"], "config.yaml:10: models: is given twice (first in line 6)"),
    (["defaults: {1: x}"], "config.yaml:10: defaults: the name '1' must be text: quote it"),
    (["defaults: {[1]: x}"], "config.yaml:10: defaults: the name must be text"),
    (["a: &x 1", "b: *x"], "config.yaml:11: cannot be read: references (*name)"),
    (["limits: {", "a"], "config.yaml:10: cannot be read: this group begins with {"),
    (
        ["\tlimits:"],
        "config.yaml:10: cannot be read: tabs are not allowed here; indent with spaces",
    ),
    (
        ["chats: {web: {token: ${TOKEN}}}"],
        'config.yaml:10: cannot be read: between { and } write a variable with quotes: "${NAME}"',
    ),
    (["---", "x: 1"], "config.yaml:10: cannot be read: a line of --- begins a second"),
    (["limits", "  a: 1"], 'config.yaml:10: cannot be read: this line lacks ":" and a space'),
    (["limits", "defaults: {}"], 'config.yaml:10: cannot be read: this line lacks ":" and a'),
    (["limits: {a: [1}"], "config.yaml:10: cannot be read: this list begins with [ but ends"),
    (["limits: {a: 1]"], "config.yaml:10: cannot be read: this group begins with { but ends"),
    (['limits: {a: "1" b: 2}'], "config.yaml:10: cannot be read: between { and } a comma is"),
    (["limits: {a: b: 2}"], 'config.yaml:10: cannot be read: between { and } a text with ":"'),
    (['database: "a" b'], "config.yaml:10: cannot be read: only a comment may follow a value"),
    (["timezone: @here"], "config.yaml:10: cannot be read: a text that begins with @ needs"),
    (["timezone: %here"], "config.yaml:10: cannot be read: a text that begins with % needs"),
    (["admins: - web:ada"], 'config.yaml:10: cannot be read: a list\'s "-" needs its own line'),
    (['database: "C:\\data"'], "config.yaml:10: cannot be read: between double quotes write"),
    (["database: |here"], "config.yaml:10: cannot be read: a text that begins with | or >"),
    (["...", "x: 1"], "config.yaml:11: cannot be read: the configuration ends above this"),
    (
        ["database: $DATA"],
        "config.yaml:10: database: write a variable as ${NAME} or ${NAME:-default}",
    ),
    (["lanes: x"], "config.yaml:10: lanes: is not a setting"),
    (
        ["limits: {lane: VIP}"],
        "config.yaml:10: limits.lane: must be one of 'vip', 'normal' or 'relaxed'; did you mean vip?",
    ),
    (["limits: !!python/name:os.system x"], "config.yaml:10: limits: the tag"),
    (["x: " + "9" * 5000], "config.yaml:10: x: this is not a usable number"),
    (["x: " + "[" * 3000], "config.yaml: cannot be read: nested too deeply"),
    (["x: \x00"], "config.yaml: cannot be read: unacceptable character"),
    (["nonsense: 1"], "config.yaml:10: nonsense: is not a setting; there are admins"),
    (["defaults: {image: 7}"], "config.yaml:10: defaults.image: must be text"),
    (
        ["conversation: {idle: soon}"],
        "config.yaml:10: conversation.idle: must be a time with its unit, such as 30min, 90s, 2h or 90d",
    ),
    (["retention: {days: .inf}"], "config.yaml:10: retention.days: must be a number"),
    (["retention: {days: nan}"], "config.yaml:10: retention.days: must be a number"),
    (['database: "a\\0b"'], "config.yaml:10: database: must be a path"),
    (["limits: 7"], "config.yaml:10: limits: must be a group of settings"),
    (
        ["cluster: {listen: 'http://10.0.0.7'}"],
        "config.yaml:10: cluster.listen: must be a host, or host:port such as 10.0.0.7:8124",
    ),
    (["cluster: {advertise: 'a:99999'}"], "config.yaml:10: cluster.advertise: must be a host,"),
    (["cluster: {listen: 8124}"], "config.yaml:10: cluster.listen: must be text"),
    (
        ["cluster: {listen: 0.0.0.0:8124}"],
        "config.yaml:10: cluster: advertise: 0.0.0.0 and :: cannot be called: name an address",
    ),
    (["cluster: {advertise: '[::]'}"], "config.yaml:10: cluster: advertise: 0.0.0.0 and ::"),
)


def test_broken_files_are_refused_with_the_line(subtests: pytest.Subtests) -> None:
    """A typing error would crash, hang, or silently change what is configured."""
    for lines, expected in BROKEN:
        with subtests.test(expected):
            assert any(each.startswith(expected) for each in problems(with_lines(*lines)))


UNFITTING = (
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
        "config.yaml:6: hosts.away.backends.stand-in: home already has a backend of this name",
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
        "config.yaml:7: models.flux.vram: 20 GB is more than its hosts can offer: at most 19.2 GB (80% of home's 24 GB)",
    ),
    (
        "[stand-in]}",
        "[stand-in], stepz: 4}",
        "config.yaml:7: models.flux.stepz: is not a setting; did you mean step_s?",
    ),
    (
        "[stand-in]}",
        "[stand-in], aliasses: [f]}",
        "config.yaml:7: models.flux.aliasses: is not a setting; did you mean aliases?",
    ),
    (
        "{kind: demo}",
        "{kind: demo, adress: x}",
        "config.yaml:5: hosts.home.backends.stand-in.adress: is not a setting; there are discover,",
    ),
    (
        "{kind: demo}",
        "{kind: demo, fail_rate: 3}",
        "config.yaml:5: hosts.home.backends.stand-in.fail_rate: ",
    ),
    (
        "{kind: demo}",
        "{kind: openai, url: 'http://a', flavour: Olama}",
        "config.yaml:5: hosts.home.backends.stand-in.flavour: unknown flavour; did you mean ollama?",
    ),
    (
        "{kind: demo}",
        "{kind: images, url: 'http://a', keep_metadata: perhaps}",
        "config.yaml:5: hosts.home.backends.stand-in.keep_metadata: must be true or false",
    ),
    (
        "{kind: demo}",
        "{kind: Llama.cpp}",
        "config.yaml:5: hosts.home.backends.stand-in.kind: unknown kind 'Llama.cpp'; use kind openai for that server",
    ),
    (
        "{kind: demo}\nmodels:\n  flux: {backends: [stand-in]}",
        "{kind: comfyui, url: 'http://a'}\nmodels:\n  flux: {backends: [stand-in], workflow: flx.json}",
        "config.yaml:7: models.flux: workflow flx.json does not exist; did you mean flux.json?",
    ),
    (
        "[stand-in]}",
        "[stand-in], step_s: soon}",
        "config.yaml:7: models.flux.step_s: must be a number",
    ),
    ("flux:", "flu x:", "config.yaml:7: models.flu x: must be a name without spaces"),
    ("flux:", "--raw:", "config.yaml:7: models.--raw: must be a name without spaces"),
    (
        "  web:",
        "  web: {port: 9464}\nmetrics: {}",
        "config.yaml:10: metrics.port: chats.web.port is already 9464",
    ),
    (
        "  web:",
        "  web: {host: localhost, port: 81}\napi: {port: 81}",
        "config.yaml:10: api.port: chats.web.port is already 81",
    ),
    (
        "  web:",
        "  web:\napi: {host: 0.0.0.0, port: 81}\ncluster: {listen: '10.0.0.7:81'}",
        "config.yaml:11: cluster.listen: api.port is already 81",
    ),
    (
        "  web:",
        "  web: {host: 0.0.0.0}",
        "config.yaml:9: chats.web.host: opens the page to other machines",
    ),
    (
        "  web:",
        "  web: {token: short}",
        "config.yaml:9: chats.web.token: must have at least 16 characters",
    ),
    (
        "  web:",
        "  web: {token: aaaaaaaaaaaaaaaa}",
        "config.yaml:9: chats.web.token: could be guessed: make one with `openssl rand -hex 16`",
    ),
    (
        "  web:",
        "  web:\ndefaults: {image: fluks}",
        "config.yaml:10: defaults.image: there is no model 'fluks'; models that can do it: flux",
    ),
    (
        "[stand-in]}",
        "[stand-in], capabilities: [text-to-text]}\ndefaults: {image: flux}",
        "config.yaml:8: defaults.image: flux cannot do text-to-image",
    ),
    (
        "  web:",
        "  web:\nlimits: {queued_per_person: 11}",
        "config.yaml:10: limits.queued_per_person: 11 is more than open_per_person; set it to 10",
    ),
    (
        "  web:",
        "  web:\nroles: {few: {open_per_person: 2}}",
        "config.yaml:10: roles.few.queued_per_person: 5 is more than open_per_person; set it to 2",
    ),
    (
        "{kind: demo}",
        "{kind: demo, url: 'gpu:8188'}",
        "config.yaml:5: hosts.home.backends.stand-in.url: must be an address",
    ),
    (
        "[stand-in]}",
        "[stand-in], capabilities: []}",
        "config.yaml:7: models.flux.backends: its servers have no capability in common",
    ),
)


def test_what_does_not_fit_together_is_refused_with_the_line(subtests: pytest.Subtests) -> None:
    """A name that means nothing would only be noticed when a person asks for it."""
    for old, new, expected in UNFITTING:
        with subtests.test(expected):
            found = problems(SMALL.replace(old, new))
            assert [each for each in found if each.startswith(expected)], found


def test_a_model_larger_than_its_gpu_is_a_warning_where_the_server_can_offload() -> None:
    """ComfyUI runs models larger than the GPU; they would be refused, or be slow unannounced."""
    text = SMALL.replace("{kind: demo}", "{kind: comfyui, url: 'http://127.0.0.1:1'}")
    text = text.replace("]}", "], workflow: flux.json, vram: 30GB}")
    (warning,) = parse(text, {}).warnings
    assert warning.startswith("config.yaml:7: models.flux.vram: ")


def test_the_commonest_slips_are_told_in_plain_words_at_their_line() -> None:
    """An operator would read the YAML library's jargon, or look at the line below the mistake."""
    cases: list[tuple[str, str]] = [
        ("", "config.yaml: the file is empty: `usher example` prints every setting"),
        ("# a comment\n", "config.yaml: the file is empty: `usher example` prints every setting"),
        ("a:\n  b: 1\n   c: 2\n", "config.yaml:3: cannot be read: a name with"),
        ("a:\n  b: x\n c: 2\n", "config.yaml:3: cannot be read: the indentation of this line"),
        ("a:\n  - 1\n - 2\n", "config.yaml:3: cannot be read: the indentation of this line"),
        ("a: [1, 2\nb: 3\n", "config.yaml:1: cannot be read: this list begins with ["),
        ("a: {x: 1\nb: 3\n", "config.yaml:1: cannot be read: this group begins with {"),
        ("a: 'x\nb: y\n", "config.yaml:1: cannot be read: this text begins with a quote"),
        (
            SMALL.replace("kind: demo", "kind: Comfy-UI"),
            "config.yaml:5: hosts.home.backends.stand-in.kind: unknown kind 'Comfy-UI'; did you mean comfyui?",
        ),
        (
            SMALL.replace("kind: demo", "kind: LMStudio"),
            "config.yaml:5: hosts.home.backends.stand-in.kind: unknown kind 'LMStudio'; did you mean lmstudio?",
        ),
    ]
    for text, expected in cases:
        found = problems(text)
        assert [each for each in found if each.startswith(expected)], found


def test_no_slip_of_one_character_is_told_in_the_words_of_the_library() -> None:
    """An operator would read of block ends, scalars and tokens."""
    text = SMALL.replace("]}", "], aliases: ['a', b]}")
    slipped = [text[:at] + text[at + 1 :] for at in range(len(text))]
    borders = [found.end() for found in re.finditer(r"\W|\w(?=\W)", text)]
    for number, slip in enumerate(" :\t\"'[]{},-#&*!|>%@`?"):
        slipped += [text[:at] + slip + text[at:] for at in borders[number % 4 :: 4]]
    for each in slipped:
        told = "".join(problem.text for problem in read(each, {}).problems)
        assert not re.search(r"expected|found|token|scalar|block|start|while", told), each


def test_an_admin_of_a_chat_that_is_off_is_warned_about() -> None:
    """The bot would silently be left without its admin."""
    config = parse(with_lines("admins: [web:local, discord:1, irc:me]"), {})
    assert config.warnings == (
        "config.yaml:10: admins[1]: chats.discord is not configured",
        "config.yaml:10: admins[2]: there is no platform 'irc'; known are discord, telegram, web",
    )


def test_models_that_no_one_could_ask_for_are_told() -> None:
    """The bot would start and never have anything to offer."""
    text = SMALL.replace("{kind: demo}", "{kind: demo, discover: false}")
    (told,) = problems(text.replace("flux: {backends: [stand-in]}", ""))
    assert told.startswith("config.yaml:6: models: no models")


def test_a_server_offers_what_it_has_where_no_model_is_named_for_it() -> None:
    """A server alone in the file would do nothing, or one with named models offer others too."""
    cases: list[tuple[str, bool, bool]] = [
        ("", False, True),
        ("", True, False),
        (", discover: true", True, True),
        (", discover: false", False, False),
    ]
    for discover, named, discovers in cases:
        text = SMALL.replace(
            "{kind: demo}", f"{{kind: demo{discover}}}\n      other: {{kind: demo}}"
        )
        text = text.replace("[stand-in]", "[stand-in, other]" if named else "[other]")
        assert parse(text, {}).catalog().backends["stand-in"].discover is discovers, discover


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
    with pytest.raises(ConfigError, match=r"no such file|not UTF-8|the file is empty"):
        load(file, {})


@given(st.text(max_size=200) | st.text(alphabet="{}[]:-,&*!|>'\"\n\t #%@`~a0", max_size=60))
def test_no_text_does_anything_but_load_or_be_refused(text: str) -> None:
    """Some text would crash the reader or keep it busy forever."""
    with suppress(ConfigError):
        parse(text, {})


@examples(100, quick=25)
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
            "config.yaml:8: models.pirate: helper is already qwen/qwen3-8b on studio; give helper"
            " `aliases`, or set `system` in `rooms`"
        ),
    )


def test_more_copies_than_a_host_has_servers_are_refused() -> None:
    """The second copy would never be loaded, and no one would know why."""
    text = with_lines("").replace("{backends: [stand-in]}", "{backends: [stand-in], copies: 2}")
    told = "at most 1 of its servers are on one host, and each holds one copy of a model"
    assert problems(text) == (f"config.yaml:7: models.flux.copies: {told}",)


def test_one_gpu_or_server_that_stands_twice_is_refused() -> None:
    """Two hosts would fill one GPU, or a server would count twice."""
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
            "config.yaml:11: hosts.again.gpu: is already the GPU of home; list servers that share a GPU"
            " under one host"
        ),
        (
            "config.yaml:13: hosts.again.backends.llama.url: is already the server of studio; configure each"
            " server once, or its models count twice"
        ),
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('wake: {mac: "00:1a:2b"}', "wake.mac: must be a hardware address"),
        ('wake: {mac: "00:1a:2b:3c:4d:5e", broadcast: gpu}', "wake.broadcast: must be an IPv4"),
        ("sleep: {after: 20min, command: [x]}", "sleep: nothing would wake it"),
        ('wake: {mac: "001a2b3c4d5e"}, sleep: {after: 20min}', "sleep: needs either `command`"),
        (
            'wake: {mac: "001a2b3c4d5e"}, sleep: {after: 1s, command: [x]}',
            "sleep.after: must be at",
        ),
    ],
)
def test_mistakes_of_machines_that_sleep_are_told(given: str, told: str) -> None:
    """A machine would sleep forever, or never."""
    text = f"""\
hosts: {{home: {{vram: 24GB, {given}, backends: {{stand-in: {{kind: demo}}}}}}}}
models: {{flux: {{backends: [stand-in]}}}}
chats: {{web: {{port: 0}}}}
"""
    with pytest.raises(ConfigError) as refused:
        parse(text, {})
    assert any(told in problem for problem in refused.value.problems), refused.value.problems
