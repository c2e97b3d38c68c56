"""What `discover: true` finds among a ComfyUI server's files: families, templates, messages."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.comfyui.answers import (
    FILES_MOST,
    NAME_MOST,
    READ,
    read_metadata,
    read_names,
    read_sizes,
)
from backends.comfyui.backend import ComfyUI
from backends.comfyui.discovery import Found, ServerFiles, discovered, family_of, recognised, stem
from backends.comfyui.families import CHECKPOINTS, FAMILIES, MODELS
from backends.comfyui.model_templates import read_templates
from backends.comfyui.server import ComfyUIServer
from queueing.core.errors import UnreadableAnswer
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.drawing import connect
from tests.backends.comfyui.workflow.described import SHIPPED
from tests.backends.comfyui.workflow.shipped import files as files_of
from tests.backends.comfyui.workflow.shipped import shipped
from tests.fakes.servers.comfyui import FakeComfyUI

if TYPE_CHECKING:
    from backends.comfyui.workflow.graph.analysis import Marks

SDXL_BYTES = 6_938_040_682
SD15_BYTES = 2_132_625_894
NAMES = [
    # ------------------------------------------------------------ checkpoints
    (CHECKPOINTS, "sd_xl_base_1.0.safetensors", "SDXL"),
    (CHECKPOINTS, "sd_xl_base_1.0_0.9vae.safetensors", "SDXL"),
    (CHECKPOINTS, "juggernautXL_v9Rundiffusionphoto2.safetensors", "SDXL"),
    (CHECKPOINTS, "RealVisXL_V5.0_fp16.safetensors", "SDXL"),
    (CHECKPOINTS, "ponyDiffusionV6XL_v6StartWithThisOne.safetensors", "SDXL"),
    (CHECKPOINTS, "waiNSFWIllustrious_v140.safetensors", "SDXL"),
    (CHECKPOINTS, "noobaiXLNAIXL_vPred10Version.safetensors", "SDXL"),
    (CHECKPOINTS, "animagine-xl-4.0-opt.safetensors", "SDXL"),
    (CHECKPOINTS, "SDXL\\albedobaseXL_v31Large.safetensors", "SDXL"),
    (CHECKPOINTS, "sd_xl_turbo_1.0_fp16.safetensors", "SDXL Turbo"),
    (CHECKPOINTS, "sdxl_lightning_4step.safetensors", "SDXL Lightning, 4 steps"),
    (CHECKPOINTS, "sdxl_lightning_8step.safetensors", "SDXL Lightning"),
    (CHECKPOINTS, "juggernautXL_v9Rdphoto2Lightning.safetensors", "SDXL Lightning"),
    (CHECKPOINTS, "dreamshaperXL_v21TurboDPMSDE.safetensors", "an SDXL turbo variant"),
    (CHECKPOINTS, "sd_xl_refiner_1.0.safetensors", "an SDXL refiner"),
    (CHECKPOINTS, "v1-5-pruned-emaonly-fp16.safetensors", "Stable Diffusion 1.5"),
    (CHECKPOINTS, "v1-5-pruned.ckpt", "Stable Diffusion 1.5"),
    (CHECKPOINTS, "512-inpainting-ema.safetensors", "an inpainting model"),
    (CHECKPOINTS, "v2-1_768-ema-pruned.safetensors", "Stable Diffusion 2"),
    (
        CHECKPOINTS,
        "sd3.5_large_fp8_scaled.safetensors",
        "Stable Diffusion 3.5 with its encoders",
    ),
    (
        CHECKPOINTS,
        "sd3.5_medium_incl_clips_t5xxlfp8scaled.safetensors",
        "Stable Diffusion 3.5 with its encoders",
    ),
    (CHECKPOINTS, "sd3.5_large.safetensors", "Stable Diffusion 3 without encoders"),
    (CHECKPOINTS, "sd3_medium.safetensors", "Stable Diffusion 3 without encoders"),
    (CHECKPOINTS, "flux1-dev-fp8.safetensors", "Flux.1 dev in one file"),
    (CHECKPOINTS, "FLUX1/flux1-schnell-fp8.safetensors", "Flux.1 schnell in one file"),
    (CHECKPOINTS, "flux1-dev-kontext_fp8.safetensors", "a part of Flux.1's tools"),
    (CHECKPOINTS, "fluxUnchained.safetensors", "Flux in one file"),
    (CHECKPOINTS, "ltx-2-19b-dev-fp8.safetensors", "LTX-2"),
    (CHECKPOINTS, "ltx-2-19b-distilled-fp8.safetensors", "LTX"),
    (CHECKPOINTS, "ltx-2.3-22b-dev-fp8.safetensors", "LTX"),
    (CHECKPOINTS, "ltx-video-2b-v0.9.5.safetensors", "LTX"),
    (CHECKPOINTS, "ace_step_1.5_turbo_aio.safetensors", "ACE-Step 1.5 turbo"),
    (CHECKPOINTS, "ace_step_v1_3.5b.safetensors", "ACE-Step"),
    (CHECKPOINTS, "stable-audio-open-1.0.safetensors", "Stable Audio"),
    (CHECKPOINTS, "svd_xt_1_1.safetensors", "Stable Video Diffusion"),
    (CHECKPOINTS, "hidream_o1_image_bf16.safetensors", "HiDream"),
    (CHECKPOINTS, "dreamshaper_8.safetensors", None),
    (CHECKPOINTS, "realisticVisionV60B1_v51VAE.safetensors", None),
    (CHECKPOINTS, "model.safetensors", None),
    (CHECKPOINTS, "xxl-merge.safetensors", None),
    # ------------------------------------------------------------ diffusion models
    (MODELS, "flux1-dev.safetensors", "Flux.1 dev"),
    (MODELS, "flux1-krea-dev_fp8_scaled.safetensors", "Flux.1 dev"),
    (MODELS, "flux1-schnell-fp8.safetensors", "Flux.1 schnell"),
    (MODELS, "flux1-dev-kontext_fp8_scaled.safetensors", "Flux.1 Kontext"),
    (MODELS, "flux1-fill-dev.safetensors", "Flux.1 Fill"),
    (MODELS, "flux1-canny-dev.safetensors", "a part of Flux.1's tools"),
    (MODELS, "flux2_dev_fp8mixed.safetensors", "Flux.2 dev"),
    (MODELS, "flux-2-klein-4b-fp8.safetensors", "Flux.2 klein 4B"),
    (MODELS, "flux-2-klein-9b-fp8.safetensors", "Flux.2 klein 9B"),
    (MODELS, "flux-2-klein-base-4b.safetensors", "Flux.2 klein base 4B"),
    (MODELS, "flux-2-klein-base-9b-fp8.safetensors", "Flux.2 klein base 9B"),
    (MODELS, "flux-2-klein-9b-kv-fp8.safetensors", "Flux.2 klein KV"),
    (MODELS, "qwen_image_fp8_e4m3fn.safetensors", "Qwen-Image"),
    (MODELS, "qwen_image_2512_fp8_e4m3fn.safetensors", "Qwen-Image 2512"),
    (MODELS, "qwen_image_edit_2511_fp8mixed.safetensors", "Qwen-Image-Edit 2511"),
    (MODELS, "qwen_image_edit_2509_fp8_e4m3fn.safetensors", "Qwen-Image-Edit 2509"),
    (MODELS, "Qwen-Image-Edit-2511-FP8.safetensors", "Qwen-Image-Edit 2511"),
    (MODELS, "qwen_image_edit_fp8_e4m3fn.safetensors", "the first Qwen-Image-Edit"),
    (MODELS, "qwen_image_layered_bf16.safetensors", "Qwen-Image Layered"),
    (MODELS, "z_image_turbo_bf16.safetensors", "Z-Image-Turbo"),
    (MODELS, "z_image_bf16.safetensors", "Z-Image"),
    (MODELS, "Chroma1-HD-fp8mixed.safetensors", "Chroma"),
    (MODELS, "chroma-radiance-x0.safetensors", "Chroma Radiance"),
    (MODELS, "wan2.2_ti2v_5B_fp16.safetensors", "Wan 2.2 5B"),
    (MODELS, "wan2.2_t2v_high_noise_14B_fp8_scaled.safetensors", "Wan 2.2 14B from text"),
    (MODELS, "wan2.2_i2v_high_noise_14B_fp16.safetensors", "Wan 2.2 14B from images"),
    (
        MODELS,
        "Wan2_2-I2V-A14B-HIGH_fp8_e4m3fn_scaled_KJ.safetensors",
        "Wan 2.2 14B from images",
    ),
    (
        MODELS,
        "wan2.2_fun_camera_high_noise_14B_fp8_scaled.safetensors",
        "a special variant of Wan 2.2",
    ),
    (MODELS, "wan2.2_s2v_14B_fp8_scaled.safetensors", "a special variant of Wan 2.2"),
    (MODELS, "wan2.2_t2v_low_noise_14B_fp8_scaled.safetensors", "half of Wan 2.2 14B"),
    (MODELS, "wan22-t2v-HIGH.safetensors", "Wan 2.2 14B from text"),
    (MODELS, "wan2.1_t2v_14B_fp8_e4m3fn.safetensors", "an earlier Wan"),
    (MODELS, "hunyuanvideo1.5_720p_t2v_fp16.safetensors", "HunyuanVideo 1.5 from text"),
    (MODELS, "hunyuanvideo1.5_720p_i2v_fp16.safetensors", "HunyuanVideo 1.5 from an image"),
    (
        MODELS,
        "hunyuanvideo1.5_1080p_sr_distilled_fp16.safetensors",
        "a special variant of HunyuanVideo 1.5",
    ),
    (MODELS, "hunyuan_video_t2v_720p_bf16.safetensors", "an earlier Hunyuan"),
    (MODELS, "acestep_v1.5_turbo.safetensors", "ACE-Step in separate files"),
    (MODELS, "hidream_i1_dev_fp8.safetensors", "HiDream"),
    (MODELS, "mochi_preview_bf16.safetensors", None),
    (MODELS, "sd_xl_base_1.0.safetensors", None),
]


@pytest.fixture
async def fake() -> AsyncIterator[FakeComfyUI]:
    async with FakeComfyUI() as server:
        yield server


@pytest.fixture
async def comfy(fake: FakeComfyUI) -> AsyncIterator[ComfyUI]:
    backend = connect(fake)
    yield backend
    await backend.aclose()


def told(folder: str, name: str, **more: object) -> tuple[str, str] | None:
    found = family_of(folder, name, **more)  # type: ignore[arg-type]
    return (found[0].title, found[1]) if found else None


def shipped_files() -> ServerFiles:
    """Return the files of all shipped templates, as a server with all of them lists them."""
    names: dict[str, list[str]] = {}
    for file in sorted({file for path in SHIPPED for file in files_of(shipped(path))}):
        folder, _, name = file.partition("/")
        names.setdefault(folder, []).append(name)
    return ServerFiles(names=names)


# ---------------------------------------------------------------- families


def test_a_family_is_told_by_the_names_that_models_have() -> None:
    """A model would run with another one's steps, or a video model would be treated as SDXL."""
    titles = {name: title and (title, "its name") for _, name, title in NAMES}
    assert {name: told(folder, name) for folder, name, _ in NAMES} == titles


