"""Finds which numbers and choices of an exported workflow become placeholders. Pure.

Each function yields inputs with their placeholders, and leaves out whatever is unclear.
"""

import re
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from backends.comfyui.workflow.exported.files import LOADS_IMAGE, Found
from backends.comfyui.workflow.exported.foreign import stands_for
from backends.comfyui.workflow.exported.links import (
    InputPlace,
    behind,
    drawn_inputs,
    first_samplers,
    nearest,
    number_place,
    samplers,
    value_at,
)
from backends.comfyui.workflow.graph.analysis import Medium, plain, rate_of
from backends.comfyui.workflow.graph.nodes import Graph, link_of

_SIDES = (("width", "height"), ("empty_latent_width", "empty_latent_height"))
_SAME_SIDES = (("width", "height"), ("target_width", "target_height"))
_LENGTHS = ("length", "num_frames", "frames_number", "video_frames")
_RATES = ("fps", "frame_rate")
_SEEDS = ("seed", "noise_seed")
_BEGINS = ("start_at_step", "start_step")
_ENDS = ("end_at_step", "end_step")
_METHODS = (("sampler", "sampler_name", "sampler"), ("scheduler", "scheduler", "sigmas"))
"""Placeholders, the inputs that hold them, and the link of a sampler to a node with that input."""

_USUAL_METHOD = {"sampler": "euler", "scheduler": "normal"}
_STEPS, _GUIDANCE, _SIDE = 20, 7, 1024  # another program's placeholder
_TINY = 1e-6
_SECONDS = re.compile(r"\bseconds\b|\bduration\b", re.IGNORECASE)


def seeds(graph: Graph) -> Found:
    """Yield every seed, including texts that are another program's placeholder for it."""
    for key, node in graph.items():
        for name in _SEEDS:
            if place := number_place(graph, key, name):
                yield place, "{{seed}}"
            elif isinstance(node.inputs.get(name), str):
                yield InputPlace(node=key, name=name), "{{seed}}"


def sizes(graph: Graph, medium: Medium) -> Found:
    """Yield the width and height of the result, and the number of images."""
    for key in first_samplers(graph):
        for names in _SIDES:
            sized = nearest(graph, key, drawn_inputs(graph[key]), names)
            sides = [number_place(graph, sized, name) for name in names] if sized else []
            if sized and all(sides) and sides[0] != sides[1]:
                yield from _both_sides(graph, sides)
                if medium is Medium.IMAGE and (place := number_place(graph, sized, "batch_size")):
                    yield place, "{{count}}"
                return


def _both_sides(graph: Graph, sides: Sequence[InputPlace | None]) -> Found:
    """Yield the two sides, and all other pairs of the same size."""
    places = [place for place in sides if place]
    size = [value_at(graph, place) for place in places]
    words = [
        f"{{{{{word}:{value or _SIDE}}}}}"
        for word, value in zip(("width", "height"), size, strict=True)
    ]
    yield from zip(places, words, strict=True)
    for key, node in graph.items():
        for names in _SAME_SIDES:
            if [node.inputs.get(name) for name in names] == size:
                yield from zip(
                    (InputPlace(node=key, name=name) for name in names), words, strict=True
                )


def repeats(graph: Graph) -> Found:
    """Yield where a graph repeats its start to draw several images."""
    for key, node in graph.items():
        if node.class_type == "RepeatLatentBatch" and (place := number_place(graph, key, "amount")):
            yield place, "{{count}}"


