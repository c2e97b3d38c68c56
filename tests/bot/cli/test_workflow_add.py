"""`usher workflow add`: from an exported file to a model, and what it leaves unchanged."""

import argparse
import asyncio
import io
import json
import stat
import zlib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from backends.registry import connect
from bot.cli import main as cli
from bot.cli.arguments import parser
from bot.cli.init.terminal import NoQuestions, Terminal
from bot.cli.workflow import command
from bot.config.loader import ConfigError, load
from queueing.core.errors import BadModel
from queueing.core.requests import Capability, TextToImage
from tests.backends.comfyui.drawing import ignore, work
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.terminal import ScriptedTerminal

EXPORT: dict[str, Any] = {
    "4": {
        "inputs": {"ckpt_name": "sd_xl_base_1.0.safetensors"},
        "class_type": "CheckpointLoaderSimple",
        "_meta": {"title": "Load Checkpoint"},
    },
    "5": {
        "inputs": {"width": 512, "height": 512, "batch_size": 1},
        "class_type": "EmptyLatentImage",
    },
    "6": {"inputs": {"text": "a fox", "clip": ["4", 1]}, "class_type": "CLIPTextEncode"},
    "7": {"inputs": {"text": "blurry", "clip": ["4", 1]}, "class_type": "CLIPTextEncode"},
    "3": {
        "inputs": {
            "seed": 42,
            "steps": 20,
            "cfg": 7.0,
            "sampler_name": "euler",
            "scheduler": "normal",
            "denoise": 1.0,
            "model": ["4", 0],
            "positive": ["6", 0],
            "negative": ["7", 0],
            "latent_image": ["5", 0],
        },
        "class_type": "KSampler",
    },
    "8": {"inputs": {"samples": ["3", 0], "vae": ["4", 2]}, "class_type": "VAEDecode"},
    "9": {"inputs": {"filename_prefix": "x", "images": ["8", 0]}, "class_type": "SaveImage"},
}
OTHER = "an owl at night"
CONFIG = """\
# all we have
hosts:
  home:
    vram: 24GB
    backends:
      comfy: {kind: comfyui, url: "%s"}  # upstairs
chats: {web: {}}  # for now
"""
NOWHERE = "http://127.0.0.1:9"


def two_prompts() -> dict[str, Any]:
    """Return an export with two samplers, each with its own prompt."""
    whole: dict[str, Any] = json.loads(json.dumps(EXPORT))
    for key in ("6", "3", "8", "9"):
        whole[f"{key}b"] = json.loads(json.dumps(EXPORT[key]))
    whole["6b"]["inputs"]["text"] = OTHER
    whole["3b"]["inputs"]["positive"] = ["6b", 0]
    whole["8b"]["inputs"]["samples"] = ["3b", 0]
    whole["9b"]["inputs"]["images"] = ["8b", 0]
    return whole


def exported(folder: Path, nodes: Mapping[str, Any] = EXPORT, name: str = "Foxes_api.json") -> Path:
    file = folder / "downloads" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(nodes), encoding="utf-8")
    return file


def configured(folder: Path, url: str = NOWHERE, more: str = "") -> Path:
    config = folder / "config.yaml"
    config.write_text(CONFIG % url + more, encoding="utf-8")
    return config


def arguments(file: Path, config: Path, *given: str) -> argparse.Namespace:
    return parser().parse_args(["workflow", "add", str(file), "-c", str(config), *given])


def add(file: Path, config: Path, *given: str, terminal: Terminal | None = None) -> int:
    options = command.options(arguments(file, config, *given))
    return command.add(options, terminal or NoQuestions(), {})


def written(config: Path, name: str = "foxes") -> dict[str, Any]:
    text = (config.parent / "workflows" / f"{name}.json").read_text(encoding="utf-8")
    nodes: dict[str, Any] = json.loads(text)
    return nodes


# ---------------------------------------------------------------- the file