def test_a_file_is_told_by_its_metadata_where_its_name_says_nothing() -> None:
    """The names of most merged checkpoints reveal nothing about their family."""
    name = "dreams.safetensors"
    said = {"modelspec.architecture": "stable-diffusion-xl-v1-base"}
    assert told(CHECKPOINTS, name, metadata=said) == (
        "SDXL",
        "its metadata: stable-diffusion-xl-v1-base",
    )
    for key, value, title in (
        ("modelspec.architecture", "stable-diffusion-v1", "Stable Diffusion 1.5"),
        ("modelspec.architecture", "stable-diffusion-xl-v1-refiner", "an SDXL refiner"),
        ("ss_base_model_version", "sdxl_base_v1-0", "SDXL"),
        ("ss_base_model_version", "sd_v1", "Stable Diffusion 1.5"),
    ):
        found = told(CHECKPOINTS, name, metadata={key: value})
        assert found
        assert found[0] == title
    lora = {"modelspec.architecture": "stable-diffusion-xl-v1-base/lora"}
    assert told(CHECKPOINTS, name, metadata=lora) is None
    assert told(MODELS, name, metadata={"modelspec.architecture": "flux-1-dev"}) == (
        "Flux.1 dev",
        "its metadata: flux-1-dev",
    )
    assert told(MODELS, name, metadata=said) is None


