"""What a graph leaves in its ComfyUI server's memory, as far as its nodes show. Pure.

A mark is a text set in a graph, as (input, text). Two graphs with the same marks use the same
models.
"""

from collections.abc import Collection

from backends.comfyui.workflow.graph import Graph, Node, files_of, names_in, texts_by_input

Marks = frozenset[tuple[str, str]]

PLAIN = frozenset(
    {
        "CreateVideo",
        "EmptyImage",
        "GetImageSize",
        "GetVideoComponents",
        "ImageBatch",
        "ImageBlend",
        "ImageBlur",
        "ImageCrop",
        "ImageFlip",
        "ImageFromBatch",
        "ImageInvert",
        "ImagePadForOutpaint",
        "ImageQuantize",
        "ImageRotate",
        "ImageScale",
        "ImageScaleBy",
        "ImageScaleToMaxDimension",
        "ImageScaleToTotalPixels",
        "ImageSharpen",
        "LoadAudio",
        "LoadImage",
        "LoadImageMask",
        "LoadImageOutput",
        "LoadVideo",
        "PreviewAudio",
        "PreviewImage",
        "PrimitiveBoolean",
        "PrimitiveFloat",
        "PrimitiveInt",
        "PrimitiveString",
        "RepeatImageBatch",
        "SaveAnimatedPNG",
        "SaveAnimatedWEBP",
        "SaveAudio",
        "SaveAudioMP3",
        "SaveAudioOpus",
        "SaveImage",
        "SaveVideo",
        "SaveWEBM",
    }
)
"""ComfyUI's own nodes that work on pictures, films, sounds and numbers without a model; any other may load one."""

_KIND = "class_type"


def is_plain(marks: Marks) -> bool:
    """Return whether a graph with these marks loads nothing."""
    return all(text in PLAIN for name, text in marks if name == _KIND)


def all_marks(graph: Graph) -> Marks:
    """Return every text set in a graph, its node types among them."""
    return frozenset(texts_by_input(graph)) | frozenset(
        (_KIND, node.class_type) for node in graph.values()
    )


def marks_of(graph: Graph, saves: Collection[str]) -> Marks:
    """Return what distinguishes a template's models from others.

    These are the files it loads, and what loaders without a file name instead: a short name, a
    folder. If there is neither, everything that is the same in each of its prompts counts. Values
    that Usher sets do not count, nor do the nodes it removes or replaces: the ids of `saves` and
    those of a LoRA.
    """
    kept = {
        key: node
        for key, node in graph.items()
        if key not in saves and "lora" not in names_in(node.inputs)
    }
    found = frozenset[tuple[str, str]]().union(*map(loaded_by, kept.values()))
    return found or frozenset(mark for mark in all_marks(kept) if not names_in(mark[1]))


def loaded_by(node: Node) -> Marks:
    """Return the files a node names, or its other texts if it looks like a loader."""
    alone = {"": node}
    named = files_of(alone)
    if named or node.class_type in PLAIN or "load" not in node.class_type.casefold():
        return named
    return frozenset(mark for mark in texts_by_input(alone) if not names_in(mark[1]))
