"""A graph that becomes a template: makes the needed changes and describes them in words. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from backends.comfyui.workflow.exported import files
from backends.comfyui.workflow.exported.foreign import USUAL, stands_for
from backends.comfyui.workflow.exported.links import InputPlace, samplers
from backends.comfyui.workflow.graph.analysis import medium_of, saves_in, unscaled
from backends.comfyui.workflow.graph.node_types import (
    choices_in,
    info_of,
    input_of,
    inputs_for,
    limits_in,
    rules_in,
)
from backends.comfyui.workflow.graph.nodes import (
    FILES,
    NO_DEFAULT,
    Graph,
    Node,
    bypass,
    is_model_file,
    link_of,
    names_in,
    words_in,
)
from backends.comfyui.workflow.template import defaults_in, saved_part, validated
from queueing.core.errors import BadModel

_SAVES = re.compile(r"save|websocket", re.IGNORECASE)
_SHOWS = re.compile(r"^preview", re.IGNORECASE)
_MEDIA: Mapping[str, tuple[str, Mapping[str, JsonValue]]] = {
    "images": ("SaveImage", {}),
    "image": ("SaveImage", {}),
    "audio": ("SaveAudioMP3", {"quality": "V0"}),
    "video": ("SaveVideo", {"format": "auto", "codec": "auto"}),
}
"""By the input of a saving node: ComfyUI's own node that saves the same."""

_OTHER_LOADERS = frozenset(
    {
        "ETN_LoadImageBase64",
        "LoadImageFromURL",
        "LoadImageFromUrl",
        "LoadImageOutput",
        "SwarmLoadImageB64",
        "easy loadImageBase64",
    }
)
"""Nodes that load an image from elsewhere and have the outputs of `LoadImage`."""

_LOADS_ROWS = "Power Lora Loader"
_MEGAPIXELS = 1.0
_CHOICES = FILES | {"lora", "sampler", "scheduler"}  # placeholders for one of several choices
_DEPARTS = 0.7  # how far a result departs from its image if another program sets that
_BY_WORD: Mapping[str, JsonValue] = {
    "guidance": 3.5,
    "width": 832,
    "height": 480,
    "frames": 81,
    "fps": 16,
    "seconds": 60,
}
"""Usual numbers where neither an input's name nor the server says one, as of video models."""
_SEEDS = ("seed", "noise_seed")  # become placeholders whatever they are
_SHOWN = 60  # characters of a value


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftChange:
    """A change of one node, in words for the operator."""

    node: str
    text: str