def test_a_checkpoint_is_told_by_its_size_at_last() -> None:
    """Half of all checkpoints carry no metadata about their family."""
    name = "dreamshaper_8.safetensors"
    assert told(CHECKPOINTS, name, size=SD15_BYTES) == (
        "Stable Diffusion 1.5",
        "its size of 2.1 GB",
    )
    assert told(CHECKPOINTS, name, size=SDXL_BYTES) == ("SDXL", "its size of 6.9 GB")
    assert told(CHECKPOINTS, name, size=3_500_000_000) is None
    assert told(MODELS, name, size=SDXL_BYTES) is None


def test_rules_read_names_however_they_are_written() -> None:
    """Folders, spaces and Windows' backslashes would hide a model."""
    assert stem("Sub\\Wan2.2_T2V High noise.SAFETENSORS") == "wan2.2-t2v-high-noise"


# ---------------------------------------------------------------- what is offered


def test_every_shipped_template_for_models_can_be_discovered() -> None:
    """A template would silently be left out of `discover`."""
    offered = {each.family.template for each in recognised(shipped_files()) if each.family}
    variants = {"sdxl-img2img.json", "flux-img2img.json"}
    by_hand = {"upscale.json", "upscale-model.json", *variants} | {
        "wan22-t2v-turbo.json",
        "wan22-i2v-turbo.json",
    }
    assert offered == {path.name for path in SHIPPED} - by_hand


