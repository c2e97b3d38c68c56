"""The model families that Usher recognises on a ComfyUI server, most specific first. Pure.

A rule matches a file's name in lower case, without folder and extension, with hyphens for spaces
and underscores. The rules cover the published names of the models, and the names people derive from
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

CHECKPOINTS, MODELS = "checkpoints", "diffusion_models"
_ENCODERS, _VAE, _LORAS = "text_encoders", "vae", "loras"

Value = int | float | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Companion:
    """A file that a template needs in addition to the model. `names` are rules, the best first."""

    word: str
    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A family of models that one template can run, or a known one without a shipped template.

    `word` is the placeholder for the model's file. If `partner` is set, it is the placeholder for a
    second file, whose name has "low" where the first has "high".
    """

    title: str
    folder: str
    name: str
    template: str = ""
    word: str = ""
    partner: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    companions: tuple[Companion, ...] = ()


def _companion(word: str, folder: str, *names: str) -> Companion:
    return Companion(word=word, folder=folder, names=names)


def _model(title: str, name: str, template: str, *companions: Companion, **values: Value) -> Family:
    return Family(
        title=title,
        folder=MODELS,
        name=name,
        template=template,
        word="unet",
        companions=companions,
        values=values,
    )


def _checkpoint(
    title: str, name: str, template: str, *companions: Companion, **values: Value
) -> Family:
    return Family(
        title=title,
        folder=CHECKPOINTS,
        name=name,
        template=template,
        word="checkpoint",
        companions=companions,
        values=values,
    )


def _unsupported(title: str, name: str, folder: str = MODELS) -> Family:
    return Family(title=title, folder=folder, name=name)


def _experts(title: str, name: str, template: str) -> Family:
    return Family(
        title=title,
        folder=MODELS,
        name=name,
        template=template,
        word="high",
        partner="low",
        companions=(_UMT5, _companion("vae", _VAE, r"^wan-?2\.1-vae")),
    )


_AE = _companion("vae", _VAE, r"^ae$", r"^ae[.-]", r"^flux-?1?-vae")
_T5 = _companion("t5", _ENCODERS, r"^t5xxl-fp16$", r"^t5xxl-fp8", r"^t5-?(v1-1-)?xxl")
_CLIP_L = _companion("clip", _ENCODERS, r"^clip-l$", r"^clip-l")
_QWEN3_4B = _companion("clip", _ENCODERS, r"^qwen-?3-4b$", r"^qwen-?3-4b")
_QWEN3_8B = _companion("clip", _ENCODERS, r"^qwen-?3-8b")
_QWEN_VL = _companion("clip", _ENCODERS, r"^qwen-?2\.5-vl-7b-fp8", r"^qwen-?2\.5-vl-7b")
_QWEN_VAE = _companion("vae", _VAE, r"^qwen-image-vae")
_FLUX2_VAE = _companion("vae", _VAE, r"^flux-?2-vae", r"^full-encoder-small-decoder")
_UMT5 = _companion("clip", _ENCODERS, r"^umt5-xxl-fp8", r"^umt5-xxl")
_MISTRAL = _companion("clip", _ENCODERS, r"^mistral-3-small-flux2-fp8", r"^mistral-3-small")
_FLUX = (_T5, _CLIP_L, _AE)
_HUNYUAN = (
    _QWEN_VL,
    _companion("byt5", _ENCODERS, r"^byt5-small-glyphxl"),
    _companion("vae", _VAE, r"^hunyuanvideo15-vae"),
)
_LTX2 = (
    _companion("clip", _ENCODERS, r"^gemma-3-12b-it-fp4", r"^gemma-3-12b-it"),
    _companion("upscaler", "latent_upscale_models", r"^ltx-2-spatial-upscaler-x2"),
    _companion("distilled", _LORAS, r"^ltx-2-19b-distilled-lora"),
)
_WAN22 = r"wan-?2[.-]?2"