def test_a_template_is_written_beside_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator would have to know where files belong and what to write into them."""
    file, config = exported(tmp_path), configured(tmp_path)
    before = file.read_bytes()
    assert add(file, config) == 0
    assert file.read_bytes() == before
    assert config.read_text() == CONFIG % NOWHERE
    nodes = written(config)
    assert nodes["6"]["inputs"]["text"] == "{{prompt}}"
    assert nodes["3"]["inputs"]["steps"] == "{{steps:20}}"
    assert nodes["4"] == EXPORT["4"]
    assert [*nodes] == [*EXPORT]
    told = capsys.readouterr().out
    assert "node 6 (CLIPTextEncode): text = {{prompt}} (was 'a fox')" in told
    assert "comfy: not tried: no usable answer" in told
    assert told.endswith(
        "\nmodels:\n  foxes:\n    backends: [comfy]\n    workflow: workflows/foxes.json\n\n"
    )


def test_the_entry_that_is_printed_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator would paste what the bot refuses."""
    file, config = exported(tmp_path), configured(tmp_path)
    add(file, config)
    entry = capsys.readouterr().out.partition("\nmodels:\n")[2]
    config.write_text(f"{CONFIG % NOWHERE}models:\n{entry}")
    model = load(config, {}).catalog().models["foxes"]
    assert model.capabilities == {Capability.TEXT_TO_IMAGE}


def test_a_dry_run_shows_the_difference_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody could see the changes before they are made."""
    file, config = exported(tmp_path), configured(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert add(file, config, "--dry-run", "--write") == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert config.read_text() == CONFIG % NOWHERE
    told = capsys.readouterr().out
    assert '-      "seed": 42,\n' in told
    assert '+      "seed": "{{seed}}",\n' in told


def test_the_same_again_finds_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person who downloads a missing model and tries again would get a second file."""
    file, config = exported(tmp_path), configured(tmp_path)
    add(file, config)
    assert add(file, config, "--write") == 0
    assert "foxes.json already holds this template" in capsys.readouterr().out
    assert [*load(config, {}).models] == ["foxes"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A template that a person has improved by hand would be lost."""
    file, config = exported(tmp_path), configured(tmp_path)
    add(file, config)
    own = tmp_path / "workflows" / "foxes.json"
    own.write_text("mine")
    with pytest.raises(ConfigError, match="already exists and was not changed"):
        add(file, config)
    assert own.read_text() == "mine"
    assert add(file, config, "--name", "red-foxes") == 0


def test_a_model_of_that_name_stays(tmp_path: Path) -> None:
    """Two entries with one name would make the configuration unusable."""
    model = "models: {foxes: {backends: [comfy], workflow: sdxl.json, values: {checkpoint: a}}}\n"
    with pytest.raises(ConfigError, match="already has a model foxes"):
        add(exported(tmp_path), configured(tmp_path, more=model))


def test_without_a_configuration_the_template_is_made_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer who so far only has ComfyUI could not begin."""
    config = tmp_path / "config.yaml"
    assert add(exported(tmp_path), config) == 0
    assert written(config)["6"]["inputs"]["text"] == "{{prompt}}"
    assert "Not tried: no ComfyUI server is configured." in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no such file"):
        add(exported(tmp_path), config, "--write", "--name", "other")


@pytest.mark.parametrize("name", ["two words", "a/b", "-x", "a=b", "a\\b"])
def test_a_name_that_no_one_could_type_is_refused(tmp_path: Path, name: str) -> None:
    """A model could not be selected, or its file would be written elsewhere."""
    with pytest.raises(ConfigError, match="a model's name"):
        add(exported(tmp_path), configured(tmp_path), f"--name={name}")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Foxes_api.json", "foxes"),
        ("My Flow (1).json", "my-flow-1"),
        ("krea.t2i.v10.api.json", "krea.t2i.v10"),
        ("狐.json", "workflow"),
        (".json", "json"),
    ],
)
def test_a_file_gives_its_model_a_name_that_can_be_typed(
    tmp_path: Path, given: str, name: str
) -> None:
    """The operator would have to invent a name for every file."""
    config = configured(tmp_path)
    add(exported(tmp_path, name=given), config)
    assert written(config, name)


# ---------------------------------------------------------------- what is unsure


def test_without_a_terminal_an_unsure_choice_lists_the_candidates(tmp_path: Path) -> None:
    """A script would get a model that draws something else than people ask for."""
    config = configured(tmp_path)
    with pytest.raises(ConfigError) as refused:
        add(exported(tmp_path, two_prompts()), config)
    assert str(refused.value) == (
        "Which of these is the prompt? Choose with --prompt:\n"
        "  --prompt 6.text  CLIPTextEncode: 'a fox'\n"
        f"  --prompt 6b.text  CLIPTextEncode: '{OTHER}'"
    )
    assert not (tmp_path / "workflows").exists()