def test_what_is_offered_has_its_own_files_and_can_be_used() -> None:
    """A discovered model would fail with its first request."""
    files = shipped_files()
    specs = discovered(recognised(files), "comfy")
    assert len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        templates = read_templates(spec)
        assert templates.abilities >= spec.capabilities > frozenset()
        for workflow in templates.all:
            for file in files_of(workflow):
                folder, _, name = file.partition("/")
                assert name in files.names[folder]
    by_name = {spec.name: spec for spec in specs}
    wan = by_name["wan2.2_i2v_14b_fp8_scaled"]
    assert wan.capabilities == {Capability.IMAGE_TO_VIDEO}
    assert wan.options["values"] == {
        "high": "wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors",
        "low": "wan2.2_i2v_low_noise_14B_fp8_scaled.safetensors",
        "clip": "umt5_xxl_fp8_e4m3fn_scaled.safetensors",
        "vae": "wan_2.1_vae.safetensors",
    }
    assert Capability.IMAGE_TO_IMAGE in by_name["sd_xl_base_1.0"].capabilities
    marks: list[Marks] = [read_templates(spec).all[0].marks for spec in specs]
    assert len(set(marks)) == len(marks)


def test_a_model_without_its_companions_is_told_and_not_offered() -> None:
    """The first image would fail in the server's loader."""
    files = ServerFiles(names={MODELS: ["flux1-dev.safetensors"], "vae": ["ae.safetensors"]})
    (found,) = recognised(files)
    assert not found.offered
    assert str(found) == (
        "flux1-dev.safetensors: Flux.1 dev (its name); "
        "not offered without text_encoders/t5xxl-fp16*, text_encoders/clip-l*."
    )
    assert discovered([found], "comfy") == ()


