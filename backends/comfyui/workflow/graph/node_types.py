"""Inputs of node types as a server describes them, and which types are ComfyUI's own. Pure.

Some inputs depend on others: a choice can add its own inputs, and a list grows as needed. Their
names contain dots, such as `format.quality` and `images.image0`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from pydantic import JsonValue

from backends.comfyui.workflow.graph.analysis import PLAIN
from backends.comfyui.workflow.graph.nodes import Graph, whole_placeholder


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The minimum and maximum of an input."""

    least: float = -inf
    most: float = inf

    def nearest(self, value: int) -> int:
        """Return the allowed number nearest to `value`."""
        return int(min(max(value, self.least), self.most))

    def wrapped(self, seed: int) -> int:
        """Return the seed if it is allowed, or else a replacement that depends only on it."""
        if self.least <= seed <= self.most:
            return seed
        least = 0 if self.least == -inf else int(self.least)
        if self.most == inf:
            return least + seed
        return least + seed % (int(self.most) - least + 1)


def common(limits: Iterable[NumberRange]) -> NumberRange:
    """Return the intersection of all ranges; `least` exceeds `most` if it is empty."""
    found = list(limits)
    return NumberRange(
        max((each.least for each in found), default=-inf),
        min((each.most for each in found), default=inf),
    )


def limits_in(kind: JsonValue) -> NumberRange | None:
    """Return an input's limits from the server's description; None if it is not numeric."""
    match kind:
        case ["INT" | "FLOAT", {**told}, *_]:
            return NumberRange(_number(told.get("min"), -inf), _number(told.get("max"), inf))
        case ["INT" | "FLOAT"]:
            return NumberRange()
        case _:
            return None


def rules_in(kind: JsonValue) -> Mapping[str, JsonValue]:
    """Return a server's description of an input, apart from its type."""
    match kind:
        case [_, dict(rules), *_]:
            return rules
        case _:
            return {}


def inputs_of(graph: Graph, word: str) -> Iterator[tuple[str, str]]:
    """Yield the node type and input of each value that consists of this placeholder only."""
    for node in graph.values():
        for name, value in node.inputs.items():
            if whole_placeholder(value) == word:
                yield node.class_type, name


def _number(value: object, default: float) -> float:
    return value if isinstance(value, int | float) else default


_CHOICE = "COMFY_DYNAMICCOMBO_V3"
_LIST = "COMFY_AUTOGROW_V3"
_NAMES_MOST = 100  # in a list, as in ComfyUI


@dataclass(slots=True)
class Inputs:
    """The inputs of a node by name; they depend on its values."""

    required: dict[str, JsonValue] = field(default_factory=dict)
    optional: dict[str, JsonValue] = field(default_factory=dict)


def inputs_for(info: Mapping[str, JsonValue], values: Mapping[str, JsonValue]) -> Inputs:
    """Return the inputs of a node with these values, according to the server's description."""
    found = Inputs()
    for part, kinds in _parts(info.get("input")):
        for name, kind in kinds.items():
            needed = part == "required"
            if needed and name not in values and _is_choice(kind):
                found.required[name] = kind
            _expand(found, name, kind, values, needed=needed)
    return found


def choices_in(kind: JsonValue) -> list[str] | None:
    """Return an input's choices, or None for a free input. Servers use three formats."""
    match kind:
        case [list(choices), *_]:
            return [str(choice) for choice in choices]
        case ["COMBO", {"options": list(choices)}, *_]:
            return [str(choice) for choice in choices]
        case [kind_name, {"options": list(options)}, *_] if kind_name == _CHOICE:
            return [
                str(option["key"])
                for option in options
                if isinstance(option, dict) and "key" in option
            ]
        case _:
            return None


def info_of(offered: JsonValue, class_type: str) -> Mapping[str, JsonValue]:
    """Return the server's description of a node type; empty if it has no such type."""
    info = offered.get(class_type) if isinstance(offered, dict) else None
    return info if isinstance(info, dict) else {}


def input_of(offered: JsonValue, class_type: str, name: str) -> JsonValue:
    """Return the server's description of an input of a node type, or None."""
    inputs = inputs_for(info_of(offered, class_type), {})
    return inputs.required.get(name) or inputs.optional.get(name)


def choices_of(offered: JsonValue, class_type: str, name: str) -> tuple[str, ...]:
    """Return the choices for an input of a node type; empty if there are none."""
    return tuple(choices_in(input_of(offered, class_type, name)) or ())


def _expand(
    found: Inputs, name: str, kind: JsonValue, values: Mapping[str, JsonValue], *, needed: bool
) -> None:
    match kind:
        case [str(kind_name), {"options": list(options)}, *_] if kind_name == _CHOICE:
            if name not in values:  # inner inputs exist only once a choice is made
                return
            found.required[name] = kind
            for option in options:
                if isinstance(option, dict) and option.get("key") == values[name]:
                    for part, kinds in _parts(option.get("inputs")):
                        for inner, each in kinds.items():
                            wanted = part == "required"
                            _expand(found, f"{name}.{inner}", each, values, needed=wanted)
        case [str(kind_name), {"template": dict(template)}, *_] if kind_name == _LIST:
            for number, (inner, each) in enumerate(_listed(template)):
                wanted = needed and number < _whole(template.get("min"))
                (found.required if wanted else found.optional)[f"{name}.{inner}"] = each
        case _:
            (found.required if needed else found.optional)[name] = kind


def _listed(template: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield all possible inputs of a list."""
    kinds = [kind for _, part in _parts(template.get("input")) for kind in part.values()]
    names = template.get("names")
    if not isinstance(names, list):
        most = min(_whole(template.get("max")), _NAMES_MOST)
        names = [f"{template.get('prefix')}{number}" for number in range(most)]
    for name in names if kinds else ():
        yield str(name), kinds[0]


def _parts(inputs: JsonValue) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    for part in ("required", "optional"):
        kinds = inputs.get(part) if isinstance(inputs, dict) else None
        if isinstance(kinds, dict):
            yield part, kinds


def _is_choice(kind: JsonValue) -> bool:
    return isinstance(kind, list) and kind[:1] == [_CHOICE]


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


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