def steps(graph: Graph) -> Found:
    """Yield the number of steps, and where two samplers that share the steps divide them.

    Yields nothing if they are divided elsewhere than in the middle.
    """
    found = [(key, _steps_of(graph, key)) for key in first_samplers(graph)]
    place = next((place for _, place in found if place), None)
    many = value_at(graph, place) if place else None
    if place is None or not isinstance(many, int):
        return
    if many <= 0:  # another program sets it
        yield place, f"{{{{steps:{_STEPS}}}}}"
        return
    sharing = [key for key in samplers(graph) if _value(graph, _steps_of(graph, key)) == many]
    parts = [part for key in sharing for part in _parts(graph, key, many)]
    half = max((many + 1) // 2, 1)
    if any(value_at(graph, part) != half for part in parts) or _is_split(graph):
        return
    for part in parts:
        yield part, "{{half_steps}}"
    for key in sharing:
        if each := _steps_of(graph, key):
            yield each, f"{{{{steps:{many}}}}}"


def _steps_of(graph: Graph, sampler: str) -> InputPlace | None:
    if "steps" in graph[sampler].inputs:
        return number_place(graph, sampler, "steps")
    planned = nearest(graph, sampler, ["sigmas"], ["steps"])
    return number_place(graph, planned, "steps") if planned else None


def _parts(graph: Graph, sampler: str, many: int) -> Iterator[InputPlace]:
    """Yield the inputs for the steps at which a sampler begins or ends."""
    for name in (*_BEGINS, *_ENDS):
        place = number_place(graph, sampler, name)
        value = _value(graph, place)
        if place and isinstance(value, int) and 0 < value < many:
            yield place


def _is_split(graph: Graph) -> bool:
    return any("step" in node.inputs and "sigmas" in node.inputs for node in graph.values())


def _value(graph: Graph, place: InputPlace | None) -> JsonValue:
    return value_at(graph, place) if place else None


def methods(graph: Graph) -> Found:
    """Yield the sampler and the scheduler of all samplers that use those of the first one."""
    for word, name, start in _METHODS:
        places = [_method_of(graph, key, name, start) for key in samplers(graph)]
        named = [place for place in places if place]
        first = _value(graph, named[0]) if named else None
        named_well = re.fullmatch(r"[\w+./-]+", str(first)) and stands_for(str(first)) is None
        usual = first if named_well else _USUAL_METHOD[word]
        for place in named:
            if value_at(graph, place) == first:
                yield place, f"{{{{{word}:{usual}}}}}"


def _method_of(graph: Graph, sampler: str, name: str, start: str) -> InputPlace | None:
    """Return the input that chooses a sampler's method, in the sampler or in a separate node."""
    key = sampler if name in graph[sampler].inputs else nearest(graph, sampler, [start], [name])
    chosen = key is not None and isinstance(graph[key].inputs[name], str)
    return InputPlace(node=key, name=name) if key is not None and chosen else None


def guidance(graph: Graph) -> Found:
    """Yield the guidance, unless it is 1, the value for models without guidance."""
    for key in first_samplers(graph):
        place = guidance_of(graph, key)
        if place and not is_one(value := value_at(graph, place)):
            places = (guidance_of(graph, each) for each in samplers(graph))
            for each in places:
                if each and value_at(graph, each) == value:
                    yield each, f"{{{{guidance:{_plain(value) or _GUIDANCE}}}}}"
            return
        guided = [
            name for name in ("positive", "guider", "conditioning") if name in graph[key].inputs
        ]
        distilled = nearest(graph, key, guided, ["guidance"])
        place = number_place(graph, distilled, "guidance") if distilled else None
        if place:
            yield place, f"{{{{guidance:{_plain(value_at(graph, place))}}}}}"
            return


def is_one(value: JsonValue) -> bool:
    """Return whether a number is 1, apart from the rounding of the editor."""
    return isinstance(value, int | float) and abs(value - 1) < _TINY


def _plain(value: JsonValue) -> JsonValue:
    return plain(round(value, 4)) if isinstance(value, float) else value


def guidance_of(graph: Graph, sampler: str) -> InputPlace | None:
    """Return where the guidance of a sampler is set."""
    if "cfg" in graph[sampler].inputs:
        return number_place(graph, sampler, "cfg")
    guider = nearest(graph, sampler, ["guider"], ["cfg"])
    return number_place(graph, guider, "cfg") if guider else None


def frames(graph: Graph) -> Found:
    """Yield the length of a video in frames, and its rate if a separate node sets it."""
    if any(_seconds(graph)):
        yield from _seconds(graph)
        return
    rates = [
        (place, f"{{{{fps:{_plain(value_at(graph, place))}}}}}")
        for key, node in graph.items()
        for name in _RATES
        if link_of(node.inputs.get(name)) and (place := number_place(graph, key, name))
    ]
    if not rates and rate_of(graph) is None:
        return
    for key in first_samplers(graph):
        for name in _LENGTHS:
            made = nearest(graph, key, drawn_inputs(graph[key]), [name])
            place = number_place(graph, made, name) if made else None
            if place:
                many = value_at(graph, place)
                yield place, f"{{{{frames:{many}}}}}"
                for other, node in graph.items():
                    same = [each for each in _LENGTHS if node.inputs.get(each) == many]
                    yield from (
                        (InputPlace(node=other, name=each), f"{{{{frames:{many}}}}}")
                        for each in same
                    )
                if rate_of(graph) is None:
                    yield from rates
                return


def _seconds(graph: Graph) -> Found:
    """Yield the numbers that the author named as a length in seconds."""
    for key, node in graph.items():
        numbers = [name for name in node.inputs if number_place(graph, key, name)]
        if _SECONDS.search(node.title) and numbers and not any(map(link_of, node.inputs.values())):
            name = "value" if "value" in numbers else numbers[0]
            yield InputPlace(node=key, name=name), f"{{{{seconds:{_plain(node.inputs[name])}}}}}"
            return


def length(graph: Graph) -> Found:
    """Yield the length of music in seconds, and its lyrics."""
    for key, node in graph.items():
        if isinstance(node.inputs.get("lyrics"), str):
            yield InputPlace(node=key, name="lyrics"), "{{lyrics:[Instrumental]}}"
    for key in graph:
        for name in ("seconds", "duration"):
            if place := number_place(graph, key, name):
                yield place, f"{{{{seconds:{_plain(value_at(graph, place))}}}}}"


def strength(graph: Graph) -> Found:
    """Yield how far a sampler departs from the image that it starts from."""
    images = {key for key, node in graph.items() if LOADS_IMAGE.match(node.class_type)}
    for key in first_samplers(graph):
        if not behind(graph, key, drawn_inputs(graph[key])) & images:
            continue
        place = number_place(graph, key, "denoise")
        if place is None and (planned := nearest(graph, key, ["sigmas"], ["denoise"])):
            place = number_place(graph, planned, "denoise")
        value = _value(graph, place)
        if place and isinstance(value, int | float) and 0 < value < 1:
            yield place, f"{{{{strength:{_plain(value)}}}}}"
            return