def test_an_expert_without_its_partner_is_told_and_not_offered() -> None:
    """Half a video would be noise."""
    high, low = (f"wan2.2_t2v_{half}_noise_14B.safetensors" for half in ("high", "low"))
    beside = {"text_encoders": ["umt5_xxl_fp16.safetensors"], "vae": ["wan_2.1_vae.safetensors"]}
    (alone,) = recognised(ServerFiles(names={MODELS: [high], **beside}))
    assert f"not offered without diffusion_models/{low}." in str(alone)
    (other,) = recognised(ServerFiles(names={MODELS: [low], **beside}))
    assert str(other).startswith(f"{low}: half of Wan 2.2 14B (its name); no shipped template")
    (pair,) = recognised(ServerFiles(names={MODELS: [high, low], **beside}))
    assert pair.offered
    assert pair.called == "wan2.2_t2v_14B.safetensors"


def test_a_better_companion_is_preferred() -> None:
    """Flux would draw with a smaller text encoder than the best that the server has."""
    encoders = ["clip_l.safetensors", "t5xxl_fp8_e4m3fn.safetensors", "t5xxl_fp16.safetensors"]
    names = {
        MODELS: ["flux1-dev.safetensors"],
        "vae": ["ae.safetensors", "x.safetensors"],
        "text_encoders": encoders,
    }
    (found,) = recognised(ServerFiles(names=names))
    assert found.values["t5"] == "t5xxl_fp16.safetensors"


def test_an_unknown_family_is_never_offered() -> None:
    """Any unknown model would be treated as SDXL and draw noise."""
    (found,) = recognised(ServerFiles(names={CHECKPOINTS: ["mystery.safetensors"]}))
    assert (
        str(found)
        == "mystery.safetensors: unknown family; configure a workflow for it (docs/models.md)."
    )
    assert not found.offered
    (refiner,) = recognised(ServerFiles(names={CHECKPOINTS: ["sd_xl_refiner_1.0.safetensors"]}))
    assert str(refiner).endswith("no shipped template; configure a workflow.")
    assert not refiner.offered


def test_families_name_templates_and_words_that_exist() -> None:
    """A discovered model would be refused by the check of its own template."""
    known = {path.name: shipped(path) for path in SHIPPED}
    for family in FAMILIES:
        assert bool(family.template) == bool(family.word)
        if family.template:
            text = (
                Path(__file__).parents[3] / "backends" / "workflows" / family.template
            ).read_text(encoding="utf-8")
            words = [family.word, family.partner, *family.values]
            words += [each.word for each in family.companions]
            assert not [word for word in words if word and f"{{{{{word}" not in text]
            assert family.template in known


# ---------------------------------------------------------------- on a server


async def test_a_server_is_looked_through(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """`discover: true` would offer models without a template, or miss a model."""
    fake.models["checkpoints"] = {
        "sd_xl_base_1.0.safetensors": SDXL_BYTES,
        "sub\\dreams.safetensors": SD15_BYTES,
        "told.safetensors": 1,
        "mystery.safetensors": 1,
    }
    fake.metadata["told.safetensors"] = {
        "modelspec.architecture": "stable-diffusion-v1",
        "prompt": "x" * 5000,
    }
    found = {spec.name: spec for spec in await comfy.discover()}
    assert set(found) == {"sd_xl_base_1.0", "dreams", "told", "flux1-dev", "flux1-schnell"}
    small = {"checkpoint": "sub/dreams.safetensors", "width": 512, "height": 512, "guidance": 7}
    assert found["dreams"].options == {"workflow": "sdxl.json", "values": small}
    notes = (await comfy.probe()).notes
    assert (
        notes[0]
        == "mystery.safetensors: unknown family; configure a workflow for it (docs/models.md)."
    )
    assert (
        "told.safetensors: Stable Diffusion 1.5 (its metadata: stable-diffusion-v1); "
        "offered with sdxl.json." in notes
    )


async def test_a_model_that_is_configured_is_taken(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """A configured model would be offered a second time and counted in memory twice."""
    flux = ModelSpec(
        name="flux",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_IMAGE}),
        options={"workflow": "flux.json"},
    )
    names = [spec.name for spec in await comfy.discover([flux])]
    assert "flux1-dev" not in names
    assert "flux1-schnell" in names
    assert not [note for note in (await comfy.probe()).notes if note.startswith("flux1-dev")]


