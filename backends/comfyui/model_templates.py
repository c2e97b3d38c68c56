"""A model's ComfyUI templates, and checks whether a server has everything they need.

Reads template files on this machine. Never calls a server.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeGuard

from pydantic import JsonValue

from backends.comfyui.workflow.graph.analysis import unscaled
from backends.comfyui.workflow.graph.nodes import Asked, Graph, link_of, words_in
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import Template, prepare, saved_part, taken
from backends.common.model_names import comparable
from backends.common.options import read_options
from queueing.core.catalog import meant_or_all
from queueing.core.errors import BadModel
from queueing.core.requests import Capability, Record, TextToImage
from queueing.core.specs import ModelSpec

NAME_SHOWN = 255  # characters; no file name is longer
_SHIPPED = resources.files("backends") / "workflows"
_MODELS = ("ckpt_name", "unet_name")  # inputs that name a model rather than a part of it

_LACKS: Mapping[Capability, tuple[str, str]] = {
    Capability.TEXT_TO_IMAGE: ("workflow", "it needs an image, or creates none"),
    Capability.TEXT_TO_VIDEO: ("workflow", "it needs an image, or saves no video"),
    Capability.TEXT_TO_AUDIO: ("workflow", "it saves no audio, or it is for speech"),
    Capability.TEXT_TO_SPEECH: ("workflow", "it has no {{voice}}, or saves no audio"),
    Capability.IMAGE_TO_IMAGE: ("image_workflow", "no template has {{image}}"),
    Capability.IMAGE_TO_VIDEO: (
        "image_workflow",
        "no video template has {{image}}",
    ),
    Capability.IMAGE_EDIT: ("edit_workflow", "it only uses images as a starting point"),
    Capability.UPSCALE: ("workflow", "it has {{prompt}} and creates new images"),
}
"""By capability: the setting to check, and why the templates lack that capability."""


class ModelOptions(Record):
    """The settings of a model on ComfyUI.

    `workflow`, `image_workflow` (for requests that start from an image) and `edit_workflow` (for
    requests that change or combine images) are names of shipped templates or file paths. `values`
    fill placeholders: file names of checkpoints and other files, and defaults for steps, sizes and
    so on.
    """

    workflow: str
    image_workflow: str | None = None
    edit_workflow: str | None = None
    values: Mapping[str, bool | int | float | str] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Templates:
    """The templates of a model. There is at least one, and the first one loads the model."""

    all: tuple[Template, ...]

    def serving(self, request: Asked, files: Collection[str]) -> Template:
        """Return the template for a request with files for these placeholders.

        If none fits, filling the returned template reports why.
        """
        able = request.needs(has_files=bool(files))
        editing = isinstance(request, TextToImage) and request.edit

        def misfit(workflow: Template) -> tuple[bool, int, bool]:
            homeless = len(set(files) - workflow.placeholders)
            missing = len(workflow.needs - set(files))
            unlike = able not in workflow.abilities
            return unlike, homeless + missing, workflow.edits and not editing

        return min(self.all, key=misfit)

    @property
    def abilities(self) -> frozenset[Capability]:
        """The capabilities that at least one of the templates has."""
        return frozenset[Capability]().union(*(workflow.abilities for workflow in self.all))

    @property
    def models(self) -> frozenset[str]:
        """The checkpoints and diffusion models that the templates load, in a comparable form."""
        nodes = (node for workflow in self.all for node in workflow.nodes.values())
        return frozenset(
            comparable(str(node.inputs[name]))
            for node in nodes
            for name in _MODELS
            if name in node.inputs
        )

    @property
    def usual(self) -> Mapping[str, float]:
        """The default sizes, steps and lengths; of several templates, the largest."""
        found: dict[str, float] = {}
        for workflow in self.all:
            for name, value in workflow.usual.items():
                found[name] = max(value, found.get(name, value))
        return found

    @property
    def options(self) -> frozenset[str]:
        """The request fields that at least one of the templates takes."""
        return frozenset[str]().union(*(workflow.options for workflow in self.all))


def read_templates(model: ModelSpec) -> Templates:
    """Return a model's templates. Raises `BadModel` naming the setting, or the file and node."""
    where = f"models.{model.name}"
    options = read_options(ModelOptions, model.options, where)
    graphs = {name: _graph(where, name) for name in _names(model, options)}
    known = taken(frozenset[str]().union(*map(words_in, graphs.values())))
    unused = options.values.keys() - known
    if unused:
        raise BadModel(
            f"{where}.values: no placeholder of {' or '.join(graphs)} is named {min(unused)}"
        )
    workflows = [
        prepare(saved_part(graph), options.values, name=name) for name, graph in graphs.items()
    ]
    templates = Templates(all=tuple(sorted(workflows, key=lambda each: bool(each.needs))))
    _check_capabilities(where, model, templates)
    return templates


