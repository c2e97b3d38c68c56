"""ComfyUI workflow templates: parses and checks them, and describes what they need. Pure.

A template is a graph in ComfyUI's API format with placeholders in its inputs (docs/workflows.md).
`fill` turns it into the graph of a request.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from backends.comfyui.workflow.exported.foreign import hint_of, whole_values
from backends.comfyui.workflow.exported.prompts import prompt_in
from backends.comfyui.workflow.graph.analysis import (
    Marks,
    Medium,
    abilities_of,
    all_marks,
    grid_of,
    is_plain,
    marks_of,
    medium_of,
    played_per_made,
    rate_of,
    saves_in,
    shows,
)
from backends.comfyui.workflow.graph.edits import needed_files
from backends.comfyui.workflow.graph.nodes import (
    FILES,
    FOLLOWS,
    NEEDS_DEFAULT,
    NO_DEFAULT,
    WORDS,
    Asked,
    Graph,
    Node,
    bypass,
    leading_to,
    names_in,
    placeholders_in,
    substituted,
    words_in,
)
from queueing.core.catalog import near
from queueing.core.errors import BadModel
from queueing.core.requests import (
    Capability,
    Generation,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)

_REQUESTS: Mapping[Medium, tuple[type[Asked], ...]] = {
    Medium.IMAGE: (TextToImage, TextToVideo, TextToAudio, TextToSpeech),
    Medium.VIDEO: (TextToVideo, TextToImage, TextToAudio, TextToSpeech),
    Medium.SOUND: (TextToAudio, TextToSpeech, TextToVideo, TextToImage),
}
"""The request types whose fields define a graph's defaults, the most likely first."""

_VIDEO = re.compile(r"(VHS_)?LoadVideo")
_SHOWS_OR_SAVES = re.compile(r"save|preview", re.IGNORECASE)
_FRAMES_MOST = 10_000


def defaults_in(nodes: Graph, name: str) -> dict[str, JsonValue]:
    """Return the defaults written inside placeholders."""
    defaults: dict[str, JsonValue] = {}
    for key, node in nodes.items():
        for found in placeholders_in(node.inputs):
            word, text = found[1], found[2]
            if text is None:
                continue
            if defaults.setdefault(word, text) != text:
                raise BadModel(f"{name}: node {key}: {{{{{word}}}}} has two different defaults")
    return {word: text if word in WORDS else _scalar(str(text)) for word, text in defaults.items()}


def check_values(values: Mapping[str, JsonValue], name: str) -> None:
    """Raise `BadModel` for an invalid value, or for a placeholder that only requests fill."""
    for word, value in values.items():
        if word in NO_DEFAULT:
            raise BadModel(f"{name}: {word} is part of each request and cannot have a default")
        if not isinstance(value, str | int | float) or "{{" in str(value):
            raise BadModel(f"{name}: values.{word} must be a text or a number")