def test_an_unsure_choice_is_made_with_an_option(tmp_path: Path) -> None:
    """A script could not continue."""
    config = configured(tmp_path)
    assert add(exported(tmp_path, two_prompts()), config, "--prompt", "6b.text") == 0
    nodes = written(config)
    assert nodes["6b"]["inputs"]["text"] == "{{prompt}}"
    assert nodes["6"]["inputs"]["text"] == "a fox"


def test_a_person_is_asked(tmp_path: Path) -> None:
    """A person would have to start again with an option."""
    config, terminal = configured(tmp_path), ScriptedTerminal({"Its number": ["3", "x", "2"]})
    assert add(exported(tmp_path, two_prompts()), config, terminal=terminal) == 0
    assert written(config)["6b"]["inputs"]["text"] == "{{prompt}}"
    assert f"  2  6b.text  CLIPTextEncode: '{OTHER}'" in terminal.told
    assert "  It must be a number from 1 to 2." in terminal.told


def test_an_input_may_stay_as_it_is(tmp_path: Path) -> None:
    """A size or seed that the author needs would be replaced."""
    config = configured(tmp_path)
    add(exported(tmp_path), config, "--fixed", "3.steps", "--fixed", "7.text")
    nodes = written(config)
    assert nodes["3"]["inputs"]["steps"] == 20
    assert nodes["7"]["inputs"]["text"] == "blurry"


@pytest.mark.parametrize("place", ["60.text", "6.words"])
def test_an_input_that_is_not_there_is_named(tmp_path: Path, place: str) -> None:
    """A typing error would make a model without a prompt."""
    with pytest.raises(BadModel, match=f"{place} is not an input"):
        add(exported(tmp_path), configured(tmp_path), "--prompt", place)


@pytest.mark.parametrize("place", ["6", "text", ".text", "6."])
def test_an_input_is_written_with_its_node(tmp_path: Path, place: str) -> None:
    """A typing error would make a model without a prompt, or with the wrong node's input."""
    with pytest.raises(ConfigError, match=r"as in 6\.text"):
        add(exported(tmp_path), configured(tmp_path), "--prompt", place)


# ---------------------------------------------------------------- trying it


async def test_it_is_tried_on_the_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator would hear of a missing model from the members."""
    async with FakeComfyUI() as fake:
        config = configured(tmp_path, fake.url)
        assert await asyncio.to_thread(add, exported(tmp_path), config, "--write") == 0
    assert "comfy: ok" in capsys.readouterr().out
    assert load(config, {}).models["foxes"].backends == ("comfy",)


async def test_what_was_added_draws(tmp_path: Path) -> None:
    """A file that looks right would fail at the first request."""
    async with FakeComfyUI() as fake:
        config = configured(tmp_path, fake.url)
        await asyncio.to_thread(add, exported(tmp_path), config, "--write")
        catalog = load(config, {}).catalog()
        backend = connect(catalog.backends["comfy"])
        try:
            request = TextToImage(prompt="a red fox", steps=4, count=2, negative="dogs")
            await backend.load(catalog.models["foxes"])
            fetch = await backend.run(catalog.models["foxes"], work(request), ignore)
            assert (await fetch()).files
        finally:
            await backend.aclose()
    sent = fake.posts[-1]["prompt"]
    assert sent["6"]["inputs"]["text"] == "a red fox"
    assert sent["7"]["inputs"]["text"] == "dogs"
    assert sent["5"]["inputs"] == {"width": 512, "height": 512, "batch_size": 2}


async def test_what_no_server_accepts_is_not_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that cannot run would be offered to everybody."""
    nodes = json.loads(json.dumps(EXPORT))
    nodes["4"]["inputs"]["ckpt_name"] = "gone.safetensors"
    async with FakeComfyUI() as fake:
        config = configured(tmp_path, fake.url)
        done = await asyncio.to_thread(add, exported(tmp_path, nodes), config, "--write")
        assert config.read_text() == CONFIG % fake.url
    assert done == command.BROKEN
    told = capsys.readouterr().out
    assert "comfy: FAILED: Foxes_api.json: node 4 (CheckpointLoaderSimple): ckpt_name:" in told
    assert "Not added to the configuration, because no server accepts it:" in told
    assert written(config)