async def test_metadata_is_read_once(fake: FakeComfyUI, comfy: ComfyUI) -> None:
    """The header of every file would be read again each minute."""
    fake.models = {"checkpoints": {f"{number}.safetensors": 1 for number in range(30)}}
    asked: list[str] = []
    read = comfy._server.metadata

    async def counted(folder: str, name: str) -> object:
        asked.append(name)
        return await read(folder, name)

    comfy._server.metadata = counted  # type: ignore[method-assign, assignment]
    await comfy.discover()
    await comfy.discover()
    assert sorted(asked) == sorted(fake.models["checkpoints"])
    notes = (await comfy.probe()).notes
    assert len(notes) < 30
    assert notes[-1].startswith("… and ")


async def test_a_file_that_the_server_cannot_read_hides_no_other(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """While one model is downloaded, no model would be offered."""
    fake.models = {"checkpoints": dict.fromkeys(("sdxl.safetensors", "half.safetensors"), 1)}
    fake.broken_models.add("half.safetensors")
    assert [spec.name for spec in await comfy.discover()] == ["sdxl"]
    fake.broken_models.clear()
    fake.metadata["half.safetensors"] = {"modelspec.architecture": "stable-diffusion-v1"}
    assert [spec.name for spec in await comfy.discover()] == ["sdxl", "half"]


async def test_a_server_without_these_lists_offers_nothing(
    fake: FakeComfyUI, comfy: ComfyUI
) -> None:
    """A server without these lists would keep the bot from starting."""
    fake.models.clear()
    assert await comfy.discover() == ()
    fake.models["checkpoints"] = {"sd_xl_base_1.0.safetensors": 1}
    fake.faults.garbage = "/models"
    with pytest.raises(UnreadableAnswer):
        await comfy.discover()


def test_no_list_of_a_server_is_kept_without_bound() -> None:
    """A server could fill the memory with file names and metadata."""
    many = [f"{number}.safetensors" for number in range(FILES_MOST)]
    assert len(read_names([*many])) == FILES_MOST
    with pytest.raises(UnreadableAnswer):
        read_names(["x"] * (FILES_MOST + 1))
    with pytest.raises(UnreadableAnswer):
        read_sizes([{"name": "x"}] * (FILES_MOST + 1))
    assert read_names(["a", "b" * (NAME_MOST + 1)]) == ("a",)
    told = {READ[0]: "sdxl", READ[1]: "x" * 1000, "a": "b", **dict.fromkeys(many, "x")}
    assert read_metadata({**told}) == {READ[0]: "sdxl"}


async def test_folders_are_asked_one_after_the_other(comfy: ComfyUI) -> None:
    """Reading the lists of all folders at once could fill the memory."""
    asked, most = 0, 0
    listing = ComfyUIServer.model_files

    async def noted(server: ComfyUIServer, folder: str) -> tuple[str, ...]:
        nonlocal asked, most
        asked, most = asked + 1, max(most, asked + 1)
        try:
            return await listing(server, folder)
        finally:
            asked -= 1

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ComfyUIServer, "model_files", noted)
        await comfy.discover([])
    assert (asked, most) == (0, 1)


def test_discovered_models_have_names_that_can_be_typed() -> None:
    """A checkpoint with spaces or a folder in its name could not be selected in a chat."""
    files = ["a b xl (1).safetensors", "x/sdxl.ckpt", "y\\sdxl.ckpt", "ü-xl.ckpt", "_xl_.ckpt"]
    found = recognised(ServerFiles(names={CHECKPOINTS: files}))
    names = [spec.name for spec in discovered(found, "b")]
    assert names == ["a-b-xl-(1)", "x-sdxl", "y-sdxl", "ü-xl", "_xl_"]


def test_what_is_told_of_a_file_is_a_sentence() -> None:
    """Operators would be shown a raw record instead of a sentence."""
    assert str(Found(file="x.ckpt")).endswith(".")