def validated(
    name: str, medium: Medium, defaults: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """Return the defaults, validated with the types and limits of requests."""
    return {word: _valid(name, medium, word, value) for word, value in defaults.items()}


def _scalar(text: str) -> JsonValue:
    """Parse a number or boolean; return anything else as text."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def _valid(name: str, medium: Medium, word: str, value: JsonValue) -> JsonValue:
    if word == "lora":
        return value
    if word == "frames":
        return _frames(name, value)
    asked = next(kind for kind in _REQUESTS[medium] if word in kind.model_fields)
    words = {"prompt": ""} if issubclass(asked, Generation) else {"text": "-"}
    try:
        request = asked.model_validate({**words, word: value})
    except ValidationError as error:
        raise BadModel(f"{name}: default of {{{{{word}}}}}: {error.errors()[0]['msg']}") from None
    found: JsonValue = request.model_dump()[word]
    return found


def _frames(name: str, value: JsonValue) -> int:
    try:
        frames = int(str(value))
    except ValueError:
        frames = 0
    if not 1 <= frames <= _FRAMES_MOST:
        raise BadModel(f"{name}: default of {{{{frames}}}}: not a number of frames")
    return frames


_ALSO = {"frames": "seconds"}  # values used without a placeholder of that name


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A checked template, with the operator's values set.

    `nodes` still contain the placeholders of `WORDS`; `defaults` fill those that a request leaves
    open. `saves` are the ids of the nodes that write files, and `medium` is the kind of these
    files. `needs` are the file placeholders without which the template creates nothing.
    """

    name: str
    nodes: Graph
    placeholders: frozenset[str]
    defaults: Mapping[str, JsonValue]
    saves: tuple[str, ...]
    medium: Medium
    needs: frozenset[str]

    @property
    def abilities(self) -> frozenset[Capability]:
        """The capabilities that it offers to requests."""
        prompted = "prompt" in self.placeholders
        return abilities_of(self.nodes, self.medium, self.needs, prompted=prompted)

    @property
    def options(self) -> frozenset[str]:
        """The request fields that it honours, except the prompt and the files."""
        fields = {FOLLOWS.get(word, word) for word in self.placeholders if word != "half_steps"}
        return frozenset(fields) - FILES - {"prompt"}

    @property
    def usual(self) -> Mapping[str, float]:
        """Its default size, steps, length, rate and number of played frames, as far as known."""
        found = {
            name: value
            for name in ("width", "height", "steps", "seconds", "fps", "frames")
            if isinstance(value := self.defaults.get(name), int | float)
        }
        if (rate := rate_of(self.nodes)) is not None:
            found.setdefault("fps", rate)
        if "frames" in found:
            found["frames"] *= played_per_made(self.nodes)
        if {"frames", "fps"} <= found.keys():
            found["seconds"] = found["frames"] / found["fps"]
        return found

    @property
    def edits(self) -> bool:
        """Whether it edits its images, rather than only starting from them."""
        return Capability.IMAGE_EDIT in self.abilities

    @property
    def lora_loader(self) -> tuple[str, str] | None:
        """The node type and input for a LoRA's name; None without a placeholder for one."""
        for node in self.nodes.values():
            for name, value in node.inputs.items():
                if "lora" in names_in(value):
                    return node.class_type, name
        return None

    @property
    def grid(self) -> int:
        """The number of pixels by which widths and heights must be divisible."""
        return grid_of(self.nodes)

    @property
    def marks(self) -> Marks:
        """The texts that identify its models in a prompt. Equal marks mean equal models."""
        return marks_of(self.nodes, self.saves)

    @property
    def weightless(self) -> bool:
        """Whether it loads no model."""
        return is_plain(all_marks(self.nodes))


def saved_part(nodes: Graph) -> Graph:
    """Return the nodes that lead to saved files, without previews and branches that nobody saves.

    If none of them takes the prompt, the nodes that do are kept as well. Returns everything if
    nothing is saved.
    """
    saves = saves_in(nodes)
    kept = leading_to(nodes, saves) if saves else nodes
    if "prompt" in words_in(kept):
        return kept
    asked = (key for key, node in nodes.items() if "prompt" in names_in(node.inputs))
    return leading_to(nodes, (*kept, *asked))


def prepare(nodes: Graph, values: Mapping[str, JsonValue], *, name: str) -> Template:
    """Check a parsed template and set the operator's `values` in it. Raises `BadModel`.

    Values for placeholders of `WORDS` become defaults. The caller checks for unknown names, because
    a second template may use them.
    """
    defaults = defaults_in(nodes, name) | dict(values)
    check_values(defaults, name)
    used = words_in(nodes)
    for key, node in nodes.items():
        for word in sorted(names_in(node.inputs)):
            _check_placeholder(f"{name}: node {key}", node, word, defaults)
    if not used & {"prompt", *FILES}:
        raise BadModel(
            f"{name}: no node has {{{{prompt}}}}{hint_of(nodes) or _likely_prompt(nodes)}"
        )
    for key, remedy in whole_values(nodes):
        raise BadModel(f"{name}: node {key}: {remedy}")
    saves = saves_in(nodes)
    if not saves:
        raise BadModel(
            f"{name}: no output node: no node such as SaveImage has a filename_prefix{_likely_save(nodes)}"
        )
    if not shows(nodes, saves):
        named = ", ".join(f"{key} ({nodes[key].class_type})" for key in saves)
        raise BadModel(f"{name}: node {named}: it saves no image, video or sound")
    if "frames" in used and "fps" not in used and rate_of(nodes) is None:
        raise BadModel(f"{name}: {{{{frames}}}} needs {{{{fps}}}}, or a node that sets fps")
    medium, counted = medium_of(nodes, saves), taken(used)
    own = {k: v for k, v in defaults.items() if k not in WORDS}
    return Template(
        name=name,
        nodes=substituted(nodes, own),
        placeholders=used & WORDS.keys(),
        defaults=validated(
            name, medium, {k: v for k, v in defaults.items() if k in counted & WORDS.keys()}
        ),
        saves=saves,
        medium=medium,
        needs=needed_files(nodes, saves, used & FILES),
    )


def taken(words: frozenset[str]) -> frozenset[str]:
    """Return the names of the values that a graph with these placeholders uses."""
    return words | {also for word, also in _ALSO.items() if word in words}


def blame(workflow: Template, node: str, input_name: str) -> frozenset[str]:
    """Return the placeholders that filled an input, to blame either the request or the template."""
    if node not in workflow.nodes:
        return frozenset()
    return names_in(workflow.nodes[node].inputs.get(input_name))


# ---------------------------------------------------------------- reading and checking


def _likely_prompt(nodes: Graph) -> str:
    """Return a hint about the input that looks like the prompt, or about what there is instead."""
    found = prompt_in(nodes)
    place = next(iter((*found.places, *found.candidates)), None)
    if place is None:
        video = next((key for key, node in nodes.items() if _VIDEO.match(node.class_type)), None)
        told = f"; node {video} ({nodes[video].class_type}) loads a video" if video else ""
        return f"{told}, and requests bring none" if told else ""
    node = nodes[place.node]
    return (
        f"; node {place.node} ({node.title or node.class_type}) looks like the prompt: put"
        f" {{{{prompt}}}} there for its {place.name}, or let `usher workflow add` find all"
        " placeholders"
    )


def _likely_save(nodes: Graph) -> str:
    """Return a hint about a node that saves in another way, or only previews."""
    found = next((k for k, n in nodes.items() if _SHOWS_OR_SAVES.search(n.class_type)), None)
    if found is None:
        return ""
    return f"; replace node {found} ({nodes[found].class_type}) with SaveImage"


def _check_placeholder(
    where: str, node: Node, word: str, defaults: Mapping[str, JsonValue]
) -> None:
    shown = f"{where} ({node.class_type}): {{{{{word}}}}}"
    if word not in WORDS and word not in defaults:
        meant = near(word, WORDS)
        hint = f"; did you mean {{{{{meant[0]}}}}}?" if meant else ""
        raise BadModel(f"{shown} is unknown: set values.{word}, or give it a default{hint}")
    if word == "frames" and not {"frames", "seconds"} & defaults.keys():
        raise BadModel(f"{shown} needs a default, as in {{{{frames:81}}}}, or values.seconds")
    if word in NEEDS_DEFAULT and word not in defaults:
        raise BadModel(f"{shown} needs a default, as in {{{{{word}:1}}}}, or values.{word}")
    if word == "lora" and word not in defaults and not bypass(node):
        raise BadModel(f"{shown} without a default must be in a LoraLoader with linked inputs")