# ---------------------------------------------------------------- the configuration

MODELS = """\
models:
  # the fast one
  quick:
    backends: [comfy]
    workflow: sdxl.json  # shipped
    values:
      checkpoint: a.safetensors

# the end
"""


def test_the_configuration_keeps_its_comments_and_rights(tmp_path: Path) -> None:
    """All comments would be lost, or tokens become readable for others."""
    config = configured(tmp_path, more=MODELS)
    config.chmod(0o600)
    assert add(exported(tmp_path), config, "--write") == 0
    own = "  foxes:\n    backends: [comfy]\n    workflow: workflows/foxes.json\n"
    assert config.read_text() == CONFIG % NOWHERE + MODELS.replace("\n\n#", f"\n{own}\n#")
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert [*load(config, {}).models] == ["quick", "foxes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.yaml",
        "downloads",
        "workflows",
    ]


SECTIONS = [
    "",
    "models:\n",
    "models: {}\n",
    "models: {}  # none yet\nlimits: {per_hour: 9}\n",
    "models: {quick: {backends: [comfy], workflow: sdxl.json, values: {checkpoint: a}}}\n",
    "models: {quick: {backends: [comfy], workflow: sdxl.json, values: {checkpoint: a}},}\n",
    "models: {\n  quick: {backends: [comfy], workflow: sdxl.json, values: {checkpoint: a}}\n}\n",
    "models: {\n  quick: {backends: [comfy], workflow: upscale.json},  # one, two\n}\n",
    "models: {\n  quick: {backends: [comfy], workflow: upscale.json}  # one, two\n}\n",
    "models:\n      quick:\n        backends: [comfy]\n        workflow: upscale.json\n",
    "models:\n  quick:\n    backends:\n    - comfy\n    workflow: upscale.json\n# end",
    "models:\n  quick:\n    workflow: upscale.json\n    backends: [comfy]\nadmins: ['web:1']\n",
]
WAYS = [(more, "\n") for more in SECTIONS] + [(SECTIONS[-1], "\r\n")]


@pytest.mark.parametrize(
    ("more", "end"),
    [
        pytest.param(*way, marks=() if way in WAYS else pytest.mark.thorough)
        for way in product(SECTIONS, ("\n", "\r\n"))
    ],
)
def test_every_way_to_write_models_takes_one_more(tmp_path: Path, more: str, end: str) -> None:
    """The operator would have to rewrite the file before the command works."""
    config = configured(tmp_path)
    text = (CONFIG % NOWHERE + more).replace("\n", end)
    config.write_text(text, newline="")
    before = {*load(config, {}).models}
    assert add(exported(tmp_path), config, "--write") == 0
    assert {*load(config, {}).models} == before | {"foxes"}
    with config.open(newline="") as file:
        after = file.read()
    assert (end == "\r\n") == ("\r\n" in after)
    assert after.count("\r") in {0, after.count("\n")}
    comments = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    assert all(comment in after for comment in comments)


