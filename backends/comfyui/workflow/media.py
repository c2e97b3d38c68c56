"""What a graph makes and can be asked for, as its nodes show. Pure."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from backends.comfyui.workflow.graph import Graph, Node, words_in
from backends.comfyui.workflow.words import PICTURES
from queueing.core.requests import Capability


class Medium(StrEnum):
    """What a graph saves; where it saves several kinds, the first of these counts."""

    FILM = "film"
    SOUND = "sound"
    PICTURE = "picture"


_FILM = re.compile(r"video|film|movie|webm|mp4|animat|gif|vhs", re.IGNORECASE)
_SOUND = re.compile(r"audio|sound|music|speech|voice|mp3|flac|opus|wav", re.IGNORECASE)
_SPEAKS = re.compile(r"tts|speech|kokoro|chatterbox|vibevoice", re.IGNORECASE)
_REFERS = re.compile(
    r"referencelatent|imageedit|kontext|inpaintmodelconditioning|instructpixtopix", re.IGNORECASE
)
_BESIDES = re.compile(r"latent|text|string|glb|mesh", re.IGNORECASE)

_ABLE: Mapping[Medium, tuple[Capability, Capability]] = {
    # without a picture, with one
    Medium.FILM: (Capability.TEXT_TO_VIDEO, Capability.IMAGE_TO_VIDEO),
    Medium.PICTURE: (Capability.TEXT_TO_IMAGE, Capability.IMAGE_TO_IMAGE),
}


def saves_in(nodes: Graph) -> tuple[str, ...]:
    """Return the ids of the nodes that write files."""
    return tuple(
        key
        for key, node in nodes.items()
        if "filename_prefix" in node.inputs and node.inputs.get("save_output") is not False
    )


def medium_of(nodes: Graph, saves: Collection[str]) -> Medium:
    """Return what a graph makes: a saving node of an unknown type writes pictures."""
    made = {_saved_by(nodes[key].class_type) for key in saves}
    return next((medium for medium in Medium if medium in made), Medium.PICTURE)


def edits(nodes: Graph) -> bool:
    """Return whether its pictures are what the prompt is about, rather than where drawing starts.

    A start needs a strength below 1: with a fixed strength of 1 nothing of it would be left.
    """
    words = words_in(nodes)
    if not words >= {"picture", "prompt"}:
        return False
    if words & {*PICTURES[1:], "mask"}:
        return True
    if "strength" in words:
        return False
    refers = any(_REFERS.search(node.class_type) for node in nodes.values())
    return refers or not any(map(_starts_late, nodes.values()))


def abilities_of(
    nodes: Graph, medium: Medium, needs: Collection[str], *, prompted: bool
) -> frozenset[Capability]:
    """Return what a graph can be asked for; `needs` are the files it cannot do without."""
    words = words_in(nodes)
    if medium is Medium.SOUND:
        speaks = "voice" in words or any(_SPEAKS.search(n.class_type) for n in nodes.values())
        return frozenset({Capability.TEXT_TO_SPEECH if speaks else Capability.TEXT_TO_AUDIO})
    if medium is Medium.PICTURE and "picture" in words and not prompted:
        return frozenset({Capability.UPSCALE})
    plain, starting = _ABLE[medium]
    found = set() if needs else {plain}
    if "picture" in words and "mask" not in needs:
        found.add(starting)
    if medium is Medium.PICTURE and edits(nodes):
        found.add(Capability.IMAGE_EDIT)
    return frozenset(found)


def _saved_by(class_type: str) -> Medium | None:
    if _FILM.search(class_type):
        return Medium.FILM
    if _SOUND.search(class_type):
        return Medium.SOUND
    return None if _BESIDES.search(class_type) else Medium.PICTURE


def _starts_late(node: Node) -> bool:
    """Whether a sampler skips the first part of its work, which keeps something of its input."""
    denoise, begins = node.inputs.get("denoise"), node.inputs.get("start_at_step")
    if isinstance(denoise, int | float) and denoise < 1:
        return True
    return isinstance(begins, int | float) and begins > 0
