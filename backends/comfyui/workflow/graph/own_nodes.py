"""ComfyUI's own nodes, and the releases that introduced them. Pure."""

from collections.abc import Iterable, Mapping

from backends.comfyui.workflow.graph.analysis import PLAIN

_SINCE: Mapping[str, tuple[str, ...]] = {
    "0.3.29": ("QuadrupleCLIPLoader", "WanFirstLastFrameToVideo"),
    "0.3.30": ("WanVaceToVideo",),
    "0.3.31": (
        "CreateVideo",
        "GetVideoComponents",
        "LoadVideo",
        "PreviewAny",
        "SaveVideo",
        "T5TokenizerOptions",
    ),
    "0.3.33": ("EmptyAceStepLatentAudio", "TextEncodeAceStepAudio"),
    "0.3.35": ("SaveAudioMP3", "SaveAudioOpus"),
    "0.3.40": ("GetImageSize", "ImageStitch"),
    "0.3.41": ("CosmosPredict2ImageToVideoLatent",),
    "0.3.42": ("FluxKontextImageScale", "ReferenceLatent"),
    "0.3.45": ("CFGNorm",),
    "0.3.46": ("Wan22ImageToVideoLatent",),
    "0.3.51": ("FluxKontextMultiReferenceLatentMethod", "TextEncodeQwenImageEdit"),
    "0.3.52": ("EasyCache",),
    "0.3.53": ("WanSoundImageToVideo",),
    "0.3.60": (
        "EmptyChromaRadianceLatentImage",
        "TextEncodeQwenImageEditPlus",
        "WanAnimateToVideo",
    ),
    "0.3.71": (
        "EmptyHunyuanVideo15Latent",
        "HunyuanVideo15ImageToVideo",
        "HunyuanVideo15SuperResolution",
        "LatentUpscaleModelLoader",
    ),
    "0.4": ("EmptyFlux2LatentImage", "Flux2Scheduler"),  # includes the model's own support
    "0.7": ("ManualSigmas",),
    "0.8": (
        "BatchImagesNode",
        "LTXAVTextEncoderLoader",
        "LTXVAudioVAEDecode",
        "LTXVAudioVAELoader",
        "LTXVConcatAVLatent",
        "LTXVEmptyLatentAudio",
        "LTXVImgToVideoInplace",
        "LTXVLatentUpsampler",
        "LTXVSeparateAVLatent",
    ),
    "0.12": ("EmptyAceStep1.5LatentAudio", "TextEncodeAceStepAudio1.5"),
    "0.21.1": ("EmptyHiDreamO1LatentImage", "ModelNoiseScale"),
    "0.23": ("SaveImageAdvanced",),
    "0.25": ("SaveAudioAdvanced",),
    "0.32": ("LTXVDualCFGGuider",),
}
"""ComfyUI's newer nodes by the first release that includes them."""

_NODES = {kind: version for version, kinds in _SINCE.items() for kind in kinds}

_EARLIER = PLAIN.union(
    ("BasicGuider", "BasicScheduler", "CFGGuider", "CheckpointLoaderSimple", "CLIPLoader"),
    ("CLIPSetLastLayer", "CLIPTextEncode", "CLIPTextEncodeFlux", "CLIPTextEncodeSDXL"),
    ("CLIPVisionEncode", "CLIPVisionLoader", "ConditioningCombine", "ConditioningZeroOut"),
    ("ControlNetApply", "ControlNetApplyAdvanced", "ControlNetLoader", "DifferentialDiffusion"),
    ("DualCLIPLoader", "EmptyHunyuanLatentVideo", "EmptyLatentImage", "EmptyLTXVLatentVideo"),
    ("EmptySD3LatentImage", "FluxGuidance", "ImageCompositeMasked", "ImageUpscaleWithModel"),
    ("InpaintModelConditioning", "KSampler", "KSamplerAdvanced", "KSamplerSelect"),
    ("LatentUpscale", "LatentUpscaleBy", "LoraLoader", "LoraLoaderModelOnly"),
    ("LTXVConditioning", "LTXVCropGuides", "LTXVPreprocess", "LTXVScheduler"),
    ("ModelSamplingAuraFlow", "ModelSamplingFlux", "ModelSamplingSD3", "RandomNoise"),
    ("RepeatLatentBatch", "SamplerCustom", "SamplerCustomAdvanced", "SetLatentNoiseMask"),
    ("SplitSigmas", "TripleCLIPLoader", "UNETLoader", "UpscaleModelLoader", "VAEDecode"),
    ("VAEDecodeAudio", "VAEDecodeTiled", "VAEEncode", "VAEEncodeForInpaint", "VAELoader"),
)
"""Common nodes of ComfyUI that every release in use includes."""


def is_own(kind: str) -> bool:
    """Return whether a node is known to be ComfyUI's own."""
    return kind in _NODES or kind in _EARLIER


def is_newer(kind: str) -> bool:
    """Return whether a node is ComfyUI's own and missing in older releases."""
    return kind in _NODES


def least_version(kinds: Iterable[str]) -> str | None:
    """Return the first release that has all of these nodes; None if every release does."""
    versions = {_NODES[kind] for kind in kinds if kind in _NODES}
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