def test_an_odd_configuration_is_left_to_the_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file would be changed in a way that nobody foresaw."""
    config = tmp_path / "config.yaml"
    comfy = f"{{vram: 1GB, backends: {{comfy: {{kind: comfyui, url: '{NOWHERE}'}}}}}}"
    config.write_text(f"{{hosts: {{home: {comfy}}}, chats: {{web: {{}}}}}}")
    before = config.read_text()
    with pytest.raises(ConfigError, match="add the lines by hand"):
        add(exported(tmp_path), config, "--write")
    assert config.read_text() == before
    assert "workflow: workflows/foxes.json" in capsys.readouterr().out


def test_half_a_character_is_kept_as_it_was_escaped(tmp_path: Path) -> None:
    """The command would end in a traceback and leave half a template."""
    nodes = json.loads(json.dumps(EXPORT))
    nodes["7"]["inputs"]["text"] = "bad \ud83d hands"
    config = configured(tmp_path)
    assert add(exported(tmp_path, nodes), config) == 0
    assert written(config)["7"]["inputs"]["text"] == "{{negative:bad \ud83d hands}}"


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    """The template would be written beside the folder that was named."""
    with pytest.raises(ConfigError):
        add(exported(tmp_path), tmp_path)
    assert not (tmp_path.parent / "workflows").exists()


PICTURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


EDITORS = {"nodes": [{"id": 6, "type": "CLIPTextEncode", "widgets_values": ["a fox"]}], "links": []}


def made(kind: str, tags: dict[str, str] | None = None) -> bytes:
    """Return a file as ComfyUI saves it: EXIF in a WebP, tags in others."""
    tags = tags or {"prompt": json.dumps(EXPORT)}
    buffer = io.BytesIO()
    if kind == "webp":
        exif = Image.Exif()
        exif[0x0110] = f"prompt:{tags['prompt']}"
        exif[0x010F] = f"workflow:{json.dumps(EDITORS)}"
        Image.new("RGB", (8, 8)).save(buffer, "WEBP", exif=exif)
        return buffer.getvalue()
    options = {"movflags": "use_metadata_tags"} if kind == "mp4" else {}
    with av.open(buffer, "w", format="matroska" if kind == "webm" else kind, options=options) as to:
        to.metadata.update(tags)
        stream: Any
        frame: Any
        if kind == "flac":
            stream = to.add_stream("flac", rate=8000)
            frame = av.AudioFrame(format="s16", layout="mono", samples=800)
            frame.rate = 8000
        else:
            stream = to.add_stream("mpeg4" if kind == "mp4" else "libvpx", rate=1)
            stream.width = stream.height = 16
            stream.pix_fmt = "yuv420p"
            frame = av.VideoFrame(16, 16, "yuv420p")
        to.mux([*stream.encode(frame), *stream.encode(None)])
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(EXPORT).encode("utf-16"),
        json.dumps(EXPORT).encode("utf-8-sig"),
        PICTURE + chunk(b"tEXt", b"prompt\0" + json.dumps(EXPORT).encode()),
        PICTURE
        + chunk(b"tEXt", b"workflow\0{}")
        + chunk(b"iTXt", b"prompt\0\0\0\0\0" + json.dumps(EXPORT).encode()),
        made("webp"),
        made("mp4"),
        made("webm"),
        made("flac"),
        made("mp4", {"comment": json.dumps({"prompt": json.dumps(EXPORT), "workflow": EDITORS})}),
        made("mp4", {"workflow": json.dumps(EDITORS), "prompt": json.dumps(EXPORT)}),
    ],
    ids=[
        "PowerShell",
        "Notepad",
        "picture",
        "picture with any text",
        "WebP",
        "video",
        "Matroska",
        "sound",
        "video of VideoHelperSuite",
        "video with the editor's form",
    ],
)
def test_files_in_which_workflows_are_passed_on_are_read(tmp_path: Path, content: bytes) -> None:
    """People share the picture itself, and Windows shells write another encoding."""
    file = exported(tmp_path)
    file.write_bytes(content)
    config = configured(tmp_path)
    assert add(file, config) == 0
    assert written(config)["6"]["inputs"]["text"] == "{{prompt}}"


@pytest.mark.parametrize("cut", [b"", b"\0", b"\xff\xff\xff\xfftEXtprompt", b"\0\0\0\0IEND"])
def test_a_picture_without_a_workflow_says_so(tmp_path: Path, cut: bytes) -> None:
    """It would be described as a text with a wrong encoding."""
    file = exported(tmp_path)
    file.write_bytes(PICTURE + cut)
    with pytest.raises(BadModel, match=r"contains no workflow|empty"):
        add(file, configured(tmp_path))


def test_the_command_line_reports_a_wrong_file_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback would not explain how to export a workflow."""
    file = tmp_path / "page.json"
    config = configured(tmp_path)
    file.write_text('{"nodes": [], "links": []}')
    assert cli.main(["workflow", "add", str(file), "-c", str(config)]) == 1
    assert "choose Workflow → Export (API)" in capsys.readouterr().err
    assert cli.main(["workflow", "add", str(tmp_path / "none.json"), "-c", str(config)]) == 1
    assert "No such file" in capsys.readouterr().err