def remarks_on(workflow: Template) -> Iterator[str]:
    """Yield what is surprising about a template, though it runs."""
    for key in unscaled(workflow.nodes):
        yield (
            f"{workflow.name}: node {key} encodes an image in the size it comes in, up to"
            " 4096 pixels a side: put ImageScale before it."
        )
    if "prompt" in workflow.placeholders and "seed" not in workflow.placeholders:
        held = [f"node {key} has {seed}" for key, seed in fixed_seeds(workflow.nodes).items()]
        if held:
            yield (
                f"{workflow.name}: no {{{{seed}}}}, so the same prompt gives the same result every"
                f" time ({', '.join(held)})."
            )


def _names(model: ModelSpec, options: ModelOptions) -> list[str]:
    """Return the names of a model's templates; a shipped one may have a variant for images."""
    names = [options.workflow, options.image_workflow, options.edit_workflow]
    if Capability.IMAGE_TO_IMAGE in model.capabilities and not options.image_workflow:
        variant = f"{options.workflow.removesuffix('.json')}-img2img.json"
        names.append(variant if variant in _shipped() else None)
    return list(dict.fromkeys(filter(None, names)))


def _shipped() -> frozenset[str]:
    return frozenset(file.name for file in _SHIPPED.iterdir())


def _graph(where: str, name: str) -> Graph:
    source = _SHIPPED / name if name in _shipped() else Path(name)
    try:
        text = source.read_text(encoding="utf-8-sig")  # Windows adds a byte order mark
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an invalid file name
        shown = name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}…"
        raise BadModel(f"{where}: workflow {shown} {_unread(name, error)}") from None
    return parse_workflow(text, name=name)


def _unread(name: str, error: OSError | ValueError) -> str:
    """Return why a file cannot be read, and what to do."""
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text: let `usher workflow add` make a template of it"
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return f"cannot be read: {error.strerror}"
    hint = meant_or_all(name, _shipped(), all_are="shipped are")
    return f"does not exist; {hint}"


def _check_capabilities(where: str, model: ModelSpec, templates: Templates) -> None:
    for able in sorted(model.capabilities - templates.abilities):
        setting, why = _LACKS.get(able, ("workflow", "it makes something else"))
        raise BadModel(f"{where}.{setting}: {why}, so the model cannot do {able}")


_SEEDS = ("seed", "noise_seed")
_NUMBERS = (*_SEEDS, "value", "int", "number", "Number")
"""The inputs of nodes that pass a number on to a sampler."""


def fixed_seeds(nodes: Graph) -> Mapping[str, int]:
    """Return the seeds that a graph sets, by the node that has them.

    A negative number stands for a random seed, and a sampler that adds no noise uses none.
    """
    found: dict[str, int] = {}
    for key, node in nodes.items():
        if node.inputs.get("add_noise") != "disable":
            for name in _SEEDS:
                found |= _held(nodes, key, node.inputs.get(name))
    return found


def _held(nodes: Graph, key: str, value: JsonValue) -> dict[str, int]:
    link = link_of(value)
    if link is None:
        return {key: value} if _is_seed(value) else {}
    inputs = nodes[link[0]].inputs
    numbers = [number for name in _NUMBERS if _is_seed(number := inputs.get(name))]
    return {link[0]: numbers[0]} if numbers else {}


def _is_seed(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