@dataclass(slots=True)
class GraphDraft:
    """A graph that is being changed, and what has changed."""

    nodes: dict[str, Node]
    fixed: Collection[InputPlace]
    offered: JsonValue
    changes: list[DraftChange] = field(default_factory=list)

    def put(self, found: Iterator[tuple[InputPlace, str]]) -> None:
        """Put placeholders into inputs, unless a request could not have such a value."""
        wishes = dict(found)
        words = words_in(self.nodes)
        for place, text in wishes.items():
            node = self.nodes[place.node]
            before = node.inputs[place.name]
            held = isinstance(before, str) and names_in(before)
            known = names_in(text) & words
            if place in self.fixed or held or known or self._is_choice(place, text):
                continue
            if not self._is_valid(text):
                continue
            self.nodes[place.node] = replace(node, inputs={**node.inputs, place.name: text})
            self._tell(place.node, f"{place.name} = {text} (was {short(before)})")

    def _is_valid(self, text: str) -> bool:
        """Return whether requests may have a placeholder's default."""
        try:
            found = defaults_in({"": Node(class_type="", inputs={"": text})}, "")
            validated("", medium_of(self.nodes, saves_in(self.nodes)), found)
        except (BadModel, StopIteration):
            return False
        return not found.keys() & set(NO_DEFAULT)

    def _is_choice(self, place: InputPlace, text: str) -> bool:
        """Return whether the server takes only choices there, and no number or text of people."""
        kind = input_of(self.offered, self.nodes[place.node].class_type, place.name)
        return choices_in(kind) is not None and not names_in(text) & _CHOICES

    def _tell(self, key: str, text: str) -> None:
        self.changes.append(DraftChange(node=key, text=text))

    def clear_marks(self) -> None:
        """Replace the texts that only say where another program puts numbers or a negative prompt."""
        for key, node in list(self.nodes.items()):
            for name, value in node.inputs.items():
                if not isinstance(value, str) or name in _SEEDS:
                    continue
                new = "" if stands_for(value) == "negative" else self._number(node, name, value)
                if new is not None:
                    self._set(key, name, new)
                    self._tell(key, f"{name} = {short(new)} (was {short(value)})")

    def _number(self, node: Node, name: str, value: str) -> JsonValue:
        """Return a usual number if an input takes numbers and has another program's mark."""
        kind = input_of(self.offered, node.class_type, name)
        limits = limits_in(kind)
        if names_in(value) or (limits is None and (kind is not None or stands_for(value) is None)):
            return None
        with suppress(ValueError):
            float(value)
            return None
        if name == "denoise" and any(map(files.LOADS_IMAGE.match, self._kinds())):
            return _DEPARTS
        default = rules_in(kind).get("default")
        usual = default if "Video" in node.class_type else USUAL.get(name, default)
        if usual is None:
            usual = _BY_WORD.get(stands_for(value) or "")
        return limits.nearest(0) if usual is None and limits else usual

    def _kinds(self) -> Iterator[str]:
        return (node.class_type for node in self.nodes.values())

    def save_something(self) -> None:
        """Make nodes that save elsewhere, or only show, save files; only if nothing else does."""
        for pattern in (_SAVES, _SHOWS):
            if saves_in(self.nodes):
                return
            for key, node in list(self.nodes.items()):
                name = next((each for each in _MEDIA if link_of(node.inputs.get(each))), None)
                if name and pattern.search(node.class_type):
                    self._save(key, name)

    def _save(self, key: str, name: str) -> None:
        kind, settings = _MEDIA[name]
        before = self.nodes[key]
        own = "images" if kind == "SaveImage" else name
        inputs = {own: before.inputs[name], "filename_prefix": "usher", **settings}
        self.nodes[key] = replace(before, class_type=kind, inputs=inputs)
        self._tell(key, f"is a {kind} (was {before.class_type}), which saves what it gets")

    def complete(self) -> None:
        """Set inputs that the server requires and the export lacks, as the editor does.

        Versions add inputs, which have a default. A node pack's "Anything Everywhere" links a value
        to every open input of its type.
        """
        changed = True
        while changed:
            changed = False
            for key, node in saved_part(self.nodes).items():
                inputs = inputs_for(info_of(self.offered, node.class_type), node.inputs)
                for name, kind in sorted(inputs.required.items()):
                    if not _is_open(node, name, kind):
                        continue
                    value = self._usual(kind)
                    if value is not None:
                        self._set(key, name, value)
                        self._tell(key, f"{name} = {short(value)}, which the server requires")
                        changed = True

    def _usual(self, kind: JsonValue) -> JsonValue:
        """Return what an open input gets: its default, its first choice, or a link for all."""
        if (usual := rules_in(kind).get("default")) is not None:
            return usual
        if choices := choices_in(kind):
            return None if is_model_file(choices[0]) else choices[0]
        wanted = kind[0] if isinstance(kind, list) and kind else None
        found = [link for link in self._for_all() if self._type_of(link) == wanted]
        return [found[0][0], found[0][1]] if len(found) == 1 else None

    def _for_all(self) -> Iterator[tuple[str, int]]:
        for node in self.nodes.values():
            if node.class_type.startswith("Anything Everywhere"):
                yield from filter(None, map(link_of, node.inputs.values()))

    def _type_of(self, link: tuple[str, int]) -> JsonValue:
        made = info_of(self.offered, self.nodes[link[0]].class_type).get("output")
        return made[link[1]] if isinstance(made, list) and link[1] < len(made) else None

    def load_own_images(self) -> None:
        """Make nodes that load images from elsewhere load those of requests."""
        for key, node in self.nodes.items():
            if node.class_type in _OTHER_LOADERS:
                self.nodes[key] = replace(node, class_type="LoadImage", inputs={"image": ""})
                self._tell(key, f"is a LoadImage (was {node.class_type})")

    def mask_apart(self) -> None:
        """Load a mask from its own file, where an image's transparency is the mask."""
        saved = saved_part(self.nodes)
        if not samplers(saved):
            return
        part = files.seen_by_samplers(saved)
        links = {link for node in part.values() for link in map(link_of, node.inputs.values())}
        keys = [
            key
            for key, node in part.items()
            if node.class_type == "LoadImage" and (key, 1) in links and not names_in(node.inputs)
        ]
        if not keys or any(node.class_type == "LoadImageMask" for node in part.values()):
            return
        if InputPlace(node=keys[0], name="image") in self.fixed:
            return
        own = _free(self.nodes, "mask")
        self._relink((keys[0], 1), [own, 1])
        self.nodes[own] = Node(class_type="LoadImage", inputs={"image": "{{mask}}"}, title="Mask")
        self._tell(
            own, f"is new: it loads {{{{mask}}}}, instead of the transparency of node {keys[0]}"
        )

    def add_rows(self) -> None:
        """Add a row for the LoRAs of requests to loaders with rows, and keep the other rows."""
        if "lora" in words_in(self.nodes):
            return
        for key, node in files.seen_by_samplers(saved_part(self.nodes)).items():
            if node.class_type.startswith(_LOADS_ROWS) and bypass(node):
                rows = (re.fullmatch(r"lora_(\d+)", name) for name in node.inputs)
                name = f"lora_{max((int(row[1]) for row in rows if row), default=0) + 1}"
                self._set(key, name, {"on": True, "lora": "{{lora}}", "strength": 1})
                self._tell(key, f"{name} is a new row, for {{{{lora}}}}")

    def scale_first(self) -> None:
        """Scale a person's image before it is encoded."""
        for key in unscaled(saved_part(self.nodes)):
            pixels, own = self.nodes[key].inputs["pixels"], _free(self.nodes, f"{key}-scale")
            inputs: dict[str, JsonValue] = {
                "image": pixels,
                "upscale_method": "lanczos",
                "megapixels": _MEGAPIXELS,
                "resolution_steps": 1,
            }
            self.nodes[own] = Node(class_type="ImageScaleToTotalPixels", inputs=inputs)
            self._set(key, "pixels", [own, 0])
            self._tell(own, f"is new: it scales images to {_MEGAPIXELS:g} megapixel for node {key}")

    def _set(self, key: str, name: str, value: JsonValue) -> None:
        node = self.nodes[key]
        self.nodes[key] = replace(node, inputs={**node.inputs, name: value})

    def _relink(self, before: tuple[str, int], after: JsonValue) -> None:
        for key, node in list(self.nodes.items()):
            for name, value in node.inputs.items():
                if link_of(value) == before:
                    self._set(key, name, after)


def _is_open(node: Node, name: str, kind: JsonValue) -> bool:
    """Return whether an input is missing, or empty where the server has choices."""
    if name not in node.inputs:
        return True
    return node.inputs[name] == "" and "" not in (choices_in(kind) or [""])


def _free(nodes: Graph, wish: str) -> str:
    return wish if wish not in nodes else _free(nodes, f"{wish}-")


def short(value: JsonValue) -> str:
    """Return a value in one line."""
    text = repr(" ".join(value.split()) if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
