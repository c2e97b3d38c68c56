"""Settings that all processes of one installation must share, and how differences are reported."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.config import Config
from bot.config.differences import OWN, changed, differences, in_words, marks
from bot.config.loader import parse, settings_at

KEY = b"of this epoch"
CONFIG = """\
hosts:
  home: {vram: 24GB, backends: {comfy: {kind: comfyui, url: "http://gpu:8188"}}}
  attic: {vram: 24GB, backends: {stand-in: {kind: demo}}}
models:
  flux: {backends: [stand-in], vram: 12GB}
  qwen2.5: {backends: [stand-in]}
  qwen2: {backends: [stand-in]}
chats:
  web: {port: 8080, token: "${WEB}"}
  telegram: {token: "${TELEGRAM}"}
api: {port: 8081}
roles: {patrons: {lane: vip}}
"""
ENVIRON = {
    "WEB": "8f1e27c9a7f04d2ab16f0d3c5e9b7a61",
    "TELEGRAM": "1234567:AAHabcdefgh-and-as-many-signs-again",
}


def read(
    *changes: tuple[str, str], folder: Path | None = None, environ: dict[str, str] = ENVIRON
) -> Config:
    text = CONFIG
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return parse(text, environ, folder=folder)


def apart(*changes: tuple[str, str]) -> tuple[str, ...]:
    return differences(marks(read(), KEY), marks(read(*changes), KEY))


def test_one_configuration_has_no_differences() -> None:
    """No second process could start."""
    assert apart() == ()


DIFFERENCES = (
    ("12GB", "8GB", ["models.flux.vram differs"]),
    (", vram: 12GB", "", ["models.flux.vram is only here"]),
    ("qwen2:", "qwen3:", ["models.qwen2 is only here", "models.qwen3 is only there"]),
    ("  qwen2.5: {backends: [stand-in]}\n", "", ["models.qwen2.5 is only here"]),
    (
        "lane: vip",
        "per_hour: none",
        ["roles.patrons.lane is only here", "roles.patrons.per_hour is only there"],
    ),
    ("gpu:8188", "gpu:8189", ["hosts.home.backends.comfy.url differs"]),
    (
        'telegram: {token: "${TELEGRAM}"}',
        "discord: {token: a.b.c}",
        ["chats.discord is only there", "chats.telegram is only here"],
    ),
    ("${TELEGRAM}", "1${TELEGRAM}", ["chats.telegram.token differs"]),
    ("api: {port: 8081}", "", ["api is only here"]),
    ("roles:", "limits: {per_hour: 5}\nroles:", ["limits.per_hour is only there"]),
    ("roles:", "rooms: {'*': {spoiler: true}}\nroles:", ["rooms.* is only there"]),
    ("roles:", "cluster: {lease_s: 3}\nroles:", ["cluster.lease_s is only there"]),
    ("roles:", "admins: ['web:ada']\nroles:", ["admins is only there"]),
)


def test_a_difference_is_named_by_its_path(subtests: pytest.Subtests) -> None:
    """An operator would have to compare two files line by line."""
    for old, new, told in DIFFERENCES:
        with subtests.test(str(told)):
            assert list(apart((old, new))) == told
            other = differences(marks(read((old, new)), KEY), marks(read(), KEY))
            swapped = {"here": "there", "there": "here"}
            words = [" ".join(swapped.get(word, word) for word in each.split()) for each in other]
            assert words == told


def test_the_order_of_models_counts() -> None:
    """Without a name the first suitable model is used: it would depend on the leading process."""
    swapped = (
        ("  flux: {backends: [stand-in], vram: 12GB}\n", ""),
        ("chats:", "  flux: {backends: [stand-in], vram: 12GB}\nchats:"),
    )
    assert apart(*swapped) == ("models differs",)


HOME, ATTIC = CONFIG.splitlines(keepends=True)[1:3]


def test_what_belongs_to_one_machine_may_differ() -> None:
    """Two processes on two machines, or on one, could not run side by side."""
    cases: list[tuple[str, str]] = [
        ("port: 8080", "port: 9080, host: 127.0.0.2"),
        ("port: 8081", "port: 9081, host: 127.0.0.2"),
        ("vram: 24GB,", "vram: 24GB, gpu: 0,"),
        ("roles:", "logging: {level: debug}\nroles:"),
        ("roles:", "database: postgresql://elsewhere/usher\nroles:"),
        ("roles:", "cluster: {lease_s: 15}\nlimits: {lane: normal}\nroles:"),
        ("roles:", "cluster: {listen: '127.0.0.1:8124', advertise: '10.0.0.7:8124'}\nroles:"),
        (HOME + ATTIC, ATTIC + HOME),
    ]
    for old, new in cases:
        assert apart((old, new)) == (), old


def test_a_workflow_may_lie_elsewhere_on_another_machine_with_the_same_content(
    tmp_path: Path,
) -> None:
    """Installations may have different folders, but must draw with the same workflow."""
    models = ("models:", "models:\n  mine: {backends: [comfy], workflow: own.json}")

    def of(folder: str, steps: int = 8) -> Config:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        nodes = {"1": {"class_type": "KSampler", "inputs": {"steps": steps}}}
        (place / "own.json").write_text(json.dumps(nodes))
        text = CONFIG.replace(*models)
        return Config.model_validate(_document(text), context={"folder": place})

    one, two, other = of("one"), of("two"), of("two", steps=9)
    assert differences(marks(one, KEY), marks(two, KEY)) == ()
    assert differences(marks(one, KEY), marks(other, KEY)) == ("models.mine.workflow differs",)
    assert changed(two, other) == ("models.mine.workflow",)  # in its place, as a reload finds it
    assert two.catalog().models["mine"] != other.catalog().models["mine"]


def _document(text: str) -> object:
    from bot.config.reading.yaml_reader import read as read_yaml  # noqa: PLC0415  # only here

    return read_yaml(text, ENVIRON).value


def test_a_mark_says_nothing_without_its_key() -> None:
    """A person who can only read the table could try guesses of a token."""
    one, other = marks(read(), KEY), marks(read(), b"of another epoch")
    shared = [place for place in one if one[place] == other[place]]
    assert len(shared) < len(one) / 4
    assert all(len(mark) <= 4 for mark in one.values())
    told = repr(one)
    assert not any(secret in told for secret in ENVIRON.values())


def test_settings_that_may_differ_exist() -> None:
    """A renamed setting would be compared from then on."""
    for *group, name in OWN:
        groups = tuple("any" if part == "*" else part for part in group)
        assert name in settings_at(groups)


@given(st.sets(st.sampled_from(["a", "a.b", "a.b.c", "a.d", "b", "b.c"])), st.data())
def test_differences_are_told_exactly_when_there_are_any(
    names: set[str], data: st.DataObject
) -> None:
    """A difference that is not part of another one would not be reported."""
    places = {name: tuple(name.split(".")) for name in names}
    here = dict.fromkeys(places.values(), "1")
    there = {
        place: data.draw(st.sampled_from(["1", "2"]))
        for place in places.values()
        if data.draw(st.booleans())
    }
    assert bool(differences(here, there)) == (here != there)
    assert differences(here, here) == ()


def test_a_sentence_names_the_first_ones() -> None:
    """A completely different file would fill the screen."""
    cases: list[tuple[int, str]] = [
        (1, "0"),
        (2, "0 and 1"),
        (3, "0, 1 and 2"),
        (4, "0, 1, 2 and 1 more"),
        (9, "0, 1, 2 and 6 more"),
    ]
    for count, said in cases:
        assert in_words([str(number) for number in range(count)]) == said, count