FAMILIES: tuple[Family, ...] = (
    # ------------------------------------------------------------ one model to a file
    _unsupported("a part of Flux.1's tools", r"flux.*(canny|depth|redux|controlnet|ip-?adapter)"),
    _unsupported("Flux.2 klein KV", r"flux-?2-klein.*-kv"),
    _model(
        "Flux.2 klein base 9B", r"flux-?2-klein-(base-9b|9b-base)", "flux2-klein-base.json",
        _QWEN3_8B, _FLUX2_VAE,
    ),
    _model(
        "Flux.2 klein base 4B", r"flux-?2-klein-(base-4b|4b-base)", "flux2-klein-base.json",
        _QWEN3_4B, _FLUX2_VAE,
    ),
    _model("Flux.2 klein 9B", r"flux-?2-klein-9b", "flux2-klein.json", _QWEN3_8B, _FLUX2_VAE),
    _model("Flux.2 klein 4B", r"flux-?2-klein-4b", "flux2-klein.json", _QWEN3_4B, _FLUX2_VAE),
    _model("Flux.2 dev", r"flux-?2-dev", "flux2.json", _MISTRAL, _FLUX2_VAE),
    _unsupported("a newer Flux", r"flux-?[23]"),
    _model("Flux.1 Kontext", r"flux.*kontext", "flux-kontext.json", *_FLUX),
    _model("Flux.1 Fill", r"flux.*fill", "flux-fill.json", *_FLUX),
    _model("Flux.1 schnell", r"flux.*schnell", "flux-schnell.json", *_FLUX),
    _model("Flux.1 dev", r"flux.*dev|flux-?1?-krea", "flux.json", *_FLUX),
    _unsupported("Qwen-Image Layered", r"qwen-image-layered"),
    _model(
        "Qwen-Image-Edit 2511", r"qwen-image-edit-(plus-)?2511", "qwen-edit.json",
        _QWEN_VL, _QWEN_VAE,
    ),
    _model(
        "Qwen-Image-Edit 2509", r"qwen-image-edit-(plus-)?2509", "qwen-edit.json",
        _QWEN_VL, _QWEN_VAE, references="index", steps=20,
    ),
    _unsupported("the first Qwen-Image-Edit", r"qwen-image-edit"),
    _unsupported("a newer Qwen-Image", r"qwen-image-?2\.\d"),
    _model("Qwen-Image 2512", r"qwen-image-2512", "qwen-image.json", _QWEN_VL, _QWEN_VAE),
    _model("Qwen-Image", r"qwen-image", "qwen-image.json", _QWEN_VL, _QWEN_VAE, steps=20),
    _model("Z-Image-Turbo", r"z-?image-turbo", "z-image-turbo.json", _QWEN3_4B, _AE),
    _unsupported("an edit or omni model of Z-Image", r"z-?image.*(edit|omni|control)"),
    _model("Z-Image", r"z-?image", "z-image.json", _QWEN3_4B, _AE),
    _unsupported("Chroma Radiance", r"chroma.*radiance"),
    _model(
        "Chroma", r"chroma", "chroma.json",
        _companion("clip", _ENCODERS, r"^t5xxl-fp8", r"^t5xxl-fp16$", r"^t5-?(v1-1-)?xxl"), _AE,
    ),
    # ------------------------------------------------------------ videos
    _unsupported("a special variant of Wan 2.2", _WAN22 + r".*(fun|s2v|animate|vace|camera)"),
    _model(
        "Wan 2.2 5B", _WAN22 + r".*ti2v.*5b", "wan22-5b.json",
        _UMT5, _companion("vae", _VAE, r"^wan-?2\.2-vae"),
    ),
    _experts("Wan 2.2 14B from text", _WAN22 + r".*t2v.*high|" + _WAN22 + r".*high.*t2v",
             "wan22-t2v.json"),
    _experts("Wan 2.2 14B from images", _WAN22 + r".*i2v.*high|" + _WAN22 + r".*high.*i2v",
             "wan22-i2v.json"),
    _unsupported("half of Wan 2.2 14B", _WAN22 + r".*low"),
    _unsupported("an earlier Wan", r"^wan-?(2[.-]?1|21)|^wan.*(vace|1\.3b)"),
    _unsupported(
        "a special variant of HunyuanVideo 1.5",
        r"hunyuan-?video-?1\.?5.*(480p|1080p|sr|distill|lightx2v|turbo)",
    ),
    _model(
        "HunyuanVideo 1.5 from text", r"hunyuan-?video-?1\.?5.*t2v", "hunyuan15-t2v.json", *_HUNYUAN
    ),
    _model(
        "HunyuanVideo 1.5 from an image", r"hunyuan-?video-?1\.?5.*i2v", "hunyuan15-i2v.json",
        *_HUNYUAN, _companion("vision", "clip_vision", r"^sigclip-vision"),
    ),
    _unsupported("an earlier Hunyuan", r"hunyuan"),
    _unsupported("ACE-Step in separate files", r"ace-?step"),
    _unsupported("HiDream", r"hidream"),
    _unsupported("LTX", r"ltx"),
    # ------------------------------------------------------------ all in one checkpoint
    _checkpoint(
        "ACE-Step 1.5 turbo", r"ace-?step.*1\.5.*turbo|ace-?step.*turbo.*1\.5", "ace-step.json"
    ),
    _unsupported("ACE-Step", r"ace-?step", CHECKPOINTS),
    _checkpoint("LTX-2", r"^ltx-?2-19b-dev", "ltx2.json", *_LTX2),
    _unsupported("LTX", r"^ltxv?-", CHECKPOINTS),
    _unsupported("Stable Audio", r"stable-?audio", CHECKPOINTS),
    _unsupported("Stable Video Diffusion", r"^svd|stable-?video", CHECKPOINTS),
    _unsupported("HiDream", r"hidream", CHECKPOINTS),
    _unsupported("a part of Flux.1's tools", r"flux.*(kontext|fill|canny|depth)", CHECKPOINTS),
    _checkpoint("Flux.1 dev in one file", r"^flux-?1-dev-fp8$", "flux-checkpoint.json"),
    _checkpoint("Flux.1 schnell in one file", r"^flux-?1-schnell-fp8$", "flux-schnell-checkpoint.json"),
    _unsupported("Flux in one file", r"flux", CHECKPOINTS),
    _checkpoint(
        "Stable Diffusion 3.5 turbo with its encoders",
        r"(sd|stable-diffusion)-?3[.-]?5.*turbo.*(fp8-scaled|incl)", "sd35.json",
        steps=4, guidance=1,
    ),
    _checkpoint(
        "Stable Diffusion 3.5 with its encoders",
        r"(sd|stable-diffusion)-?3[.-]?5.*(fp8-scaled|incl)", "sd35.json",
    ),
    _unsupported("Stable Diffusion 3 without encoders", r"(sd|stable-diffusion)-?3", CHECKPOINTS),
    _unsupported("an SDXL refiner", r"refiner", CHECKPOINTS),
    _unsupported("an inpainting model", r"inpaint", CHECKPOINTS),
    _checkpoint(
        "SDXL Turbo", r"^sd-?xl-turbo", "sdxl.json",
        steps=4, guidance=1, width=512, height=512, sampler="euler_ancestral", scheduler="normal",
    ),
    _checkpoint(
        "SDXL Lightning, 4 steps", r"xl.*(lightning.*4-?step|4-?step.*lightning)", "sdxl.json",
        steps=4, guidance=1, sampler="euler", scheduler="sgm_uniform",
    ),
    _checkpoint(
        "SDXL Lightning", r"(?<![x0-9])xl.*(lightning|hyper)", "sdxl.json",
        steps=8, guidance=1, sampler="euler", scheduler="sgm_uniform",
    ),
    _checkpoint(
        "an SDXL turbo variant", r"xl.*(turbo|dmd2)", "sdxl.json",
        steps=8, guidance=2, sampler="dpmpp_sde", scheduler="karras",
    ),
    _checkpoint(
        "SDXL", r"(?<!x)xl(?![a-z])|sdxl|(^|-)pony|illustrious|noob-?ai|animagine", "sdxl.json"
    ),
    _checkpoint(
        "Stable Diffusion 1.5",
        r"^v1-[45]-|sd-?v?1[.-]?[45]|stable-diffusion-v?1[.-][45]",
        "sdxl.json", width=512, height=512, guidance=7,
    ),
    _checkpoint(
        "Stable Diffusion 2", r"^v2-[01][-_]|sd-?v?2[.-]?[01]|stable-diffusion-v?2[.-]1", "sdxl.json",
        width=768, height=768, guidance=7,
    ),
)  # fmt: skip
