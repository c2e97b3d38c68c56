"""Finds the prompt and the negative prompt of an exported workflow, or the candidates. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.workflow.exported.links import (
    NEGATIVE,
    POSITIVE,
    InputPlace,
    first_samplers,
    samplers,
    text_inputs,
    texts_behind,
    value_at,
)
from backends.comfyui.workflow.exported.values import guidance_of, is_one
from backends.comfyui.workflow.graph.node_types import input_of, rules_in
from backends.comfyui.workflow.graph.nodes import Graph, Node

_SAYS_PROMPT = re.compile(r"prompt|positive|subject|main|user", re.IGNORECASE)
_SAYS_OTHER = re.compile(
    r"neg|system|instruct|style|quality|suffix|prefix|trigger|lora|append|wildcard", re.IGNORECASE
)
_INSTRUCTS = re.compile(r"you are |your task", re.IGNORECASE)  # the system prompt of a text model
_USUAL_TITLE = re.compile(r"^CLIP Text Encode.*$|Prompt\)$")
_WRITES = re.compile(r"encode|prompt|generat|tts|speech|text|string", re.IGNORECASE)
_NO_TEXT = re.compile(r"show|display|preview|save|note|debug|compare|load", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptChoice:
    """The inputs for one text. If `places` is empty, one of the `candidates` may be the text."""

    places: tuple[InputPlace, ...] = ()
    candidates: tuple[InputPlace, ...] = ()


def prompt_in(graph: Graph, offered: JsonValue = None) -> PromptChoice:
    """Return the inputs that hold the prompt.

    `offered` are the server's descriptions of node types, as far as they are known.
    """
    firsts = first_samplers(graph)
    groups = [group for key in firsts for group in texts_behind(graph, key, POSITIVE)]
    if not firsts:
        groups = [[place] for place in _free_texts(graph, offered)]
    chosen = _chosen(graph, groups)
    if not chosen.places:
        return chosen
    same = [place for place in _all_positive(graph) if _text(graph, place) in _texts(graph, chosen)]
    return PromptChoice(places=tuple(dict.fromkeys((*chosen.places, *same))))


def negative_in(graph: Graph, prompt: Sequence[InputPlace]) -> tuple[InputPlace, ...]:
    """Return the inputs that hold the negative prompt, all with the same text.

    At a guidance of 1 a negative prompt has no effect.
    """
    guided = [key for key in first_samplers(graph) if not _is_unguided(graph, key)]
    groups = [group for key in guided for group in texts_behind(graph, key, NEGATIVE)]
    found = [place for group in groups for place in group if place not in prompt]
    if not found or len(_chosen(graph, [[place] for place in found]).places) == 0:
        return ()
    return tuple(dict.fromkeys(p for p in found if _text(graph, p) == _text(graph, found[0])))


def _is_unguided(graph: Graph, sampler: str) -> bool:
    place = guidance_of(graph, sampler)
    return place is not None and is_one(value_at(graph, place)) and not _has_nag(graph)


def _has_nag(graph: Graph) -> bool:
    return any("NAG" in node.class_type for node in graph.values())


def _chosen(graph: Graph, groups: Sequence[Sequence[InputPlace]]) -> PromptChoice:
    """Choose a text for each input of an encoder; all must be the same text, or of one node."""
    everything = tuple(dict.fromkeys(place for group in groups for place in group))
    picked = [_picked(graph, group) for group in groups]
    sure = tuple(dict.fromkeys(place for places in picked for place in places))
    if not all(picked):
        return PromptChoice(candidates=everything)
    if len({place.node for place in sure}) <= 1 or len(_spoken(graph, sure)) <= 1:
        return PromptChoice(places=sure)
    told = _told(graph, sure)
    if told and (len({place.node for place in told}) == 1 or len(_spoken(graph, told)) == 1):
        return PromptChoice(places=told)
    return PromptChoice(candidates=everything)


def _picked(graph: Graph, group: Sequence[InputPlace]) -> Sequence[InputPlace]:
    """Return the text that people change, among those that are joined for one input."""
    filled = [
        place for place in group if (text := _text(graph, place)) and not _INSTRUCTS.match(text)
    ]
    for few in (group, _told(graph, group), filled):
        if len(few) == 1 or (len(few) > 1 and _are_one(graph, few)):
            return few
    return ()


def _are_one(graph: Graph, places: Sequence[InputPlace]) -> bool:
    """Return whether these inputs hold the same text, as those of a wildcard processor do."""
    one_node = len({place.node for place in places}) == 1
    return len({_text(graph, place) for place in places}) == 1 and (
        one_node or bool(_spoken(graph, places))
    )


def _told(graph: Graph, places: Sequence[InputPlace]) -> tuple[InputPlace, ...]:
    """Return the texts that the author named as the prompt."""
    return tuple(place for place in places if _says_prompt(graph, place))


def _says_prompt(graph: Graph, place: InputPlace) -> bool:
    title = graph[place.node].title
    named = f"{'' if _USUAL_TITLE.search(title) else title} {place.name}"
    return bool(_SAYS_PROMPT.search(named)) and not _SAYS_OTHER.search(named)


def _spoken(graph: Graph, places: Sequence[InputPlace]) -> frozenset[str]:
    return frozenset(text for place in places if (text := _text(graph, place)))


def _text(graph: Graph, place: InputPlace) -> str:
    return str(value_at(graph, place) or "").strip()


def _texts(graph: Graph, chosen: PromptChoice) -> frozenset[str]:
    return _spoken(graph, chosen.places)


def _all_positive(graph: Graph) -> list[InputPlace]:
    groups = (group for key in samplers(graph) for group in texts_behind(graph, key, POSITIVE))
    return [place for group in groups for place in group]


def _free_texts(graph: Graph, offered: JsonValue) -> Sequence[InputPlace]:
    """Return the texts of a graph without samplers, those of nodes made for prompts first."""
    found = [
        InputPlace(node=key, name=name)
        for key, node in graph.items()
        if not _NO_TEXT.search(node.class_type)
        for name in text_inputs(node, POSITIVE) or _long_texts(node, offered)
        if isinstance(node.inputs[name], str)
    ]
    return [each for each in found if _WRITES.search(graph[each.node].class_type)] or found


def _long_texts(node: Node, offered: JsonValue) -> Sequence[str]:
    """Return the inputs that the server describes as texts of several lines."""
    kinds = {name: input_of(offered, node.class_type, name) for name in node.inputs}
    return [name for name, kind in kinds.items() if rules_in(kind).get("multiline")]
