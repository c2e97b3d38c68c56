"""Turns an exported workflow into a template: adds placeholders and the nodes they need. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.workflow.draft import DraftChange, GraphDraft, short
from backends.comfyui.workflow.exported import files, values
from backends.comfyui.workflow.exported.foreign import STANDS_FOR_NEGATIVE, with_ours
from backends.comfyui.workflow.exported.links import InputPlace, value_at
from backends.comfyui.workflow.exported.prompts import PromptChoice, negative_in, prompt_in
from backends.comfyui.workflow.graph.analysis import Medium, medium_of, saves_in
from backends.comfyui.workflow.graph.nodes import (
    Graph,
    names_in,
    words_in,
)
from backends.comfyui.workflow.template import saved_part
from queueing.core.errors import BadModel

PROMPT = "prompt"
_INTRODUCTION = re.compile(r".*<Prompt Start>\s*", re.DOTALL)  # which Lumina models expect


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A workflow as a template.

    If `candidates` are not empty, it is unsure which of these inputs is the prompt.
    """

    nodes: Graph
    changes: tuple[DraftChange, ...]
    candidates: tuple[InputPlace, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A person's choices: the inputs for texts, and the inputs that stay as they are."""

    prompt: InputPlace | None = None
    negative: InputPlace | None = None
    fixed: frozenset[InputPlace] = frozenset()


def drafted(nodes: Graph, offered: JsonValue, chosen: Chosen) -> Draft:
    """Return a workflow as a template. Keeps the placeholders that it already has.

    `offered` are the server's descriptions of node types, as far as they are known. Raises
    `BadModel` if an input that was chosen does not exist.
    """
    draft = GraphDraft(dict(nodes), chosen.fixed, offered)
    draft.clear_marks()
    draft.save_something()
    draft.complete()
    draft.load_own_images()
    draft.mask_apart()
    part = saved_part(draft.nodes)
    texts = _prompt(part, offered, chosen)
    draft.put(_texts(part, texts, chosen))
    medium = medium_of(part, saves_in(part))
    for found in _numbers(part, medium, offered):
        draft.put(found)
    draft.add_rows()
    draft.scale_first()
    return Draft(nodes=draft.nodes, changes=tuple(draft.changes), candidates=texts.candidates)


def _prompt(part: Graph, offered: JsonValue, chosen: Chosen) -> PromptChoice:
    if PROMPT in words_in(part):
        return PromptChoice()
    if chosen.prompt is None:
        return prompt_in(part, offered)
    _require(part, chosen.prompt)
    return PromptChoice(places=(chosen.prompt,))


def _require(part: Graph, place: InputPlace) -> None:
    if place.node not in part or place.name not in part[place.node].inputs:
        raise BadModel(f"{place} is not an input of a node that leads to a saved file")


def _texts(part: Graph, prompt: PromptChoice, chosen: Chosen) -> Iterator[tuple[InputPlace, str]]:
    for place in prompt.places:
        yield place, _with_prompt(str(value_at(part, place)))
    if chosen.negative is not None:
        _require(part, chosen.negative)
    negative = (chosen.negative,) if chosen.negative else negative_in(part, prompt.places)
    for place in negative:
        text = value_at(part, place)
        usual = re.sub(r"[{}]", "", text) if isinstance(text, str) else ""
        usual = "" if STANDS_FOR_NEGATIVE.fullmatch(usual) else usual
        yield place, f"{{{{negative:{usual}}}}}" if usual.strip() else "{{negative}}"


def _with_prompt(text: str) -> str:
    """Return a text with the prompt in it: in the place of another program's mark, or of all."""
    marked = with_ours(text, PROMPT)
    if names_in(marked) == {PROMPT}:
        return marked
    begins = _INTRODUCTION.match(text)
    return f"{begins[0] if begins else ''}{{{{prompt}}}}"


def _numbers(part: Graph, medium: Medium, offered: JsonValue) -> Iterator[files.Found]:
    yield values.seeds(part)
    yield values.sizes(part, medium)
    if medium is Medium.IMAGE:
        yield values.repeats(part)
    if medium is Medium.VIDEO:
        yield values.frames(part)
    if medium is Medium.SOUND:
        yield values.length(part)
    yield values.steps(part)
    yield values.guidance(part)
    yield values.methods(part)
    yield values.strength(part)
    yield files.lora(part)
    yield files.files(part, medium, offered)


def shown_candidates(nodes: Graph, places: Sequence[InputPlace]) -> Sequence[str]:
    """Return a line for each text: its input, its node, and its beginning."""
    return [
        f"{place}  {nodes[place.node].title or nodes[place.node].class_type}:"
        f" {short(value_at(nodes, place))}"
        for place in places
    ]
